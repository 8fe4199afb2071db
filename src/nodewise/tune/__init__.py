"""``nodewise tune``: search for the parameters of diffusion, network and training that suit a graph best."""

from nodewise.tune.study import Tuned, tune
from nodewise.tune.trials import Trial

__all__ = ["Trial", "Tuned", "tune"]
