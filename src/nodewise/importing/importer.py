"""import_store and import_graph: from files of edges, features and labels to a store, or to a Graph."""

from __future__ import annotations

import dataclasses
import functools
import logging
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from nodewise._util.atomic import AnyPath
from nodewise._util.errors import InputError, warn
from nodewise._util.memory import TooLittleMemoryError, memory_budget, too_small
from nodewise._util.progress import Progress, silent
from nodewise._util.types import AnyArray
from nodewise.formats import columns
from nodewise.formats.columns import Column
from nodewise.formats.edge_files import EdgeFile, open_edges
from nodewise.formats.feature_columns import IMPUTE
from nodewise.formats.feature_files import FeatureFile, matrix_of_nodes, open_features
from nodewise.formats.label_files import LabelFile, labels_of_nodes, read_labels
from nodewise.formats.layouts import open_layout
from nodewise.formats.raw_graph import EdgeStream, FeatureStream, RawGraph
from nodewise.formats.tables import ReadOptions
from nodewise.graph import Graph
from nodewise.importing.array_files import read_rows, write_rows
from nodewise.importing.building import build, import_raw
from nodewise.importing.edge_stage import names_room
from nodewise.importing.feature_stage import check_dtype
from nodewise.importing.ids import (
    NodeRange,
    Numbering,
    SeenNodes,
    TakenAsNamesError,
    check_all_present,
    number_rows,
)
from nodewise.importing.name_table import NameTable, TooManyNamesError, estimate_names, table_bytes
from nodewise.importing.work_folder import Work, all_files, job_of, working
from nodewise.store import Names, open_store

log = logging.getLogger("nodewise")
Ids = Literal["auto", "integers", "names"]
Impute = Literal["mean", "zero"]
ROW_BYTES = 4  # of a row of features or labels in a file, at least
ROWS_AT_A_TIME = 1 << 12  # of features, when they are put in order


def import_graph(
    edges: AnyPath,
    features: AnyPath | None = None,
    labels: AnyPath | None = None,
    *,
    ids: Ids = "auto",
    header: bool | None = None,
    text: str | None = None,
    impute: Impute | None = None,
    add_missing_nodes: bool = False,
    name: str | None = None,
) -> Graph:
    """Read a graph into memory from files; see :func:`import_store` for their formats.

    >>> from tempfile import mkdtemp
    >>> edges = Path(mkdtemp(), "edges.csv")
    >>> _ = edges.write_text("from,to\\nann,bob\\nbob,cy\\n")
    >>> import_graph(edges).node_names[2]
    'cy'
    """
    with tempfile.TemporaryDirectory(prefix="nodewise-") as folder:
        store = Path(folder, "store")
        import_store(
            edges,
            store,
            features,
            labels,
            ids=ids,
            header=header,
            text=text,
            impute=impute,
            add_missing_nodes=add_missing_nodes,
            name=name or Path(edges).name.split(".")[0],
        )
        return _in_memory(open_store(store, verify=False))


