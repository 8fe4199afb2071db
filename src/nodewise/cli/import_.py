"""nodewise import: the user's own files into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from nodewise.cli.console import say


def import_(
    edges: Annotated[
        Path, typer.Option(help="CSV, TSV, Parquet, npz or npy: a row an edge, weight optional.", show_default=False)
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a store that is there.")] = False,
) -> None:
    """Turn your own edges, features and labels into a store that every command takes as SOURCE.

    Edges are taken as undirected. Names of nodes and labels come back in the predictions.
    """
    from nodewise.atomic import check_new_folder
    from nodewise.ingest import import_graph
    from nodewise.store import is_store, write_store

    check_new_folder(output, overwrite, ours=is_store)
    files = {"edges": edges, "features": features, "labels": labels}
    graph = import_graph(
        edges,
        features,
        labels,
        ids=cast(Any, ids),
        header=header,
        add_missing_nodes=add_missing_nodes,
        name=output.name,
    )
    provenance = {name: path.name for name, path in files.items() if path is not None}
    write_store(graph, output, overwrite=overwrite, provenance=provenance)
    say(f"{graph} written to {output}")
