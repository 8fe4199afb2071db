"""The search for a network and its training, on one diffusion: ``nodewise tune``."""

from nodewise.tuning.study import Tuned, tune
from nodewise.tuning.trials import Trial

__all__ = ["Trial", "Tuned", "tune"]
