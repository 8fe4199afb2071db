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
            help="CSV, TSV, Parquet (or a folder of it), npz or npy: one row per edge, with an optional weight. Or a "
            "whole graph: a folder or zip as published by OGB or GraphSAINT."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The store to write.")],
    features: Annotated[
        Path | None,
        typer.Option(
            help="One row per node: npy, npz, CSV, TSV or Parquet. Or sparse, with columns node, feature and value."
        ),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Columns node and label; other nodes are unlabelled.")] = None,
    ids: Annotated[
        str, typer.Option(help="What ids are: integers (0 to n-1), names, or auto, which says what it chose.")
    ] = "auto",
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether text files start with column names. (default: guess)",
            rich_help_panel="Text files",
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="<column>", help="Column of the features that holds text: use its words.")
    ] = None,
    impute: Annotated[
        str | None,
        typer.Option(metavar="<mean|zero>", help="Fill missing numbers in the features. (default: they are an error)"),
    ] = None,
    add_missing_nodes: Annotated[
        bool, typer.Option("--add-missing-nodes", help="Give nodes without features a row of zeros.")
    ] = False,
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

    try:
        with stages() as progress:
            import_store(
                edges, output, features, labels, ids=cast(Any, ids), header=header, text=text,
                impute=cast(Any, impute), add_missing_nodes=add_missing_nodes, memory=memory,
                feature_dtype=feature_dtype, overwrite=overwrite, resume=resume, progress=progress,
            )  # fmt: skip
    except NodewiseError:
        raise
    except BaseException:
        if is_begun(output):
            complain(f"{output}: finished steps are kept; the same command with --resume continues")
        raise
    say(f"{open_store(output, verify=False)} written to {output}")
