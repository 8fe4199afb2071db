"""FileImport: number the nodes of edges, features and labels in files, and write the store."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nodewise._util.errors import InputError, warn
from nodewise._util.memory import TooLittleMemoryError, room_for, too_small
from nodewise._util.progress import Progress
from nodewise._util.types import AnyArray, IntArray
from nodewise._util.words import counted
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.edge_files import EdgeFile, EdgePart, open_edges
from nodewise.formats.feature_files import FeatureFile, matrix_of_nodes, open_features
from nodewise.formats.label_files import LabelFile, labels_of_nodes, read_labels
from nodewise.formats.node_files import read_node_names
from nodewise.formats.raw_graph import EdgeStream, FeatureStream, RawFeatures, RawGraph
from nodewise.formats.sql import Query
from nodewise.formats.tables import Frame, ReadOptions, Source, is_array_file
from nodewise.importing.additions import with_columns_of, with_labels_of, with_rows_of
from nodewise.importing.array_files import read_rows, write_rows
from nodewise.importing.base_store import BaseStore
from nodewise.importing.building import build
from nodewise.importing.edge_stage import names_room
from nodewise.importing.ids import (
    FIX,
    NodeRange,
    Numbering,
    SeenNodes,
    TakenAsNamesError,
    number_rows,
)
from nodewise.importing.name_table import NameTable, TooManyNamesError, estimate_names, table_bytes
from nodewise.importing.work_folder import Work, all_files

log = logging.getLogger("nodewise")
ROW_BYTES = 4  # of a row of features or labels in a file, at least
NODE_BYTES = 32  # of memory per node, for features that are sparse
ROWS_AT_A_TIME = 1 << 12  # of features, when they are put in order


@dataclasses.dataclass(frozen=True)
class FileImport:
    """An import of the files that the user gave; ``stack`` closes what is open for them."""

    paths: dict[str, Source]
    options: ReadOptions
    add_missing: bool
    memory: int
    feature_dtype: str | None
    name: str
    work: Work
    stack: ExitStack
    progress: Progress
    base: BaseStore | None = None  # to which the files are added

    def run(self, ids: str) -> None:
        if self.base is not None:
            self.base.check()  # also in an import that continues: the files may have been damaged since
        self._ask()
        if ids == "names":
            self._by_name()
            return
        try:
            self._build(Numbering(None, doubtful=ids == "auto", base=self.base))
        except TakenAsNamesError as reason:
            log.info("%s", reason)
        except TooLittleMemoryError:
            raise
        except InputError as error:
            # An id that is not a number makes all ids names. As names, 007 is not 7: all is read again.
            if ids == "integers" or self._all_numbers():
                raise
            log.info("ids are taken as names (%s)", str(error).partition(";")[0])
        else:
            return
        self.work.begin()
        self.work.note(ids="names")
        self._ask()
        self._by_name()

    def _ask(self) -> None:
        """Run the queries, unless their answers are there from an earlier attempt."""
        for key, source in self.paths.items():
            if isinstance(source, Query):
                answer, done = self.work.folder / f"{key}.parquet", self.work.done.get("answers", [])
                self.paths[key] = source.run(answer, self.memory) if key not in done else replace(source, answer=answer)
                self.work.note(answer, answers=[*done, key])

    @functools.cached_property
    def _row_names(self) -> Column | None:
        """The names of the nodes in the order of rows, where the user gave a file of them."""
        source = self.paths.get("node_names")
        return None if source is None else read_node_names(source, self.options.for_file("node_names"), self.memory)

    def _edges(self) -> EdgeFile:
        source = self.paths["edges"]
        file = open_edges(source, self.options.for_file("edges"), self.memory, self.stack)
        if self.base is not None:
            _check_weights(file, self.base)
        if self._row_names is None or not is_array_file(source):
            return file
        return replace(file, parts=functools.partial(_named_parts, file, self._row_names))

    @functools.cached_property
    def _features(self) -> FeatureFile | None:
        source, names = self.paths.get("features"), self._row_names
        if source is None:
            return None
        both = source == self.paths.get("labels")
        file = open_features(source, self.options.for_file("features"), self.memory, self.stack, with_labels=both)
        if self.base is not None:
            return with_columns_of(self.base, file)
        if names is None or file.nodes is not None:
            return file
        _check_as_many(source, file.num_rows(), names)
        return replace(file, nodes=lambda _: iter([names]))

    def _labels(self, ids_are_text: bool) -> LabelFile | None:
        source, names = self.paths.get("labels"), self._row_names
        if source is None:
            return None
        file = read_labels(source, self.options.for_file("labels"), ids_are_text, self.memory)
        if self._features is not None and source == self.paths["features"] and file.nodes is not None:
            return replace(file, nodes=_node_column(self._features, len(file.nodes), ids_are_text))
        if names is None or file.nodes is not None:
            return file
        _check_as_many(source, len(file.labels), names)
        return replace(file, nodes=names)

    def _ids(self, as_text: bool) -> Iterator[Column]:
        """All ids in all files, part by part."""
        features, labels = self._features, self._labels(as_text)
        if features is not None and features.nodes is not None:
            yield from features.nodes(as_text)
        if labels is not None and labels.nodes is not None:
            yield labels.nodes
        for part in self._edges().parts(as_text):
            yield from (part.source, part.target)

    def _all_numbers(self) -> bool:
        try:
            return all(columns.looks_whole(column) for column in self._ids(as_text=False))
        except TooLittleMemoryError:
            raise
        except InputError:  # the first error is the one to report
            return True

    def _by_name(self) -> None:
        edges, base = self._edges(), self.base
        free = names_room(edges.parts(True), edges.weighted, edges.count or edges.most, self.memory)
        room = self.work.done.get("names_room") or self._table_bytes(edges, free)
        room = min(room, 2 * self.memory) if self.work.resumed else room  # more than it can be was not our journal's
        self.work.note(names_room=room)
        names = NameTable(self.work.folder, room, keep=self.work.done.get("names", 0))
        try:
            if base is not None and not len(names):
                self._number_old(names, base)
            self._build(Numbering(names, base=base))
            return
        except TooManyNamesError:  # a text file has more rows than the first ones suggest
            names.release()
        finally:
            names.file.close()
        needed = max(2 * room, self._counted_bytes(free))
        self.work.begin()
        self.work.note(ids="names", names_room=needed)
        self._ask()
        self._by_name()

    def _table_bytes(self, edges: EdgeFile, free: int) -> int:
        """Memory for a table of all names; they are counted first, unless there is plenty for as many as can be."""
        most = 2 * (edges.count or edges.most) + (0 if self.base is None else self.base.num_nodes)
        for source in (source for role, source in self.paths.items() if role != "edges"):
            if isinstance(source, Frame):
                most += source.content.num_rows
            else:
                file = source.answer if isinstance(source, Query) else source
                most += sum(part.stat().st_size for part in all_files([] if file is None else [file])) // ROW_BYTES
        return table_bytes(most) if 2 * table_bytes(most) <= free else self._counted_bytes(free)

    def _counted_bytes(self, free: int) -> int:
        """Memory for a table of all names, which are counted in a pass of its own; an error if it is not free."""

        def names() -> Iterator[Any]:
            done = 0
            for column in self._ids(as_text=True):
                done += len(column)
                self.progress("counting names of nodes", done, None)
                yield column.values

        count = estimate_names(itertools.chain(() if self.base is None else self.base.names(), names()))
        needed = table_bytes(1.04 * count)  # five standard errors more
        if needed > free:
            enough = self.memory + needed - free
            raise too_small(f"numbering about {count:,.0f} names of nodes", self.memory, enough)
        return needed

    def _number_old(self, names: NameTable, base: BaseStore) -> None:
        """Give the names of the store their numbers, before there are others."""
        for part in base.names():
            names.number(part)
            self.progress("reading names", len(names), base.num_nodes)
        if len(names) != base.num_nodes:
            raise InputError(
                f"{base.path}: two nodes have the same name, so new edges could not tell them apart; rename one of them"
            )

    def _build(self, numbering: Numbering) -> None:
        """Number nodes in the order of features, labels and edges, and write the store."""
        names, base, first = numbering.names, numbering.base, numbering.first
        edges, features, labels = self._edges(), self._features, self._labels(names is not None)
        if (features and features.nodes is None) or (labels and labels.nodes is None):
            numbering = Numbering(names, base=base)  # rows are in the order of ids, so ids are numbers
        known = None
        if self._row_names is not None:
            path, column = self.paths["node_names"], self._row_names
            known = NodeRange(number_rows(path, lambda: iter([column]), numbering, False)[0], path)
        stream = None
        if features is not None:
            stream, described = self._feature_stream(features, edges, numbering)
            known = known or described
        elif base is not None and base.graph.features is not None:
            known = NodeRange(first, base.path, f"give new nodes features with --features, {FIX}")
        if known is None and labels is not None and labels.nodes is None:
            _check_rows_have_names(labels.path, edges, numbering)
            known = NodeRange(first + len(labels.labels), labels.path)
        if known is None and edges.num_nodes is not None and names is None:
            known = NodeRange(max(first, edges.num_nodes), edges.path)
        strict = None if self.add_missing else known
        seen = None
        if names is None and strict is None and (known is None or base is not None):
            seen = SeenNodes(first if known is None else known.count)
        values: AnyArray | None = None
        label_names: Sequence[str] | None = None
        if labels is not None:
            rows = None
            if labels.nodes is not None:
                if strict is None:
                    numbering.check_sparse(labels.nodes, len(labels.nodes) + 2 * (edges.count or edges.most))
                rows = _nodes(numbering, strict, seen, labels.nodes)[0]
            values, label_names = labels_of_nodes(labels, rows, self.memory)
        if strict is not None:
            _check_counts(strict, labels, edges, numbering)
        if base is not None:
            stream = with_rows_of(base, stream, self.memory)
            values, label_names = with_labels_of(base, labels, values, label_names, self.memory)
        raw = RawGraph(
            None if strict is None else strict.count,
            _edge_stream(edges, numbering, strict, seen),
            stream,
            values,
            label_names,
            {} if base is None else base.graph.splits,
            self.name,
            base.graph.feature_names if base is not None else None if features is None else features.names,
        )
        provenance = {key: s.name if isinstance(s, Path) else str(s) for key, s in self.paths.items()}
        provenance |= {} if base is None else {"store": base.path.name}
        check_gaps = None if seen is None else functools.partial(_check_gaps, edges.path, seen, numbering)
        build(raw, self.work, self.memory, self.feature_dtype, provenance, self.progress, names, check_gaps, base)

    def _feature_stream(
        self, file: FeatureFile, edges: EdgeFile, numbering: Numbering
    ) -> tuple[RawFeatures, NodeRange]:
        """The features in node order, and the nodes that have them."""
        values = file.values
        if file.nodes is None:
            _check_rows_have_names(file.path, edges, numbering)
            return values, self._described(file, file.num_rows())
        read = functools.partial(file.nodes, numbering.names is not None)
        placed = None if isinstance(values, FeatureStream) else [np.zeros(0, np.int64)]
        count, in_order = number_rows(file.path, read, numbering, self.add_missing, file.triples, placed)
        if placed is not None:
            room_for(f"reading {file.path}", self.memory, NODE_BYTES * count)
            return matrix_of_nodes(file, np.concatenate(placed), count), self._described(file, count)
        if not in_order:  # put them in order through a file of our own
            ordered = self.work.folder / "rows"
            if not self.work.done.get("ordered"):
                nodes = (numbering.rows(column) for column in read())
                write_rows(ordered, count, values.width, nodes, values.parts(ROWS_AT_A_TIME))
                self.work.note(ordered, ordered=True)
            values = replace(values, parts=functools.partial(read_rows, ordered, values.width))
        return values, self._described(file, count)

    def _described(self, file: FeatureFile, count: int) -> NodeRange:
        """The nodes that have features: ``count`` in the file, and those of the store."""
        if self.base is None:
            return NodeRange(count, file.path)
        return NodeRange(self.base.num_nodes + count, f"{self.base.path} or {file.path}")


def _check_weights(file: EdgeFile, base: BaseStore) -> None:
    """Weights of some edges only would have no meaning."""
    if file.weighted and not base.weighted:
        raise InputError(
            f"{file.path}: edges have weights, and those of {base.path} have none; leave the weights out, or import "
            f"all files again with weights"
        )
    if base.weighted and not file.weighted:
        raise InputError(
            f"{file.path}: edges have no weights, and those of {base.path} have; give a table with a column 'weight'"
        )


def _check_rows_have_names(path: Source, edges: EdgeFile, numbering: Numbering) -> None:
    """Rows without names cannot be matched to nodes that have them."""
    if numbering.names is not None and numbering.base is not None:
        raise InputError(
            f"{path}: rows have no node names, and the nodes of {numbering.base.path} have; use a table with a column "
            f"'node'"
        )
    if numbering.names is not None:
        raise InputError(
            f"{path}: rows have no node names, and the ids in {edges.path} are names; use a table with a column "
            f"'node', pass the names in the order of the rows with --node-names, or number the nodes from 0 on"
        )


def _node_column(features: FeatureFile, rows: int, ids_are_text: bool) -> Column:
    """The nodes of a table of features that holds the labels as well."""
    if features.nodes is None:
        return Column(features.path, "row", pa.chunked_array([np.arange(rows)]))
    parts = list(features.nodes(ids_are_text))
    values = pa.chunked_array([chunk for part in parts for chunk in part.values.chunks])
    return replace(parts[0], values=values)


def _check_as_many(source: Source, rows: int, names: Column) -> None:
    if rows != len(names):
        raise InputError(
            f"{source}: {counted(rows, 'row')}, and {counted(len(names), 'name')} in {names.path}; expected a name for "
            f"each row"
        )


def _named_parts(file: EdgeFile, names: Column, as_text: bool) -> Iterator[EdgePart]:
    """Edges between rows as edges between the names of these rows."""
    for part in file.parts(as_text):
        ends = []
        for column in (part.source, part.target):
            most = len(names) - 1
            rows = columns.as_whole(column, 0, f"rows are numbered from 0 to {most:,}, as in {names.path}", most)
            ends.append(replace(column, values=names.values.take(pa.array(rows))))
        yield EdgePart(ends[0], ends[1], part.weights)


def _nodes(numbering: Numbering, known: NodeRange | None, seen: SeenNodes | None, *ids: Column) -> IntArray:
    """The nodes of columns of ids, which have to be ``known`` and are added to those ``seen``."""
    nodes = numbering.nodes(*ids)
    if known is not None:
        known.check(nodes, *ids)
    if seen is not None:
        seen.add(nodes)
    return nodes


def _edge_stream(file: EdgeFile, numbering: Numbering, known: NodeRange | None, seen: SeenNodes | None) -> EdgeStream:
    def parts(count: int) -> Iterator[tuple[AnyArray, AnyArray | None]]:
        for part in file.parts(numbering.names is not None):
            ends = _nodes(numbering, known, seen, part.source, part.target)
            for first in range(0, ends.shape[1], count):
                mine = slice(first, first + count)
                yield ends[:, mine], None if part.weights is None else part.weights[mine]

    return EdgeStream(parts, file.count, file.weighted, file.share, str(file.path), file.most)


def _check_counts(known: NodeRange, labels: LabelFile | None, edges: EdgeFile, numbering: Numbering) -> None:
    """Arrays in node order, and a matrix of edges, must be about the same number of nodes."""
    counts: list[tuple[Source, int, str]] = []
    if labels is not None and labels.nodes is None:
        counts.append((labels.path, len(labels.labels), "labels"))
    if edges.num_nodes is not None and numbering.names is None and numbering.base is None:
        counts.append((edges.path, edges.num_nodes, "rows of the matrix"))
    expected, new = known.count - numbering.first, "new " if numbering.base else ""
    for path, count, what in counts:
        if count != expected:
            raise InputError(
                f"{path}: {count:,} {what} for {expected:,} {new}nodes; expected one per {new}node. Check that the "
                f"files are of the same graph"
            )


def _check_gaps(path: Source, seen: SeenNodes, numbering: Numbering, num_nodes: int) -> None:
    """Say how many of the nodes that the largest id implies are not mentioned, before rows are written for them."""
    missing = num_nodes - seen.first - seen.count
    if not missing:
        return
    if numbering.base is not None:
        raise InputError(
            f"{path}: ids go up to {num_nodes - 1:,}, and node {seen.first_missing():,} is in none of the files; "
            f"expected new nodes to be numbered from {numbering.first:,} on without gaps. Renumber them"
        )
    numbering.check_gaps(path, seen.count, num_nodes)
    message = (
        f"{path}: ids are taken as numbers from 0 to {num_nodes - 1:,}, so {missing:,} of {num_nodes:,} nodes have no "
        f"edge; if these are names, pass --ids names (Python: ids='names')"
    )
    (warn if 2 * missing > num_nodes else log.info)(message)
