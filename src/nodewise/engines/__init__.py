"""Work in pieces, here or on a Ray cluster: predictions and representations for all nodes of a graph of any size."""

from __future__ import annotations

from nodewise.engines.rows import row_maker
from nodewise.engines.runner import run

__all__ = ["row_maker", "run"]
