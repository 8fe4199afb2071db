"""Methods compared on one graph and the same splits: scores, seconds and memory, each method in its own process.

Modules load on first use: a worker must notice at once that nobody waits for it, before it loads torch and numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodewise.lab.compare.results import Comparison, FinishedSplit, MethodRow
    from nodewise.lab.compare.runner import Step, compare

__all__ = ["Comparison", "FinishedSplit", "MethodRow", "Step", "compare"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'nodewise.lab.compare' has no attribute {name!r}")
    home = "runner" if name in ("Step", "compare") else "results"
    return getattr(importlib.import_module(f"nodewise.lab.compare.{home}"), name)
