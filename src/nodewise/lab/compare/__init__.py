"""Methods compared on one graph and the same splits: scores, seconds and memory, each method in its own process.

torch and numba load when something that needs them is first used: a worker must hear at once that it is not wanted.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodewise.lab.compare.results import Comparison, FinishedSplit, MethodRow
    from nodewise.lab.compare.runner import Step, compare

_HOME = {
    "Comparison": "nodewise.lab.compare.results",
    "FinishedSplit": "nodewise.lab.compare.results",
    "MethodRow": "nodewise.lab.compare.results",
    "Step": "nodewise.lab.compare.runner",
    "compare": "nodewise.lab.compare.runner",
}

__all__ = ["Comparison", "FinishedSplit", "MethodRow", "Step", "compare"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nodewise.lab.compare' has no attribute {name!r}")
