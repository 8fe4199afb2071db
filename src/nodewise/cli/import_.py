"""nodewise import: the user's own files into a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from nodewise.cli.console import complain, say, stages
from nodewise.cli.files import AddedFiles, FileOptions

Output = Annotated[Path, typer.Option("-o", "--output", help="The store to write.")]
ImportMemory = Annotated[
    str | None,
    typer.Option(
        metavar="<size>", help="Memory limit, for example 4GB; files may be larger. (default: a quarter of memory)"
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue where an interrupted command stopped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing store.")]


def import_(
    output: Output,
    files: FileOptions,
    memory: ImportMemory = None,
    feature_dtype: Annotated[
        str | None, typer.Option(help="Store features as float32, float16 or int8 (one byte per value).")
    ] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Turn your own edges, features and labels into a store, which every command takes as SOURCE.

    Edges are undirected. Predictions use your names of nodes and labels.
    """
    from nodewise.importing import import_store

    options = {"memory": memory, "feature_dtype": feature_dtype, "overwrite": overwrite, "resume": resume}
    write_with(import_store, files, output=output, **options)


def write_with(function: Callable[..., None], files: AddedFiles, output: Path, **options: Any) -> None:
    """Write the store ``output`` from files, with a bar, and say what it is, or how to continue."""
    from nodewise._util.errors import NodewiseError
    from nodewise.importing.work_folder import is_begun
    from nodewise.store import open_store

    if files.edges is None:
        raise typer.BadParameter("give the file of edges: --edges FILE")
    try:
        with stages() as progress:
            function(output=output, progress=progress, **options, **files.for_import)
    except NodewiseError:
        raise
    except BaseException:
        if is_begun(output):
            complain(f"{output}: finished steps are kept; the same command with --resume continues")
        raise
    say(f"{open_store(output, verify=False)} written to {output}")
