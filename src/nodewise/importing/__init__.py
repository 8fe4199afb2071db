"""Import files of any size into a store, or into a Graph, within a memory budget."""

from __future__ import annotations

from nodewise.importing.building import import_raw
from nodewise.importing.importer import append_store, import_graph, import_store

__all__ = ["append_store", "import_graph", "import_raw", "import_store"]
