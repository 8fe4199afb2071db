"""nodewise: labels for the nodes of very large graphs, from few known labels.

torch and numba load when something that needs them is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nodewise._version import __version__
from nodewise.errors import InputError, NodewiseError, NodewiseWarning, StoreError

if TYPE_CHECKING:
    from nodewise import synthetic
    from nodewise.datasets import load
    from nodewise.diffusion.diffuse import Diffusion, diffuse
    from nodewise.diffusion.ghd import ghd
    from nodewise.diffusion.length import diffusion_lengths, tau_distance
    from nodewise.graph import Graph
    from nodewise.ingest import import_graph, import_store
    from nodewise.learn.bound import BoundClassifier
    from nodewise.learn.nigcn import NIGCN, DiffusionConfig
    from nodewise.learn.presets import find_preset, presets
    from nodewise.store import open_store, write_store

_HOME = {
    "Graph": "nodewise.graph",
    "load": "nodewise.datasets",
    "import_graph": "nodewise.ingest",
    "import_store": "nodewise.ingest",
    "open_store": "nodewise.store",
    "write_store": "nodewise.store",
    "Diffusion": "nodewise.diffusion",
    "diffuse": "nodewise.diffusion",
    "diffusion_lengths": "nodewise.diffusion",
    "ghd": "nodewise.diffusion",
    "tau_distance": "nodewise.diffusion",
    "BoundClassifier": "nodewise.learn.bound",
    "NIGCN": "nodewise.learn",
    "DiffusionConfig": "nodewise.learn",
    "find_preset": "nodewise.learn.presets",
    "presets": "nodewise.learn",
}

__all__ = [
    "NIGCN",
    "BoundClassifier",
    "Diffusion",
    "DiffusionConfig",
    "Graph",
    "InputError",
    "NodewiseError",
    "NodewiseWarning",
    "StoreError",
    "__version__",
    "diffuse",
    "diffusion_lengths",
    "find_preset",
    "ghd",
    "import_graph",
    "import_store",
    "load",
    "open_store",
    "presets",
    "synthetic",
    "tau_distance",
    "write_store",
]


def __getattr__(name: str) -> Any:
    if name == "synthetic":
        return importlib.import_module("nodewise.synthetic")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nodewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