def import_store(
    edges: AnyPath,
    output: AnyPath,
    features: AnyPath | None = None,
    labels: AnyPath | None = None,
    *,
    ids: Ids = "auto",
    header: bool | None = None,
    text: str | None = None,
    impute: Impute | None = None,
    add_missing_nodes: bool = False,
    name: str | None = None,
    memory: str | int | None = None,
    feature_dtype: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a store from files: CSV, TSV (also gzipped), Parquet (a file or a folder), ``.npy`` or ``.npz``.

    A folder or zip in OGB's layout, or a folder in GraphSAINT's, is a whole graph: give it as ``edges`` alone.

    Files may be larger than memory: up to ``memory`` ("4GB") is used, by default a quarter of what is available. With
    ``resume``, an interrupted import continues where it stopped.

    ``ids``: "integers" are the nodes 0 to n-1 themselves, "names" are any text or numbers, kept as ``node_names``;
    "auto" means names if an id in any file is a word or has leading zeros, or if fewer than one in ten of the numbers
    up to the largest id occurs; and integers otherwise. The log says which, and how many nodes have no edge.

    ``header`` says whether text files begin with column names. With None, a first line is a row if one of its first two
    fields is a number, and column names otherwise.

    Edges are undirected: the first two columns, or those called source/target, src/dst, from/to or u/v, and a weight in
    a column called weight or w, or in a third column of numbers.

    Features are rows with a column ``node``, ``id`` or ``name``, or rows in the order of integer ids; every node needs
    one, unless ``add_missing_nodes`` gives zeros to nodes without a row. A table with the columns ``node``, ``feature``
    and ``value`` has a row for each value that is not zero, and is stored as a sparse matrix. ``text`` names a column
    of text, which becomes words weighted by TF-IDF, sparse as well. Other columns of words become one feature per
    value, up to 50. Missing numbers are an error, unless ``impute`` says how to fill them ("mean" or "zero"); a further
    feature marks them. Names of columns are kept as ``feature_names``. Features are stored as float32 (float16 if the
    file has that), or as ``feature_dtype`` says:
    float32, float16 or int8, which takes one byte per value.

    Labels are (node, label) in any order, or an array; a label that is empty, -1, nan or NA is unknown.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("from,to\\nann,bob\\nbob,cy\\n")
    >>> _ = (folder / "labels.csv").write_text("node,label\\nann,red\\ncy,blue\\n")
    >>> import_store(folder / "edges.csv", folder / "store", labels=folder / "labels.csv")
    >>> open_store(folder / "store").label_names
    ['blue', 'red']
    """
    if ids not in ("auto", "integers", "names"):
        raise InputError(f"ids={ids!r}: expected 'auto', 'integers' or 'names'")
    if impute not in (None, *IMPUTE):
        raise InputError(f"impute={impute!r}: expected {' or '.join(map(repr, IMPUTE))}")
    check_dtype(feature_dtype)
    if features is None and (text is not None or impute is not None):
        raise InputError(f"--{'impute' if text is None else 'text'} is about a table of features; pass --features, too")
    paths = {"edges": edges, "features": features, "labels": labels}
    given = {key: Path(path) for key, path in paths.items() if path is not None}
    with open_layout(given["edges"]) as read:
        if read is not None:
            if len(given) > 1:
                raise InputError(
                    f"{edges}: a whole graph, with features and labels of its own; leave --features and --labels out"
                )
            import_raw(
                dataclasses.replace(read(), name=name or Path(output).name),
                output,
                memory=memory_budget(memory),
                feature_dtype=feature_dtype,
                overwrite=overwrite,
                resume=resume,
                provenance={"edges": given["edges"].name},
                progress=progress,
                files=tuple(given.values()),
            )
            return
    read_options = ReadOptions(header, text, impute)
    options = {"ids": ids, "add_missing_nodes": add_missing_nodes, "feature_dtype": feature_dtype}
    options |= dataclasses.asdict(read_options)
    name = name or Path(output).name
    job = job_of(given.values(), name=name, roles=sorted(given), **options)
    with working(output, job, overwrite, resume) as work:
        if not work.finished:
            with ExitStack() as stack:
                how = (read_options, add_missing_nodes, memory_budget(memory), feature_dtype, name)
                _Import(given, *how, work, stack, progress or silent).run(work.done.get("ids", ids))
        work.commit(overwrite)


def _in_memory(graph: Graph) -> Graph:
    """The same graph without its files."""

    def copied(array: AnyArray | None) -> AnyArray | None:
        return None if array is None else np.array(array)

    features, names = graph.features, graph.node_names
    return dataclasses.replace(
        graph,
        indptr=np.array(graph.indptr),
        indices=np.array(graph.indices),
        edge_weight=copied(graph.edge_weight),
        features=features.copy() if features is not None and sp.issparse(features) else copied(features),
        labels=copied(graph.labels),
        node_names=Names.of(names.arrow) if isinstance(names, Names) else names,
    )


@dataclasses.dataclass(frozen=True)
class _Import:
    """An import of the files that the user gave; ``stack`` closes what is open for them."""

    paths: dict[str, Path]
    options: ReadOptions
    add_missing: bool
    memory: int
    feature_dtype: str | None
    name: str
    work: Work
    stack: ExitStack
    progress: Progress

    def run(self, ids: str) -> None:
        if ids == "names":
            self._by_name()
            return
        try:
            self._build(Numbering(None, doubtful=ids == "auto"))
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
        self._by_name()

    def _edges(self) -> EdgeFile:
        return open_edges(self.paths["edges"], self.options, self.memory, self.stack)

    @functools.cached_property
    def _features(self) -> FeatureFile | None:
        path = self.paths.get("features")
        return None if path is None else open_features(path, self.options, self.memory, self.stack)

    def _labels(self, ids_are_text: bool) -> LabelFile | None:
        path = self.paths.get("labels")
        return None if path is None else read_labels(path, self.options, ids_are_text, self.memory)

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
        edges = self._edges()
        free = names_room(edges.parts(True), edges.weighted, edges.count or edges.most, self.memory)
        room = self.work.done.get("names_room") or self._table_bytes(edges, free)
        self.work.note(names_room=room)
        names = NameTable(self.work.folder, room, keep=self.work.done.get("names", 0))
        try:
            self._build(Numbering(names))
            return
        except TooManyNamesError:  # a text file has more rows than the first ones suggest
            names.release()
        finally:
            names.file.close()
        needed = max(2 * room, self._counted_bytes(free))
        self.work.begin()
        self.work.note(ids="names", names_room=needed)
        self._by_name()

    def _table_bytes(self, edges: EdgeFile, free: int) -> int:
        """Memory for a table of all names; they are counted first, unless there is plenty for as many as can be."""
        others = [path for role, path in self.paths.items() if role != "edges"]
        most = 2 * (edges.count or edges.most) + sum(file.stat().st_size for file in all_files(others)) // ROW_BYTES
        return table_bytes(most) if 2 * table_bytes(most) <= free else self._counted_bytes(free)

    def _counted_bytes(self, free: int) -> int:
        """Memory for a table of all names, which are counted in a pass of its own; an error if it is not free."""

        def names() -> Iterator[Any]:
            done = 0
            for column in self._ids(as_text=True):
                done += len(column)
                self.progress("counting names of nodes", done, None)
                yield column.values

        count = estimate_names(names())
        needed = table_bytes(1.04 * count)  # five standard errors more
        if needed > free:
            enough = self.memory + needed - free
            raise too_small(f"numbering about {count:,.0f} names of nodes", self.memory, enough)
        return needed

    def _build(self, numbering: Numbering) -> None:
        """Number nodes in the order of features, labels and edges, and write the store."""
        names = numbering.names
        edges, features, labels = self._edges(), self._features, self._labels(names is not None)
        if (features and features.nodes is None) or (labels and labels.nodes is None):
            numbering = Numbering(names)  # rows are in the order of ids, so ids are numbers
        stream, known = (None, None) if features is None else self._feature_stream(features, edges, numbering)
        if known is None and labels is not None and labels.array is not None:
            _check_rows_have_names(labels.path, edges, names)
            known = NodeRange(labels.array.shape[0], labels.path)
        if known is None and edges.num_nodes is not None and names is None:
            known = NodeRange(edges.num_nodes, edges.path)
        strict = None if self.add_missing else known
        seen = SeenNodes() if known is None and names is None else None
        values = label_names = None
        if labels is not None:
            values, label_names = _labels_of_nodes(labels, numbering, strict, seen)
        if strict is not None:
            _check_counts(strict, labels, edges, names)
        raw = RawGraph(
            None if strict is None else strict.count,
            _edge_stream(edges, numbering, strict, seen),
            stream,
            values,
            label_names,
            name=self.name,
            feature_names=None if features is None else features.names,
        )
        provenance = {key: path.name for key, path in self.paths.items()}
        check_gaps = None if seen is None else functools.partial(_check_gaps, edges.path, seen, numbering)
        build(raw, self.work, self.memory, self.feature_dtype, provenance, self.progress, names, check_gaps)

    def _feature_stream(
        self, file: FeatureFile, edges: EdgeFile, numbering: Numbering
    ) -> tuple[FeatureStream | sp.csr_matrix, NodeRange]:
        """The features in node order, and the nodes that have them."""
        if file.nodes is None:
            _check_rows_have_names(file.path, edges, numbering.names)
            stream = FeatureStream(file.rows, file.width, file.dtype) if file.matrix is None else file.matrix
            return stream, NodeRange(file.num_rows(), file.path)
        read = functools.partial(file.nodes, numbering.names is not None)
        if file.matrix is not None:
            if not file.triples:
                number_rows(file.path, read, numbering, self.add_missing)
            placed = np.concatenate([np.zeros(0, np.int64), *(numbering.nodes(column)[0] for column in read())])
            count = int(placed.max(initial=-1)) + 1
            if not self.add_missing:
                check_all_present(file.path, placed, count)
            return matrix_of_nodes(file, placed, count), NodeRange(count, file.path)
        count, in_order = number_rows(file.path, read, numbering, self.add_missing)
        rows = file.rows
        if not in_order:  # put them in order through a file of our own
            ordered = self.work.folder / "rows"
            if not self.work.done.get("ordered"):
                nodes = (numbering.nodes(column)[0] for column in read())
                write_rows(ordered, count, file.width, nodes, file.rows(ROWS_AT_A_TIME))
                self.work.note(ordered, ordered=True)
            rows = functools.partial(read_rows, ordered, file.width)
        return FeatureStream(rows, file.width, file.dtype), NodeRange(count, file.path)


def _check_rows_have_names(path: Path, edges: EdgeFile, names: NameTable | None) -> None:
    """Rows without names cannot be matched to nodes that have them."""
    if names is not None:
        raise InputError(
            f"{path}: rows have no node names, and the ids in {edges.path} are names; use a table with a column "
            f"'node', or number the nodes from 0 on"
        )


def _labels_of_nodes(
    file: LabelFile, numbering: Numbering, known: NodeRange | None, seen: SeenNodes | None
) -> tuple[AnyArray, list[str] | None]:
    if file.nodes is None:
        return labels_of_nodes(file, None)
    nodes = numbering.nodes(file.nodes)
    if known is not None:
        known.check(nodes, file.nodes)
    if seen is not None:
        seen.add(nodes)
    return labels_of_nodes(file, nodes[0])


def _edge_stream(file: EdgeFile, numbering: Numbering, known: NodeRange | None, seen: SeenNodes | None) -> EdgeStream:
    def parts(count: int) -> Iterator[tuple[AnyArray, AnyArray | None]]:
        for part in file.parts(numbering.names is not None):
            ends = numbering.nodes(part.source, part.target)
            if known is not None:
                known.check(ends, part.source, part.target)
            if seen is not None:
                seen.add(ends)
            for first in range(0, ends.shape[1], count):
                mine = slice(first, first + count)
                yield ends[:, mine], None if part.weights is None else part.weights[mine]

    return EdgeStream(parts, file.count, file.weighted, file.share, str(file.path), file.most)


def _check_counts(known: NodeRange, labels: LabelFile | None, edges: EdgeFile, names: NameTable | None) -> None:
    """Arrays in node order, and a matrix of edges, must be about the same number of nodes."""
    counts = []
    if labels is not None and labels.array is not None:
        counts.append((labels.path, labels.array.shape[0], "labels"))
    if edges.num_nodes is not None and names is None:
        counts.append((edges.path, edges.num_nodes, "rows of the matrix"))
    for path, count, what in counts:
        if count != known.count:
            raise InputError(
                f"{path}: {count:,} {what} for {known.count:,} nodes; expected one per node. Check that the files are "
                f"of the same graph"
            )


def _check_gaps(path: Path, seen: SeenNodes, numbering: Numbering, num_nodes: int) -> None:
    """Say how many of the nodes that the largest id implies are not mentioned, before rows are written for them."""
    missing = num_nodes - seen.count
    if not seen.count or not missing:
        return  # none: the edges were read before the import was interrupted
    numbering.check_gaps(path, seen.count, num_nodes)
    message = (
        f"{path}: ids are taken as numbers from 0 to {num_nodes - 1:,}, so {missing:,} of {num_nodes:,} nodes have no "
        f"edge; if these are names, pass --ids names (Python: ids='names')"
    )
    (warn if 2 * missing > num_nodes else log.info)(message)
