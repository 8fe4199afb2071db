"""The options that say what is in the user's own files, and a graph straight from these in place of SOURCE."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from nodewise.cli.console import stages
from nodewise.cli.options import given, until_the_end


def _option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Files", **more)


EDGES = (
    "One row per edge, with an optional weight: CSV, TSV, an edge list, Parquet, npz, npy, mtx, GraphML or GEXF. A "
    "query: 'sqlite:FILE?SELECT ...' or 'duckdb:FILE?SELECT ...'."
)


@dataclass(frozen=True)
class AddedFiles:
    """What is read, and how; see :func:`nodewise.append_store`."""

    edges: Annotated[str | None, _option(EDGES)] = None
    features: Annotated[
        str | None,
        _option("One row per node, or sparse: columns node, feature and value. The same kinds of files as for edges."),
    ] = None
    labels: Annotated[
        str | None, _option("Columns node and label; other nodes are unlabelled. May be the file of features.")
    ] = None
    label: Annotated[
        str | None,
        _option("Column of the labels, or a list, one per class. (default: label, y or class)", metavar="<column>"),
    ] = None
    multilabel: Annotated[bool, _option("Nodes have several labels, one row for each.", "--multilabel")] = False
    impute: Annotated[
        str | None,
        _option("Fill missing numbers in the features. (default: they are an error)", metavar="<mean|zero>"),
    ] = None
    add_missing_nodes: Annotated[
        bool, _option("Give nodes without features a row of zeros.", "--add-missing-nodes")
    ] = False
    header: Annotated[
        bool | None,
        _option("Whether text files start with column names. (default: guess)", "--header/--no-header"),
    ] = None
    header_in: Annotated[
        str | None,
        _option("Only these text files start with column names: a list of edges, features, labels.", metavar="<files>"),
    ] = None
    delimiter: Annotated[
        str | None,
        _option(
            "What separates fields in text files: a character, comma, tab, semicolon or space. (default: guess)",
            metavar="<character>",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.header is not None and self.header_in is not None:
            raise typer.BadParameter("give --header, --no-header or --header-in, not two of them")

    @property
    def for_import(self) -> dict[str, Any]:
        """The keywords of :func:`nodewise.import_store`, or :func:`nodewise.append_store`."""
        options = given(**vars(self))
        header_in, label = options.pop("header_in", None), options.pop("label", None)
        if header_in is not None:
            options["header"] = [file.strip() for file in header_in.split(",") if file.strip()]
        if label is not None:
            options["label"] = label.split(",")
        return options

    @property
    def words(self) -> list[str]:
        """The options that were set, as the user would write them."""
        words: list[str] = []
        for field in fields(self):
            value, flag = getattr(self, field.name), field.name.replace("_", "-")
            if value == field.default:
                continue
            words += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", value]
        return words


@dataclass(frozen=True)
class FileOptions(AddedFiles):
    """The same for files that are a graph of their own; see :func:`nodewise.import_store`."""

    edges: Annotated[str | None, _option(f"{EDGES} A whole graph: a folder or zip of OGB or GraphSAINT.")] = None
    text: Annotated[
        str | None, _option("Column of the features that holds text: use its words.", metavar="<column>")
    ] = None
    ids: Annotated[str, _option("What ids are: integers (0 to n-1), names, or auto, which says what it chose.")] = (
        "auto"
    )
    node_names: Annotated[str | None, _option("Names of the nodes, one per line, where rows of arrays have none.")] = (
        None
    )


def source_or_files(source: str | None, files: FileOptions) -> tuple[str, str]:
    """SOURCE or, in its place, a store of the user's files that exists until the command ends.

    With it, the words on a command line that name the same graph again.
    """
    if files.edges is None:
        if source is None:
            raise typer.BadParameter("give SOURCE, or your own files: --edges FILE, --features FILE, --labels FILE")
        if files.words:
            raise typer.BadParameter(f"{files.words[0]} is about files; give --edges too, and no SOURCE")
        return source, source
    if source is not None:
        raise typer.BadParameter(f"give SOURCE ({source}) or --edges ({files.edges}), not both")
    from nodewise._util.temporary import temporary_folder
    from nodewise.importing import import_store

    folder = until_the_end.enter_context(temporary_folder())
    store = Path(folder, Path(files.edges.partition("?")[0]).name.split(".")[0] or "graph")
    with stages() as progress:
        import_store(output=store, progress=progress, **files.for_import)
    return str(store), shlex.join(files.words)
