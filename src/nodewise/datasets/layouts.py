"""A folder or zip recognised by what is in it."""

from __future__ import annotations

from pathlib import Path

from nodewise.datasets import graphsaint, ogb
from nodewise.datasets.archive import open_files
from nodewise.ingest.raw import RawGraph


def read_layout(path: str | Path) -> RawGraph | None:
    """The graph in a folder or zip of OGB or GraphSAINT; None for anything else, such as a table or an ``.npz``."""
    path = Path(path)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return None
    files = open_files(path)
    if files.root(ogb.CSV_MARK, ogb.BINARY_MARK) is not None:
        return ogb.read_ogb(path)
    if files.root(graphsaint.MARK) is not None:
        return graphsaint.read_graphsaint(path)
    return None
