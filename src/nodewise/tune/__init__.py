"""The search for a network and its training, on one diffusion: ``nodewise tune``."""

from nodewise.tune.study import Tuned, tune
from nodewise.tune.trials import Trial

__all__ = ["Trial", "Tuned", "tune"]
