"""Predictions as a table: original node names, label names, probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from nodewise._typing import AnyArray, IntArray
from nodewise.atomic import new_file
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.learn.decoupled import DecoupledClassifier

FORMATS = (".parquet", ".csv")


def predictions(model: DecoupledClassifier, graph: Graph, nodes: IntArray) -> pa.Table:
    """Columns ``node``, ``label``, ``probability``; where nodes have several labels, a row for each one predicted."""
    proba = model.predict_proba(graph, nodes)
    if model.multilabel_:
        rows, columns = np.nonzero(proba > 0.5)
    else:
        rows, columns = np.arange(nodes.size), proba.argmax(1)
    return pa.table(
        {
            "node": _node_column(graph, nodes[rows]),
            "label": _label_column(model, columns),
            "probability": proba[rows, columns].astype(np.float32),
        }
    )


def read_nodes(nodes: str, graph: Graph) -> IntArray:
    """``"all"``, or the nodes that a text file lists, one a line: names where the graph has names, else ids."""
    if nodes == "all":
        return np.arange(graph.num_nodes)
    try:
        lines = [line.strip() for line in Path(nodes).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{nodes}: cannot be read as a list of nodes ({error}); expected 'all' or a text file"
        ) from error
    wanted = [(number, line) for number, line in enumerate(lines, 1) if line]
    if graph.node_names is None:
        position = {str(i): i for i in range(graph.num_nodes)} if len(wanted) > 1000 else None
    else:
        position = {name: i for i, name in enumerate(graph.node_names)}
    return np.array([_find(nodes, number, line, position, graph) for number, line in wanted], np.int64)


def check_output(path: Path) -> None:
    """Raise before any work is done for a file that could not be written in a known format."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: unknown format {path.suffix!r}; expected a name that ends in .parquet or .csv")


def write_predictions(table: pa.Table, path: Path) -> None:
    """Write the table, whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    check_output(path)
    with new_file(path) as temporary:
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, temporary)
        else:
            pyarrow.parquet.write_table(table, temporary)


def _find(file: str, number: int, line: str, position: dict[str, int] | None, graph: Graph) -> int:
    if position is not None and line in position:
        return position[line]
    if position is None and line.isdecimal() and int(line) < graph.num_nodes:
        return int(line)
    expected = "a node's name" if graph.node_names is not None else f"a whole number from 0 to {graph.num_nodes - 1:,}"
    raise InputError(f"{file}: line {number:,} is {line!r}; expected {expected}")


def _node_column(graph: Graph, nodes: IntArray) -> AnyArray | pa.Array:
    if graph.node_names is None:
        return nodes
    return pa.array([graph.node_names[i] for i in nodes], pa.string())


def _label_column(model: DecoupledClassifier, columns: IntArray) -> AnyArray | pa.Array:
    labels = model.classes_[columns]
    if model.label_names_ is None:
        return np.asarray(labels)
    return pa.array(model.label_names_, pa.string()).take(pa.array(labels))
