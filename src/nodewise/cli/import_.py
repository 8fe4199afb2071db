"""nodewise import: the user's own files into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import complain, say, stages
from nodewise.cli.files import FileOptions


def import_(
    output: Annotated[Path, typer.Option("-o", "--output", help="The store to write.")],
    files: FileOptions,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="<size>", help="Memory limit, for example 4GB; files may be larger. (default: a quarter of memory)"
        ),
    ] = None,
    feature_dtype: Annotated[
        str | None, typer.Option(help="Store features as float32, float16 or int8 (one byte per value).")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an import that was interrupted.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing store.")] = False,
) -> None:
    """Turn your own edges, features and labels into a store, which every command takes as SOURCE.

    Edges are undirected. Predictions use your names of nodes and labels.
    """
    from nodewise._util.errors import NodewiseError
    from nodewise.importing import import_store
    from nodewise.importing.work_folder import is_begun
    from nodewise.store import open_store

    if files.edges is None:
        raise typer.BadParameter("give the file of edges: --edges FILE")
    try:
        with stages() as progress:
            import_store(
                output=output, memory=memory, feature_dtype=feature_dtype, overwrite=overwrite,
                resume=resume, progress=progress, **files.for_import,
            )  # fmt: skip
    except NodewiseError:
        raise
    except BaseException:
        if is_begun(output):
            complain(f"{output}: finished steps are kept; the same command with --resume continues")
        raise
    say(f"{open_store(output, verify=False)} written to {output}")
