"""A Graph on disk: a folder of plain arrays and a manifest that says what must be in them.

Every file is an ``.npy`` that any tool can read (names: Parquet), mapped into memory read-only, so that a store opens
in milliseconds at any size. The manifest keeps a SHA-256 for each block of each file.
"""

from nodewise.graph.names import Names
from nodewise.store.manifest import MANIFEST, is_store, read_manifest
from nodewise.store.reading import open_store, verify_store
from nodewise.store.writing import write_store

__all__ = ["MANIFEST", "Names", "is_store", "open_store", "read_manifest", "verify_store", "write_store"]
