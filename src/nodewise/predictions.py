"""Predictions as a table: original node names, label names, probabilities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._typing import AnyArray, IntArray
from nodewise.atomic import new_file
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.learn.decoupled import DecoupledClassifier
from nodewise.store import Names

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
        lines = [line.strip() for line in Path(nodes).read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{nodes}: cannot be read as a list of nodes ({error}); expected 'all' or a text file"
        ) from error
    wanted = [line for line in lines if line]
    if graph.node_names is None:
        found = np.array([int(line) if line.isdecimal() and len(line) < 19 else -1 for line in wanted], np.int64)
        found[found >= graph.num_nodes] = -1
    else:
        names = Names.of(graph.node_names).arrow
        found = pc.fill_null(pc.index_in(pa.array(wanted, names.type), value_set=names), -1).to_numpy().astype(np.int64)
    if (found < 0).any():
        line = wanted[int(np.argmin(found))]
        kind = "a node's name" if graph.node_names is not None else f"a whole number from 0 to {graph.num_nodes - 1:,}"
        raise InputError(f"{nodes}: line {lines.index(line) + 1:,} is {line!r}; expected {kind}")
    return found


def check_output(path: Path) -> None:
    """Raise before any work is done for a file that could not be written in a known format."""
    if path.is_dir():
        raise InputError(f"{path}: this is a folder; expected the name of a .parquet or .csv file")
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unknown format {path.suffix!r}; expected a name that ends in .parquet or .csv")


def write_predictions(table: pa.Table, path: Path) -> None:
    """Write the table, whole or not at all."""
    import pyarrow.csv
    import pyarrow.parquet

    check_output(path)
    with new_file(path) as temporary:
        if path.suffix.lower() == ".csv":
            pyarrow.csv.write_csv(table, temporary)
        else:
            pyarrow.parquet.write_table(table, temporary)


def _node_column(graph: Graph, nodes: IntArray) -> AnyArray | pa.Array:
    if graph.node_names is None:
        return nodes
    return Names.of(graph.node_names).take(nodes)


def _label_column(model: DecoupledClassifier, columns: IntArray) -> AnyArray | pa.Array:
    labels = model.classes_[columns]
    if model.label_names_ is None:
        return np.asarray(labels)
    return pa.array(model.label_names_, pa.string()).take(pa.array(labels))
