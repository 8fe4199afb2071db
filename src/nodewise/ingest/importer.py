"""Files of edges, features and labels -> one Graph."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from nodewise.atomic import AnyPath
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.ingest.edges import read_edges
from nodewise.ingest.features import read_features, rows_of_nodes
from nodewise.ingest.ids import Files, Numbering, all_text, ids_are_whole, number_by_name, number_by_value
from nodewise.ingest.labels import labels_of_nodes, read_labels

Ids = Literal["auto", "integers", "names"]


def import_graph(
    edges: AnyPath,
    features: AnyPath | None = None,
    labels: AnyPath | None = None,
    *,
    ids: Ids = "auto",
    header: bool | None = None,
    add_missing_nodes: bool = False,
    name: str | None = None,
) -> Graph:
    """A graph from files: CSV, TSV (also gzipped), Parquet, ``.npy`` or ``.npz``.

    ``ids``: "integers" are the nodes 0 to n-1 themselves, "names" are any text or numbers, kept as ``node_names``;
    "auto" takes them as integers where every id in every file is a number.

    ``header`` says whether text files begin with the names of their columns. None finds out: a first line is a row
    where one of its first two fields is a number, and column names otherwise.

    Edges are undirected: the first two columns, or those called source/target, src/dst, from/to or u/v, and a weight in
    a column called weight or w, or in a third column of numbers. Features are rows with a first column ``node``, ``id``
    or ``name``, or rows in the order of integer ids; every node needs one, unless ``add_missing_nodes`` gives zeros to
    those that have none. Labels are (node, label) in any order, or an array; an empty label is unknown.
    """
    if ids not in ("auto", "integers", "names"):
        raise InputError(f"ids={ids!r}: expected 'auto', 'integers' or 'names'")
    files = _read(edges, features, labels, header, ids == "names")
    if ids == "auto":
        ids = "integers" if ids_are_whole(files) else "names"
        if ids == "names" and not all_text(files):
            files = _read(edges, features, labels, header, True)  # as a name, 007 is not 7
    number = number_by_value if ids == "integers" else number_by_name
    numbering = number(files, add_missing_nodes)
    return _graph(files, numbering, add_missing_nodes, name or Path(edges).name.split(".")[0])


def _read(
    edges: AnyPath, features: AnyPath | None, labels: AnyPath | None, header: bool | None, ids_are_text: bool
) -> Files:
    return Files(
        read_edges(Path(edges), header, ids_are_text),
        None if features is None else read_features(Path(features), header, ids_are_text),
        None if labels is None else read_labels(Path(labels), header, ids_are_text),
    )


def _graph(files: Files, numbering: Numbering, add_missing: bool, name: str) -> Graph:
    nodes = numbering.num_nodes
    if nodes == 0:
        raise InputError(
            f"{files.edges.path}: the graph is empty; expected at least one edge, or nodes in another file"
        )
    _check_counts(files, numbering, add_missing)
    rows = labels = label_names = None
    if files.features is not None:
        rows = rows_of_nodes(files.features, numbering.of_features, nodes)
    if files.labels is not None:
        labels, label_names = labels_of_nodes(files.labels, numbering.of_labels, nodes)
    return Graph.from_edges(
        numbering.edge_index,
        nodes,
        rows,
        labels,
        edge_weight=files.edges.weights,
        node_names=numbering.names,
        label_names=label_names,
        name=name,
    )


def _check_counts(files: Files, numbering: Numbering, add_missing: bool) -> None:
    """Arrays in node order, and a matrix of edges, must be about the same number of nodes."""
    nodes = numbering.num_nodes
    counts = []
    if files.labels is not None and files.labels.array is not None:
        counts.append((files.labels.path, files.labels.array.shape[0], "labels"))
    if files.edges.num_nodes is not None and numbering.names is None:
        counts.append((files.edges.path, files.edges.num_nodes, "rows of the matrix"))
    for path, count, what in counts:
        if count > nodes or (count < nodes and not add_missing):
            raise InputError(
                f"{path}: {count:,} {what} for {nodes:,} nodes; expected one a node. Check that the files are of the "
                f"same graph"
            )
