"""The paper's rivals, one file per method, all with the interface of :class:`nodewise.NIGCN`.

>>> from nodewise.lab import rivals
>>> rivals.METHODS[:3]
('GCN', 'GAT', 'GraphSAGE')
>>> import nodewise as nw
>>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
>>> rivals.method("sgc")(seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nodewise._util.errors import InputError

if TYPE_CHECKING:
    from nodewise.learn.estimator import NodeClassifier

# In the order of the paper's tables: the name in tables, the class and its module. torch loads when one is first used.
_HOME = {
    "GCN": ("GCN", "gcn"),
    "GAT": ("GAT", "gat"),
    "GraphSAGE": ("GraphSAGE", "graphsage"),
    "FastGCN": ("FastGCN", "fastgcn"),
    "GraphSAINT": ("GraphSAINT", "graphsaint"),
    "ShaDow-GCN": ("ShaDowGCN", "shadow"),
    "SGC": ("SGC", "sgc"),
    "APPNP": ("APPNP", "appnp"),
    "PPRGo": ("PPRGo", "pprgo"),
    "GDC": ("GDC", "gdc"),
    "GBP": ("GBP", "gbp"),
    "AGP": ("AGP", "agp"),
    "NDLS": ("NDLS", "ndls"),
    "GRAND+": ("GRANDPlus", "grandplus"),
    "NIGCN": ("NIGCN", "nodewise.learn.nigcn"),
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
    return _load(*_HOME[method_name(name)])


def settings(name: str, dataset: str) -> dict[str, Any]:
    """The preset of a method for a data set; for others the method's defaults, which is ``{}``."""
    if method_name(name) == "NIGCN":
        from nodewise.learn.presets import presets

        return dict(presets.get(dataset, {}))
    found: Any = method(name)
    return dict(found.PRESETS.get(dataset, {}))


def __getattr__(name: str) -> type[NodeClassifier]:
    classes = dict(_HOME.values())
    if name not in classes:
        raise AttributeError(f"module 'nodewise.lab.rivals' has no attribute {name!r}")
    return _load(name, classes[name])


def _load(name: str, module: str) -> type[NodeClassifier]:
    found: type[NodeClassifier] = getattr(import_module(module if "." in module else f"{__name__}.{module}"), name)
    return found
