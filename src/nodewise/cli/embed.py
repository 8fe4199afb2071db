"""nodewise embed: what the network sees of each node, a row of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.options import DataDir, Source, Threads
from nodewise.cli.shards import Address, Chunk, Engine, Memory, Model, Nodes, On, Overwrite, make_shards


def embed(
    model: Model,
    source: Source,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="A folder of shards, or a .parquet file.", show_default=False),
    ],
    nodes: Nodes = "all",
    engine: Engine = None,
    chunk: Chunk = None,
    memory: Memory = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    on: On = "local",
    address: Address = None,
    data_dir: DataDir = None,
) -> None:
    """Represent the nodes of SOURCE as MODEL sees them: one row (node, representation) per node.

    If a run is interrupted, give the same command again: it continues where it stopped.
    """
    make_shards(
        "embed", model, source, output, memory,
        nodes=nodes, engine=engine, chunk=chunk, threads=threads, overwrite=overwrite, on=on, address=address,
        data_dir=data_dir,
    )  # fmt: skip
