"""nodewise predict: labels for nodes, by their original names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.options import DataDir, Source, Threads
from nodewise.cli.shards import Address, Chunk, Engine, Memory, Model, Nodes, On, Overwrite, make_shards


def predict(
    model: Model,
    source: Source,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="A folder of shards, or a .parquet or .csv file.", show_default=False),
    ],
    nodes: Nodes = "all",
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Write sets of labels that hold the true one this often, for example 0.9.", show_default=False
        ),
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(help="Leave the label empty where its probability is lower, for example 0.8.", show_default=False),
    ] = None,
    engine: Engine = None,
    chunk: Chunk = None,
    memory: Memory = None,
    threads: Threads = None,
    overwrite: Overwrite = False,
    on: On = "local",
    address: Address = None,
    data_dir: DataDir = None,
) -> None:
    """Predict labels with MODEL on SOURCE: one row (node, label, probability) per node.

    Where nodes have several labels, one row per label. With --coverage, one row per
    label in the node's set, the most probable first. If a run is interrupted, give
    the same command again: it continues where it stopped.
    """
    make_shards(
        "predict", model, source, output, memory,
        nodes=nodes, coverage=coverage, min_confidence=min_confidence, engine=engine, chunk=chunk, threads=threads,
        overwrite=overwrite, on=on, address=address, data_dir=data_dir,
    )  # fmt: skip
