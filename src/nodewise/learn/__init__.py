"""From representations to labels: the network, its training, the estimator and its saved form."""

from nodewise.learn.nigcn import NIGCN, DiffusionConfig
from nodewise.learn.presets import presets

__all__ = ["NIGCN", "DiffusionConfig", "presets"]
