"""Labels from a file for a graph that is there already, in place of its own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.types import IntArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.label_files import labels_of_nodes, read_labels
from nodewise.formats.tables import ReadOptions
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.store.names import Names


def with_labels(graph: Graph, path: str | os.PathLike[str]) -> Graph:
    """The graph with the labels of a file as for ``nodewise import --labels``; nodes that it does not list have none.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels.csv"
    >>> _ = file.write_text("node,label\\n2,red\\n0,blue\\n")
    >>> g = with_labels(Graph.from_edges([[0, 1], [1, 2]]), file)
    >>> g.labels.tolist(), g.label_names
    ([0, -1, 1], ['blue', 'red'])
    """
    file = read_labels(Path(path), ReadOptions(), graph.node_names is not None, memory_budget(None))
    labels, names = labels_of_nodes(file, None if file.nodes is None else _nodes(graph, file.nodes))
    if file.nodes is not None:
        labels = np.pad(labels, (0, graph.num_nodes - labels.size), constant_values=UNKNOWN)
    if labels.shape[0] != graph.num_nodes:
        raise InputError(
            f"{path}: {labels.shape[0]:,} labels for the {graph.num_nodes:,} nodes of {graph.name}; expected one per "
            f"node, or a table of nodes and labels"
        )
    return graph.replace(labels=labels, label_names=names, splits={})


def _nodes(graph: Graph, ids: Column) -> IntArray:
    """The nodes that a column names, or the error for the first that the graph does not have."""
    if graph.node_names is None:
        most = graph.num_nodes - 1
        return columns.as_whole(ids, 0, f"node ids of {graph.name} are whole numbers from 0 to {most:,}", most)
    found = pc.index_in(columns.as_text(ids), value_set=Names.of(graph.node_names).arrow)
    nodes: IntArray = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    if (nodes < 0).any():
        raise ids.wrong(int(np.argmin(nodes)), f"expected the name of a node of {graph.name}")
    return nodes
