"""Edge lists and tables -> Graph."""

from __future__ import annotations

from nodewise.ingest.importer import import_graph

__all__ = ["import_graph"]
