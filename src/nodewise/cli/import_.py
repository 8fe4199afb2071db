"""nodewise import: the user's own files into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from nodewise.cli.console import complain, say, stages


def import_(
    edges: Annotated[
        Path,
        typer.Option(
            help="CSV, TSV, Parquet (or a folder of it), npz or npy: a row an edge, weight optional. Or a folder or "
            "zip as OGB or GraphSAINT publish whole graphs.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The store to write.", show_default=False)],
    features: Annotated[
        Path | None, typer.Option(help="A row a node: npy, npz, CSV, TSV or Parquet.", show_default=False)
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="node, label; nodes not listed are unknown.", show_default=False)
    ] = None,
    ids: Annotated[str, typer.Option(help="integers (0 to n-1), names, or auto.")] = "auto",
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether text files start with column names. (default: look)",
            show_default=False,
        ),
    ] = None,
    add_missing_nodes: Annotated[
        bool, typer.Option("--add-missing-nodes", help="Give nodes without features a row of zeros.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Use up to so much, as 4GB; files may be larger. (default: a quarter)", show_default=False),
    ] = None,
    feature_dtype: Annotated[
        str | None,
        typer.Option(help="Keep features as float32, float16 or int8, a byte a value.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an import that was interrupted.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a store that is there.")] = False,
) -> None:
    """Turn your own edges, features and labels into a store that every command takes as SOURCE.

    Edges are taken as undirected. Names of nodes and labels come back in the predictions.
    """
    from nodewise._util.errors import NodewiseError
    from nodewise.importing import import_store
    from nodewise.importing.work import is_begun
    from nodewise.store import open_store

    try:
        with stages() as progress:
            import_store(
                edges,
                output,
                features,
                labels,
                ids=cast(Any, ids),
                header=header,
                add_missing_nodes=add_missing_nodes,
                memory=memory,
                feature_dtype=feature_dtype,
                overwrite=overwrite,
                resume=resume,
                progress=progress,
            )
    except NodewiseError:
        raise
    except BaseException:
        if is_begun(output):
            complain(f"{output}: what is done so far is kept; the same command with --resume goes on")
        raise
    say(f"{open_store(output, verify=False)} written to {output}")
