"""Labels and splits from files for a graph that is there already."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.types import IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.csv import NODE_NAMES
from nodewise.formats.label_files import labels_of_nodes, read_labels, whole_columns
from nodewise.formats.split_file import read_split_file
from nodewise.formats.tables import ReadOptions, is_array_file, open_table
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.names import expected_name, places_of
from nodewise.graph.splits import PARTS, Split, checked_split

# How tables call the parts of a split, and how they are called here.
PART_WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}


def with_labels(graph: Graph, path: str | os.PathLike[str], multilabel: bool = False) -> Graph:
    """The graph with the labels of a file as for ``nodewise import --labels``; nodes that it does not list have none.

    ``multilabel``: nodes may have several labels, one row each.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text("node,label\\n2,red\\n0,blue\\n")
    >>> g = with_labels(Graph.from_edges([[0, 1], [1, 2]]), file)
    >>> g.labels.tolist(), g.label_names
    ([0, -1, 1], ['blue', 'red'])
    """
    options = ReadOptions(multilabel=multilabel)
    memory = memory_budget(None)
    file = read_labels(Path(path), options, graph.node_names is not None, memory)
    labels, names = labels_of_nodes(file, None if file.nodes is None else _nodes(graph, file.nodes), memory)
    if file.nodes is not None:
        missing = ((0, graph.num_nodes - labels.shape[0]), *[(0, 0)] * (labels.ndim - 1))
        labels = np.pad(labels, missing, constant_values=UNKNOWN if labels.ndim == 1 else 0)
    if labels.shape[0] != graph.num_nodes:
        raise InputError(
            f"{path}: {labels.shape[0]:,} labels for the {graph.num_nodes:,} nodes of {graph.name}; expected one per "
            f"node, or a table of nodes and labels"
        )
    return graph.replace(labels=labels, label_names=names, splits={})


def read_splits(graph: Graph, path: Path) -> list[Split]:
    """The splits in a file: an ``.npz`` file, or a table with a column of nodes and one of parts.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "parts.csv"
    >>> _ = file.write_text("node,part\\n0,train\\n1,test\\n2,val\\n")
    >>> [part.tolist() for part in read_splits(Graph.from_edges([[0, 1], [1, 2]]), file)[0]]
    [[0], [2], [1]]
    """
    if is_array_file(path):
        return read_split_file(path, graph.num_nodes)
    table = open_table(path, ReadOptions())
    first = [name.strip().lower() for name in table.names]
    if table.named and len(first) == 2 and first[0] not in NODE_NAMES and first[1] in PART_WORDS:  # a row, no header
        table = open_table(path, ReadOptions(header=False))
    if len(table.names) != 2:
        raise InputError(f"{path}: has the columns {', '.join(table.names)[:80]}; expected two, the node and its part")
    ids, parts = whole_columns(table, dict.fromkeys((0, 1), pa.large_string()), memory_budget(None))
    nodes = _nodes(graph, columns.ids(ids, graph.node_names is not None))
    words = pc.utf8_lower(pc.utf8_trim_whitespace(parts.values.cast(pa.large_string())))
    places = pc.index_in(words, value_set=pa.array(list(PART_WORDS), pa.large_string()))
    wrong = pc.index(pc.is_null(places), True).as_py()
    if wrong >= 0:
        raise parts.wrong(wrong, f"expected one of {', '.join(PART_WORDS)}")
    owner = np.array([PARTS.index(part) for part in PART_WORDS.values()])[places.to_numpy()]
    return [checked_split(str(path), {part: nodes[owner == i] for i, part in enumerate(PARTS)}, graph.num_nodes)]


def _nodes(graph: Graph, ids: Column) -> IntArray:
    """The nodes that a column names, or the error for the first that the graph does not have."""
    if graph.node_names is None:
        most = graph.num_nodes - 1
        return columns.as_whole(ids, 0, f"node ids of {graph.name} are whole numbers from 0 to {most:,}", most)
    names = columns.as_text(ids).to_pylist()
    nodes = places_of(names, graph.node_names)
    if (nodes < 0).any():
        wrong = int(np.argmin(nodes))
        raise ids.wrong(
            wrong, f"there is no such node in {graph.name}; {expected_name(names[wrong], graph.node_names)}"
        )
    return nodes
