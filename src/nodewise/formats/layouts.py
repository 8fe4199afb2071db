"""Recognise a folder or zip in the layout of OGB or GraphSAINT by its content."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nodewise.formats import graphsaint_files as graphsaint
from nodewise.formats import ogb
from nodewise.formats.raw_graph import RawGraph
from nodewise.formats.unpack import open_files


@contextmanager
def open_layout(path: Any) -> Iterator[Callable[..., RawGraph] | None]:
    """A reader of the graph in a folder or zip of OGB or GraphSAINT; None for anything else, such as a table.

    It takes the bytes of memory that it may use. Members that it extracts from a zip exist until the end of the block.
    """
    if not isinstance(path, Path) or not (path.is_dir() or path.suffix.lower() == ".zip"):
        yield None
        return
    with open_files(path) as files:
        if files.root(ogb.CSV_MARK, ogb.BINARY_MARK) is not None:
            yield functools.partial(ogb.read_ogb, files)
        elif files.root(graphsaint.MARK) is not None:
            yield functools.partial(graphsaint.read_graphsaint, files)
        else:
            yield None
