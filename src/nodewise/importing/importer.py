"""import_store, append_store and import_graph: from edges, features and labels in files to a store, or to a Graph."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
import scipy.sparse as sp

from nodewise._util.atomic import AnyPath
from nodewise._util.errors import InputError
from nodewise._util.memory import memory_budget
from nodewise._util.progress import Progress, silent
from nodewise._util.temporary import temporary_folder
from nodewise.formats.columns import is_text_type
from nodewise.formats.csv import LABEL_NAMES, NODE_NAMES, checked_delimiter
from nodewise.formats.layouts import open_layout
from nodewise.formats.sql import Query
from nodewise.formats.tables import Frame, ReadOptions, Source, as_source
from nodewise.graph import Graph
from nodewise.graph.checks import check_choice
from nodewise.graph.names import Names
from nodewise.importing.base_store import BaseStore
from nodewise.importing.building import import_raw
from nodewise.importing.feature_stage import check_dtype
from nodewise.importing.from_files import FileImport
from nodewise.importing.work_folder import job_of, unchanged, working
from nodewise.store import open_store

Ids = Literal["auto", "integers", "names"]
Impute = Literal["mean", "zero"]


class FileOptions(TypedDict, total=False):
    """The options of :func:`import_store` that say what its files hold."""

    node_names: Any
    ids: Ids
    header: bool | Sequence[str] | None
    delimiter: str | None
    text: str | None
    impute: Impute | None
    label: str | Sequence[str] | None
    multilabel: bool
    add_missing_nodes: bool
    name: str | None


def import_graph(
    edges: Any, features: Any | None = None, labels: Any | None = None, **options: Unpack[FileOptions]
) -> Graph:
    """Read a graph into memory from files, queries or frames; see :func:`import_store` for all of these.

    >>> from tempfile import mkdtemp
    >>> edges = Path(mkdtemp(), "edges.csv")
    >>> _ = edges.write_text("from,to\\nann,bob\\nbob,cy\\n")
    >>> import_graph(edges).node_names[2]
    'cy'
    """
    if not options.get("name") and isinstance(edges, str | os.PathLike):
        options["name"] = Path(edges).name.split(".")[0]
    with temporary_folder() as folder:
        store = folder / "graph"
        import_store(edges, store, features, labels, **options)
        return _in_memory(open_store(store, verify=False))


def graph_from_frames(edges: Any, nodes: Any | None = None, **options: Any) -> Graph:
    """:meth:`nodewise.Graph.from_frames`."""
    if nodes is None:
        return import_graph(edges, **options)
    frame = as_source(nodes, "nodes")
    if not isinstance(frame, Frame):
        raise InputError(f"nodes: {nodes!r}; expected a frame. Files are read by nodewise.import_graph")
    label = options.get("label")
    chosen = [label] if isinstance(label, str) else list(label or ())
    lower = {name.strip().lower(): name for name in frame.content.column_names}
    labels = chosen or [lower[name] for name in LABEL_NAMES if name in lower][:1]
    features = [name for key, name in lower.items() if key not in NODE_NAMES and name not in labels]
    if len(features) == len(lower) - len(labels) == 1 and is_text_type(frame.content.schema.field(features[0]).type):
        features = []  # names of nodes under another name
    if not features and not labels:
        return import_graph(edges, node_names=frame, **options)
    return import_graph(edges, frame if features else None, frame if labels else None, **options)


def import_store(
    edges: Any,
    output: AnyPath,
    features: Any | None = None,
    labels: Any | None = None,
    *,
    node_names: Any | None = None,
    ids: Ids = "auto",
    header: bool | Sequence[str] | None = None,
    delimiter: str | None = None,
    text: str | None = None,
    impute: Impute | None = None,
    label: str | Sequence[str] | None = None,
    multilabel: bool = False,
    add_missing_nodes: bool = False,
    name: str | None = None,
    memory: str | int | None = None,
    feature_dtype: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a store from files, queries or frames.

    Files are text (CSV, TSV, edge lists as SNAP publishes them; also compressed by gzip or zstd), Parquet (a file or a
    folder), ``.npy``, ``.npz``, Matrix Market, GraphML or GEXF. A query is ``"sqlite:FILE?SELECT ..."`` or, with DuckDB
    installed, ``"duckdb:FILE?SELECT ..."``. A frame is anything that speaks Arrow, such as those of pandas and polars.
    A folder or zip in OGB's layout, or a folder in GraphSAINT's, is a whole graph: give it as ``edges`` alone.

    Files may be larger than memory: up to ``memory`` ("4GB") is used, by default a quarter of what is available. With
    ``resume``, an interrupted import continues where it stopped.

    ``ids``: "integers" are the nodes 0 to n-1 themselves, "names" are any text or numbers, kept as ``node_names``;
    "auto" means names if an id in any file is a word or has leading zeros, or if fewer than one in ten of the numbers
    up to the largest id occurs; and integers otherwise. The log says which, and how many nodes have no edge.
    ``node_names`` is a file with one name per line, for arrays whose rows have no names: row i is about line i's node.

    ``header`` says whether text files begin with column names, or which of them do (``["features", "labels"]``). With
    None, a first line is a row if one of its first two fields is a number, and column names otherwise. ``delimiter``
    is what separates the fields of text files, if the first line does not show it.

    Edges are undirected: the first two columns, or those called source/target, src/dst, from/to or u/v, and a weight in
    a column called weight or w, or in a third column of numbers.

    Features are rows with a column ``node``, ``id`` or ``name``, or rows in the order of integer ids; every node needs
    one, unless ``add_missing_nodes`` gives zeros to nodes without a row. A table with the columns ``node``, ``feature``
    and ``value`` has a row for each value that is not zero, and is stored as a sparse matrix. ``text`` names a column
    of text, which becomes words weighted by TF-IDF, sparse as well. Other columns of words become one feature per
    value, up to 50. Missing numbers are an error, unless ``impute`` says how to fill them ("mean" or "zero"); a further
    feature marks them. Names of columns are kept as ``feature_names``. Features are stored as float32 (float16 if the
    file has that), or as ``feature_dtype`` says: float32, float16 or int8, which takes one byte per value.

    Labels are (node, label) in any order, or an array; a label that is empty, -1, nan or NA is unknown. ``label`` names
    their column, if it is not called label, y or class. Where nodes have several labels, there is one row for each, and
    ``multilabel`` is True; or a column of 0 and 1 per class. One table may hold both features and labels.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("from,to\\nann,bob\\nbob,cy\\n")
    >>> _ = (folder / "labels.csv").write_text("node,label\\nann,red\\ncy,blue\\n")
    >>> import_store(folder / "edges.csv", folder / "store", labels=folder / "labels.csv")
    >>> open_store(folder / "store").label_names
    ['blue', 'red']
    """
    check_choice("ids", ids, get_args(Ids))
    check_dtype(feature_dtype)
    _check_options(features, labels, impute=impute, text=text, label=label)
    budget = memory_budget(memory)
    given = _sources(budget, edges=edges, features=features, labels=labels, node_names=node_names)
    with open_layout(given["edges"]) as read:
        if read is not None:
            if len(given) > 1:
                raise InputError(
                    f"{edges}: a whole graph, with features and labels of its own; leave --features and --labels out"
                )
            import_raw(
                replace(read(budget), name=name or Path(output).name),
                output,
                memory=budget,
                feature_dtype=feature_dtype,
                overwrite=overwrite,
                resume=resume,
                provenance={"edges": Path(edges).name},
                progress=progress,
                files=(Path(edges),),
            )
            return
    read_options = _read_options(header, delimiter, text, impute, label, multilabel)
    ids = "names" if node_names is not None else ids
    how = (read_options, add_missing_nodes, budget, feature_dtype, name or Path(output).name)
    _import_files(given, how, output, ids, overwrite, resume, progress)


