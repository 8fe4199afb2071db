"""Predictions and representations as tables: original node names, label names, probabilities, rows of numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodewise._util.atomic import new_file
from nodewise._util.errors import InputError
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN, check_number
from nodewise.graph.names import expected_name, places_of
from nodewise.learn.calibrate import sets_of
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.task import check_whole
from nodewise.store import Names

FORMATS: Mapping[str, tuple[str, ...]] = {"predict": (".parquet", ".csv"), "embed": (".parquet",)}
COLUMNS = ("node", "label", "probability", "known")  # of predictions


@dataclass(frozen=True)
class LabelChoice:
    """Which labels are written for a node, and what beside them.

    By default the most probable label; where nodes have several, all that are probable enough. ``coverage``: each class
    in the node's conformal set, the most probable first. ``min_confidence``: no label where the largest probability is
    lower; where nodes have several, only labels that reach it. ``top``: this many labels, the most probable first.
    ``keep_known``: a node whose label the graph knows keeps it, with probability 1. ``all_probabilities``: a column for
    each class; where nodes have several labels, one row per node then, with the most probable one.
    """

    coverage: float | None = None
    min_confidence: float | None = None
    top: int | None = None
    keep_known: bool = False
    all_probabilities: bool = False

    @property
    def given(self) -> dict[str, Any]:
        """What the user asked for."""
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}

    def check(self, kind: str) -> None:
        """Raise unless these go together, for predictions, and are in their ranges."""
        if self.given and kind != "predict":
            raise InputError(f"{next(iter(self.given))}: {kind} writes no labels; leave it out, or predict")
        rules = [name for name in ("coverage", "min_confidence", "top") if name in self.given]
        if len(rules) > 1:
            raise InputError(
                f"{rules[0]} and {rules[1]} exclude each other: each is a rule of its own for which labels are "
                f"written; pass one of them"
            )
        if self.coverage is not None:
            check_number("coverage", self.coverage, "a number above 0 and below 1", 0, 1, strictly=True)
        if self.min_confidence is not None:
            check_number("min_confidence", self.min_confidence, "a number from 0 to 1", 0, math.nextafter(1, 2))
        if self.top is not None:
            check_whole("top", self.top)


MOST_PROBABLE = LabelChoice()


def predicted(
    model: NIGCN, graph: Graph, nodes: IntArray, rows: FloatArray, choice: LabelChoice = MOST_PROBABLE
) -> pa.Table:
    """The labels of ``nodes``, predicted from their rows: one row per node, or as ``choice`` says.

    Columns: ``node``, ``label``, ``probability`` and ``known``, the label that the graph gives the node (of several,
    all, with semicolons between them), or null.
    """
    proba, labels = model.proba_of_rows(rows), pa.array(model.classes_)
    if choice.keep_known and graph.labels is not None:
        proba, labels = _with_known(model, graph, nodes, proba, labels)
    least = np.float32(choice.min_confidence or 0)
    places, columns = _chosen(model, proba, choice, least)
    chance = proba[places, columns].astype(np.float32)
    values = (
        _node_column(graph, nodes[places]),
        labels.take(pa.array(columns, mask=chance < least)),
        chance,
        _known_column(graph, nodes, labels.type).take(pa.array(places)),
    )
    table = dict(zip(COLUMNS, values, strict=True))
    if choice.all_probabilities:
        each = zip(labels.to_pylist(), proba.T, strict=True)
        table |= {f"probability_{label}": column[places].astype(np.float32) for label, column in each}
    return pa.table(table)


def _chosen(model: NIGCN, proba: FloatArray, choice: LabelChoice, least: np.float32) -> tuple[IntArray, IntArray]:
    """Which node gets which label: the positions of both, nodes in order; of several labels, none below ``least``."""
    if choice.coverage is not None:
        places, columns = np.nonzero(sets_of(proba, model.set_threshold(choice.coverage)))
        order = np.lexsort((-proba[places, columns], places))
        return places[order], columns[order]
    if model.multilabel_ and not choice.top and not choice.all_probabilities:
        places, columns = np.nonzero((model.labels_of_proba(proba) == 1) & (proba >= least))
        return places, columns
    if not choice.top:
        return np.arange(proba.shape[0]), proba.argmax(1)
    best = np.argsort(-proba, axis=1, kind="stable")[:, : choice.top]
    return np.repeat(np.arange(best.shape[0]), best.shape[1]), best.ravel()


def _with_known(
    model: NIGCN, graph: Graph, nodes: IntArray, proba: FloatArray, labels: pa.Array
) -> tuple[FloatArray, pa.Array]:
    """Probabilities with those of known labels in place, 1 and 0; a label that is new to the model gets a column."""
    present = graph.present_labels
    column = model.columns_of(graph, present)
    new = column < 0
    column[new] = proba.shape[1] + np.arange(new.sum())
    proba = np.pad(proba, ((0, 0), (0, int(new.sum()))))
    given = np.asarray(graph.labels[nodes])  # type: ignore[index]
    if not graph.multilabel:
        given = given[:, None] == present
    there = given.any(1)
    proba[there] = 0
    proba[np.ix_(there, column)] = given[there]
    return proba, pa.concat_arrays([labels, _names(present[new], graph.label_names)])


def check_known(model: NIGCN, graph: Graph) -> None:
    """Raise unless the labels of the graph can stand beside those of the model."""
    if graph.labels is None:
        raise InputError(f"keep_known: {graph.name} has no labels; leave it out, or import the graph with --labels")
    if graph.multilabel and not model.multilabel_:
        raise InputError(
            f"keep_known: nodes of {graph.name} have several labels, the model gives one; leave keep_known out"
        )
    model.columns_of(graph, graph.present_labels)


def _known_column(graph: Graph, nodes: IntArray, kind: pa.DataType) -> pa.Array:
    """The labels that the graph gives to ``nodes``; without labels, nulls of the type that predicted labels have."""
    if graph.labels is None:
        return pa.nulls(nodes.size, kind)
    given = np.asarray(graph.labels[nodes])
    if not graph.multilabel:
        return _names(given, graph.label_names, given == UNKNOWN)
    names = _names(graph.present_labels, graph.label_names).cast(pa.string()).to_pylist()
    return pa.array([";".join(names[label] for label in np.flatnonzero(row)) or None for row in given], pa.string())


def _names(labels: IntArray, names: Sequence[str] | None, empty: BoolArray | None = None) -> pa.Array:
    """Labels, by name where there are names; null where ``empty``."""
    numbers = pa.array(labels, pa.int64(), mask=empty)
    return numbers if names is None else pa.array(names, pa.string()).take(numbers)


def represented(graph: Graph, nodes: IntArray, rows: FloatArray) -> pa.Table:
    """Columns ``node`` and ``representation``, one list of numbers per node."""
    numbers = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(numbers, rows.shape[1])
    return pa.table({"node": _node_column(graph, nodes), "representation": lists})


def read_nodes(nodes: str, graph: Graph) -> IntArray | None:
    """The nodes in a text file, one per line, or else in ``nodes`` itself, as ``a,b,c``; None for ``"all"``.

    Nodes are names where the graph has names, else ids.
    """
    if nodes == "all":
        return None
    listed = not os.path.exists(nodes)
    advice = "expected 'all', a text file with a node per line, or nodes as a,b,c"
    with reading(nodes, "a list of nodes", (UnicodeDecodeError,), advice=advice):
        text = nodes.replace(",", "\n") if listed else Path(nodes).read_text(encoding="utf-8-sig")
    lines = [line.strip() for line in text.splitlines()]
    wanted = [line for line in lines if line]
    if graph.node_names is None:
        found = np.array([int(line) if line.isdecimal() and len(line) < 19 else -1 for line in wanted], np.int64)
        found[found >= graph.num_nodes] = -1
    else:
        found = places_of(wanted, graph.node_names)
    if (found < 0).any():
        line = wanted[int(np.argmin(found))]
        expected = f"expected a whole number from 0 to {graph.num_nodes - 1:,}"
        if graph.node_names is not None:
            expected = expected_name(line, graph.node_names)
        if listed:
            raise InputError(f"nodes: there is no file {nodes!r}, and {line!r} is no node; {expected}")
        raise InputError(f"{nodes}: line {lines.index(line) + 1:,} is {line!r}, and there is no such node; {expected}")
    return found


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
    path: Any, tables: Iterator[pa.Table], form: str, metadata: Mapping[bytes, bytes] | None = None
) -> None:
    """Write one file (a path, or a stream) from one or more tables of one schema; ``form`` is .parquet or .csv."""
    first = next(tables)
    schema = first.schema.with_metadata(metadata)
    if form == ".csv":
        from pyarrow.csv import CSVWriter

        writer = CSVWriter(path, schema)
    else:
        from pyarrow.parquet import ParquetWriter

        writer = ParquetWriter(path, schema, use_dictionary=["label", "known"])
    with writer:
        for table in chain([first], tables):
            writer.write_table(table)


def join_shards(shards: Sequence[Path], path: Path, overwrite: bool) -> None:
    """Join Parquet shards into one file, in order; no more than a part of a shard is held in memory."""
    with new_file(path, overwrite) as temporary:
        write_tables(temporary, _parts(shards), path.suffix.lower())


def _parts(shards: Sequence[Path]) -> Iterator[pa.Table]:
    from pyarrow.parquet import ParquetFile

    for shard in shards:
        with ParquetFile(shard) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group).replace_schema_metadata({})


def _node_column(graph: Graph, nodes: IntArray) -> AnyArray | pa.Array:
    return nodes if graph.node_names is None else Names.of(graph.node_names).take(nodes)
