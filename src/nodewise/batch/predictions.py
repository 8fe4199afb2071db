"""Predictions and representations as tables: original node names, label names, probabilities, rows of numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodewise._util.atomic import new_file
from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import check_number
from nodewise.learn.calibrate import sets_of
from nodewise.learn.nigcn import NIGCN
from nodewise.store import Names

COMPARED = 10_000  # names, with one that does not exist
FORMATS: Mapping[str, tuple[str, ...]] = {"predict": (".parquet", ".csv"), "embed": (".parquet",)}


def predicted(
    model: NIGCN,
    graph: Graph,
    nodes: IntArray,
    rows: FloatArray,
    coverage: float | None = None,
    min_confidence: float | None = None,
) -> pa.Table:
    """The labels of ``nodes``, predicted from their rows: columns ``node``, ``label``, ``probability``.

    One row per node; where nodes have several labels, one per label. ``coverage``: one row for each class in the node's
    conformal set, the most probable first. ``min_confidence``: the label of a node whose largest probability is lower
    is null; where nodes have several labels, those that are less probable are left out.
    """
    proba, least = model.proba_of_rows(rows), np.float32(min_confidence or 0)
    places, columns = _chosen(model, proba, coverage, least)
    chance = proba[places, columns].astype(np.float32)
    return pa.table(
        {
            "node": _node_column(graph, nodes[places]),
            "label": _label_column(model, columns, chance >= least),
            "probability": chance,
        }
    )


def _chosen(model: NIGCN, proba: FloatArray, coverage: float | None, least: np.float32) -> tuple[IntArray, IntArray]:
    """Which node gets which label: the positions of both, nodes in order; of several labels, none below ``least``."""
    if coverage is not None:
        places, columns = np.nonzero(sets_of(proba, model.set_threshold(coverage)))
        order = np.lexsort((-proba[places, columns], places))
        return places[order], columns[order]
    if model.multilabel_:
        places, columns = np.nonzero((model.labels_of_proba(proba) == 1) & (proba >= least))
        return places, columns
    return np.arange(proba.shape[0]), proba.argmax(1)


def check_choice(kind: str, coverage: float | None, min_confidence: float | None) -> None:
    """Raise unless at most one of the two is given, for predictions, and in its range."""
    given = [name for name, value in (("coverage", coverage), ("min_confidence", min_confidence)) if value is not None]
    if given and kind != "predict":
        raise InputError(f"{given[0]}: {kind} writes no labels; leave it out, or predict")
    if len(given) == 2:
        raise InputError(
            "coverage and min_confidence exclude each other: one gives every node a set of labels, the other leaves "
            "uncertain nodes without a label; pass one of them"
        )
    if coverage is not None:
        check_number("coverage", coverage, "a number above 0 and below 1", 0, 1, strictly=True)
    if min_confidence is not None:
        check_number("min_confidence", min_confidence, "a number from 0 to 1", 0, math.nextafter(1, 2))


def represented(graph: Graph, nodes: IntArray, rows: FloatArray) -> pa.Table:
    """Columns ``node`` and ``representation``, one list of numbers per node."""
    numbers = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(numbers, rows.shape[1])
    return pa.table({"node": _node_column(graph, nodes), "representation": lists})


def read_nodes(nodes: str, graph: Graph) -> IntArray | None:
    """The nodes that a text file lists, one per line: names where the graph has names, else ids. None for ``"all"``."""
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
        expected = f"expected a whole number from 0 to {graph.num_nodes - 1:,}"
        if graph.node_names is not None:
            expected = f"expected a node's name{_nearest(line, Names.of(graph.node_names))}"
        raise InputError(f"{nodes}: line {lines.index(line) + 1:,} is {line!r}, and there is no such node; {expected}")
    return found


def _nearest(name: str, names: Names) -> str:
    """The name most like a wrong one, as a question; of many names, only some are compared."""
    alike = pc.starts_with(names.arrow, name[:1], ignore_case=True)
    length = pc.utf8_length(names.arrow)
    alike = pc.and_(alike, pc.and_(pc.greater_equal(length, len(name) - 2), pc.less_equal(length, len(name) + 2)))
    close = difflib.get_close_matches(name, names.arrow.filter(alike).slice(0, COMPARED).to_pylist(), n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def is_one_file(path: Path, formats: Sequence[str]) -> bool:
    """Whether ``path`` names one file or a folder of shards; raises where it looks like neither."""
    suffix, known = path.suffix.lower(), " or ".join(formats)
    if suffix in formats and path.is_dir():
        raise InputError(f"{path}: this is a folder; expected the name of a {known} file")
    if suffix not in formats and suffix[1:].isalpha() and not path.is_dir():
        raise InputError(
            f"{path}: unknown format {suffix!r}; expected a name that ends in {known} for one file, or a name without "
            f"an ending for a folder of shards"
        )
    return suffix in formats


def write_tables(
    path: Path, tables: Iterator[pa.Table], form: str, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Write one file from one or more tables of the same schema; ``form`` is .parquet or .csv."""
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
    """Join Parquet shards into one file, in order; no more than a part of a shard is held in memory."""
    with new_file(path) as temporary:
        write_tables(temporary, _parts(shards), path.suffix.lower())


def _parts(shards: Sequence[Path]) -> Iterator[pa.Table]:
    from pyarrow.parquet import ParquetFile

    for shard in shards:
        with ParquetFile(shard) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group).replace_schema_metadata({})


def _node_column(graph: Graph, nodes: IntArray) -> AnyArray | pa.Array:
    return nodes if graph.node_names is None else Names.of(graph.node_names).take(nodes)


def _label_column(model: NIGCN, columns: IntArray, known: BoolArray) -> pa.Array:
    """Labels, by name where there are names; null where not ``known``."""
    labels = pa.array(model.classes_[columns], mask=~known)
    return labels if model.label_names_ is None else pa.array(model.label_names_, pa.string()).take(labels)