def append_store(
    store: AnyPath,
    output: AnyPath,
    edges: Any,
    features: Any | None = None,
    labels: Any | None = None,
    *,
    header: bool | Sequence[str] | None = None,
    delimiter: str | None = None,
    impute: Impute | None = None,
    label: str | Sequence[str] | None = None,
    multilabel: bool = False,
    add_missing_nodes: bool = False,
    name: str | None = None,
    memory: str | int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a new store with the nodes and edges of ``store`` and those of files, queries or frames.

    Faster than to import everything again, since the old edges are not sorted again. Files and options are those of
    :func:`import_store`. Nodes of the store keep their ids, new ones follow in the order of features, labels and edges.
    If the store has names, ids are names; if not, they are whole numbers, and new nodes are numbered on without gaps.

    Edges may join old and new nodes. Weights of an edge that is listed again are added to the old one, in whichever
    direction it is listed; a weight for a loop replaces a loop of weight 1, which is what nodes have without one.

    ``features`` have the columns of the store, in any order if both have names, and rows for new nodes only; rows that
    do not say which are the new nodes in order. If the store has features, every new node needs a row, unless
    ``add_missing_nodes`` is True. Values are stored in the type of the store; those that its int8 cannot hold are an
    error. ``impute="mean"`` fills missing ones with the mean of the new rows.

    ``labels`` may be those of old and new nodes. They replace old labels, and the log says how many. New names of
    labels follow the old ones, so that models of the old store fit the new one. Splits stay as they are.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> _ = (folder / "edges.csv").write_text("from,to\\nann,bob\\nbob,cy\\n")
    >>> import_store(folder / "edges.csv", folder / "old")
    >>> _ = (folder / "more.csv").write_text("from,to\\ncy,ann\\ncy,dan\\n")
    >>> append_store(folder / "old", folder / "new", folder / "more.csv")
    >>> g = open_store(folder / "new")
    >>> g.num_edges, list(g.node_names)
    (4, ['ann', 'bob', 'cy', 'dan'])
    """
    _check_options(features, labels, impute=impute, label=label)
    base = BaseStore(Path(store), open_store(store, verify=False))
    if Path(os.path.realpath(output)).is_relative_to(os.path.realpath(store)):
        raise InputError(f"{output}: is the store to add to, or lies inside it; choose another name for the new store")
    budget = memory_budget(memory)
    given = _sources(budget, edges=edges, features=features, labels=labels)
    with open_layout(given["edges"]) as whole:
        if whole is not None:
            raise InputError(f"{edges}: a whole graph; expected a file of edges to add to {store}")
    several = multilabel or (base.graph.labels is not None and base.graph.multilabel)
    read_options = _read_options(header, delimiter, None, impute, label, several)
    ids: Ids = "integers" if base.graph.node_names is None else "names"
    feature_dtype = None if base.graph.features is None else base.graph.features.dtype.name
    how = (read_options, add_missing_nodes, budget, feature_dtype, name or Path(output).name)
    _import_files(given, how, output, ids, overwrite, resume, progress, base)


def _import_files(
    given: dict[str, Source],
    how: tuple[ReadOptions, bool, int, str | None, str],
    output: AnyPath,
    ids: Ids,
    overwrite: bool,
    resume: bool,
    progress: Progress | None,
    base: BaseStore | None = None,
) -> None:
    """Do the import, or continue it; ``how``: as :class:`FileImport` takes it."""
    read_options, add_missing, _, feature_dtype, name = how
    options = {"ids": ids, "add_missing_nodes": add_missing, "feature_dtype": feature_dtype}
    options |= dataclasses.asdict(read_options)
    files = [*_files_of(given), *([] if base is None else [base.path])]
    job = job_of(files, name=name, sources=[f"{key} {_described(given[key])}" for key in given], **options)
    with working(output, job, overwrite, resume) as work:
        if not work.finished:
            with unchanged(files), ExitStack() as stack:
                FileImport(given, *how, work, stack, progress or silent, base).run(work.done.get("ids", ids))
        work.commit(overwrite)


def _sources(memory: int, **asked: Any) -> dict[str, Source]:
    return {key: as_source(source, key, memory) for key, source in asked.items() if source is not None}


def _check_options(features: Any, labels: Any, impute: str | None, **options: Any) -> None:
    if impute is not None:
        check_choice("impute", impute, get_args(Impute))
    for option, value in {"impute": impute, **options}.items():
        of, needs = ("labels", labels) if option == "label" else ("features", features)
        if value is not None and needs is None:
            raise InputError(f"--{option} is about a table of {of}; pass --{of}, too")


def _read_options(
    header: bool | Sequence[str] | None,
    delimiter: str | None,
    text: str | None,
    impute: str | None,
    label: str | Sequence[str] | None,
    multilabel: bool,
) -> ReadOptions:
    labels = () if label is None else (label,) if isinstance(label, str) else tuple(label)
    return ReadOptions(_checked_header(header), checked_delimiter(delimiter), text, impute, labels, multilabel)


def _checked_header(header: bool | Sequence[str] | None) -> bool | tuple[str, ...] | None:
    if header is None or isinstance(header, bool):
        return header
    files = (header,) if isinstance(header, str) else tuple(header)
    known = ("edges", "features", "labels", "node_names")
    for file in files:
        if file not in known:
            raise InputError(f"header: {file!r}; expected some of {', '.join(known)}")
    return files


def _files_of(given: Mapping[str, Source]) -> list[Path]:
    """The files that an import depends on."""
    paths = [s if isinstance(s, Path) else s.database if isinstance(s, Query) else s.path for s in given.values()]
    return [path for path in paths if path is not None]


def _described(source: Source) -> str:
    """What identifies a source beside its file; a frame in memory is never that of another import."""
    if isinstance(source, Frame) and source.path is None:
        return uuid.uuid4().hex
    return source.sql if isinstance(source, Query) else ""


def _in_memory(graph: Graph) -> Graph:
    """The same graph without its files."""
    arrays = {name: getattr(graph, name) for name in ("indptr", "indices", "edge_weight", "features", "labels")}
    copies: dict[str, Any] = {
        name: array.copy() if sp.issparse(array) else np.array(array)
        for name, array in arrays.items()
        if array is not None
    }
    if isinstance(graph.node_names, Names):
        copies["node_names"] = Names.of(graph.node_names.arrow)
    return replace(graph, **copies)
