"""nodewise: labels for the nodes of very large graphs, from few known labels.

torch and numba load when something that needs them is first used.

>>> import nodewise as nw
>>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
>>> model = nw.NIGCN().fit(g, train=range(60), val=range(60, 120))
>>> model.predict(g, [200, 300, 400]).shape
(3,)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nodewise._util.errors import InputError, NodewiseError, NodewiseWarning, StoreError
from nodewise._version import __version__

if TYPE_CHECKING:
    from nodewise.datasets import load
    from nodewise.diffusion.diffuse import Diffusion, diffuse
    from nodewise.diffusion.ghd import ghd
    from nodewise.diffusion.length import diffusion_lengths, tau_distance
    from nodewise.diffusion.params import DiffusionConfig
    from nodewise.explaining.explain import explain
    from nodewise.graph import Graph, synthetic
    from nodewise.importing import append_store, import_graph, import_store
    from nodewise.learn.bound_classifier import BoundClassifier
    from nodewise.learn.nigcn import NIGCN
    from nodewise.learn.presets import find_preset, presets
    from nodewise.report.report_page import write_report
    from nodewise.store import open_store, write_store

_HOME = {
    "Graph": "nodewise.graph",
    "load": "nodewise.datasets",
    "append_store": "nodewise.importing",
    "import_graph": "nodewise.importing",
    "import_store": "nodewise.importing",
    "open_store": "nodewise.store",
    "write_store": "nodewise.store",
    "Diffusion": "nodewise.diffusion.diffuse",
    "diffuse": "nodewise.diffusion.diffuse",
    "diffusion_lengths": "nodewise.diffusion.length",
    "explain": "nodewise.explaining.explain",
    "ghd": "nodewise.diffusion.ghd",
    "tau_distance": "nodewise.diffusion.length",
    "BoundClassifier": "nodewise.learn.bound_classifier",
    "NIGCN": "nodewise.learn.nigcn",
    "DiffusionConfig": "nodewise.diffusion.params",
    "find_preset": "nodewise.learn.presets",
    "write_report": "nodewise.report.report_page",
    "presets": "nodewise.learn.presets",
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
    "append_store",
    "diffuse",
    "diffusion_lengths",
    "explain",
    "find_preset",
    "ghd",
    "import_graph",
    "import_store",
    "load",
    "open_store",
    "presets",
    "synthetic",
    "tau_distance",
    "write_report",
    "write_store",
]


def __getattr__(name: str) -> Any:
    if name == "synthetic":
        return importlib.import_module("nodewise.graph.synthetic")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nodewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
