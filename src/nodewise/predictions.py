"""Predictions and representations as tables: original node names, label names, probabilities, rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._typing import AnyArray, FloatArray, IntArray
from nodewise.atomic import new_file
from nodewise.errors import InputError
from nodewise.graph import Graph
from nodewise.learn.decoupled import DecoupledClassifier
from nodewise.store import Names

FORMATS: Mapping[str, tuple[str, ...]] = {"predict": (".parquet", ".csv"), "embed": (".parquet",)}


def predicted(model: DecoupledClassifier, graph: Graph, nodes: IntArray, rows: FloatArray) -> pa.Table:
    """What the model makes of the rows of ``nodes``: columns ``node``, ``label``, ``probability``.

    Where nodes have several labels, a row for each one predicted.
    """
    proba = model.proba_of_rows(rows)
    if model.multilabel_:
        places, columns = np.nonzero(proba > 0.5)
    else:
        places, columns = np.arange(nodes.size), proba.argmax(1)
    return pa.table(
        {
            "node": _node_column(graph, nodes[places]),
            "label": _label_column(model, columns),
            "probability": proba[places, columns].astype(np.float32),
        }
    )


def represented(graph: Graph, nodes: IntArray, rows: FloatArray) -> pa.Table:
    """Columns ``node`` and ``representation``, a list of numbers a node."""
    numbers = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(numbers, rows.shape[1])
    return pa.table({"node": _node_column(graph, nodes), "representation": lists})


def read_nodes(nodes: str, graph: Graph) -> IntArray | None:
    """The nodes that a text file lists, one a line: names where the graph has names, else ids. None for ``"all"``."""
    if nodes == "all":
        return None
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


def is_one_file(path: Path, formats: Sequence[str]) -> bool:
    """Whether an output of that name is one file, or else a folder of shards; raises where it looks like neither."""
    suffix = path.suffix.lower()
    if suffix in formats:
        if path.is_dir():
            raise InputError(f"{path}: this is a folder; expected the name of a {' or '.join(formats)} file")
        return True
    if path.is_dir():
        return False
    if suffix[1:].isalpha():
        raise InputError(
            f"{path}: unknown format {suffix!r}; expected a name that ends in {' or '.join(formats)} for one file, or "
            f"a name without an ending for a folder of shards"
        )
    return False


def write_tables(
    path: Path, tables: Iterator[pa.Table], form: str, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """One file from tables of one schema, of which there is at least one; ``form`` is .parquet or .csv."""
    first = next(tables)
    schema = first.schema.with_metadata(metadata)
    if form == ".csv":
        from pyarrow.csv import CSVWriter

        writer = CSVWriter(path, schema)
    else:
        from pyarrow.parquet import ParquetWriter

        writer = ParquetWriter(path, schema, use_dictionary=["label"])
    with writer:
        for table in chain([first], tables):
            writer.write_table(table)


def join_shards(shards: Sequence[Path], path: Path) -> None:
    """One file from Parquet shards, in their order; no more than a part of a shard is held in memory."""
    with new_file(path) as temporary:
        write_tables(temporary, _parts(shards), path.suffix.lower())


def _parts(shards: Sequence[Path]) -> Iterator[pa.Table]:
    from pyarrow.parquet import ParquetFile

    for shard in shards:
        with ParquetFile(shard) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group).replace_schema_metadata({})


def _node_column(graph: Graph, nodes: IntArray) -> AnyArray | pa.Array:
    if graph.node_names is None:
        return nodes
    return Names.of(graph.node_names).take(nodes)


def _label_column(model: DecoupledClassifier, columns: IntArray) -> AnyArray | pa.Array:
    labels = model.classes_[columns]
    if model.label_names_ is None:
        return np.asarray(labels)
    return pa.array(model.label_names_, pa.string()).take(pa.array(labels))
