"""The search for a network and its training, on one diffusion: ``nodewise tune``."""

from nodewise.tuning.study import Trial, Tuned, tune

__all__ = ["Trial", "Tuned", "tune"]
