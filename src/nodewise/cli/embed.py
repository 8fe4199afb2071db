"""nodewise embed: the representation of each node, as the network sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.options import Source
from nodewise.cli.predict import Model, ShardOptions, write_shards


def embed(
    model: Model,
    source: Source,
    output: Annotated[Path, typer.Option("-o", "--output", help="A folder of shards, or a .parquet file.")],
    options: ShardOptions,
) -> None:
    """Write the representation of each node of SOURCE as MODEL sees it.

    One row (node, representation) per node. If a run is interrupted, the same command continues where it stopped.
    """
    write_shards("embed", model, source, output, options)
