"""The paper's rivals, one file per method, all with the interface of :class:`nodewise.NIGCN`.

>>> from nodewise.lab import rivals
>>> rivals.METHODS[:3]
('GCN', 'GAT', 'GraphSAGE')
>>> rivals.method("sgc").__name__
'SGC'
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodewise._util.errors import InputError

if TYPE_CHECKING:
    from nodewise.learn.estimator import NodeClassifier

# In the order of the paper's tables: the name in tables, and where the class is. torch loads when one is first used.
_HOME: Mapping[str, tuple[str, str]] = {
    "GCN": ("nodewise.lab.rivals.gcn", "GCN"),
    "GAT": ("nodewise.lab.rivals.gat", "GAT"),
    "GraphSAGE": ("nodewise.lab.rivals.graphsage", "GraphSAGE"),
    "FastGCN": ("nodewise.lab.rivals.fastgcn", "FastGCN"),
    "GraphSAINT": ("nodewise.lab.rivals.graphsaint", "GraphSAINT"),
    "ShaDow-GCN": ("nodewise.lab.rivals.shadow", "ShaDowGCN"),
    "SGC": ("nodewise.lab.rivals.sgc", "SGC"),
    "APPNP": ("nodewise.lab.rivals.appnp", "APPNP"),
    "PPRGo": ("nodewise.lab.rivals.pprgo", "PPRGo"),
    "GDC": ("nodewise.lab.rivals.gdc", "GDC"),
    "GBP": ("nodewise.lab.rivals.gbp", "GBP"),
    "AGP": ("nodewise.lab.rivals.agp", "AGP"),
    "NDLS": ("nodewise.lab.rivals.ndls", "NDLS"),
    "GRAND+": ("nodewise.lab.rivals.grandplus", "GRANDPlus"),
    "NIGCN": ("nodewise.learn.nigcn", "NIGCN"),
}

METHODS = tuple(_HOME)
__all__ = ["METHODS", "method", "method_name", "settings"]


def method_name(name: str) -> str:
    """The name as tables have it, from any spelling: ``grand+``, ``shadow-gcn``."""
    known = {n.lower(): n for n in METHODS}
    if name.lower() not in known:
        raise InputError(f"{name}: no such method; there are {', '.join(METHODS)}")
    return known[name.lower()]


def method(name: str) -> type[NodeClassifier]:
    """The class of a method, by its name in tables."""
    module, cls = _HOME[method_name(name)]
    found: type[NodeClassifier] = getattr(importlib.import_module(module), cls)
    return found


def settings(name: str, dataset: str) -> dict[str, Any]:
    """The preset of a method for a data set; for others the method's defaults, which is ``{}``."""
    if method_name(name) == "NIGCN":
        from nodewise.learn.presets import presets

        return dict(presets.get(dataset, {}))
    found: Mapping[str, Mapping[str, Any]] = getattr(method(name), "PRESETS", {})
    return dict(found.get(dataset, {}))


def __getattr__(name: str) -> Any:
    for module, cls in _HOME.values():
        if cls == name:
            return getattr(importlib.import_module(module), cls)
    raise AttributeError(f"module 'nodewise.lab.rivals' has no attribute {name!r}")
