"""nodewise reproduce: the paper's tables and figures, run again, as data and as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import print_line, say
from nodewise.cli.options import DataDir, Threads


def reproduce(
    experiments: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPERIMENT...",
            help="table2, table3, runtime, ablation, labels, sensitivity, ghd, weights, complexity, or all.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the report.")],
    quick: Annotated[bool, typer.Option("--quick", help="Smaller graphs and two splits: minutes, not hours.")] = False,
    splits: Annotated[int | None, typer.Option(help="Splits per graph. (default: 10; --quick: 2)")] = None,
    splits_dir: Annotated[
        Path | None, typer.Option(help="Folder of splits, NAME.npz per data set. (default: $NODEWISE_DATA/splits)")
    ] = None,
    budget: Annotated[float, typer.Option(help="Time limit per method and graph, in seconds, for all splits.")] = 900.0,
    seed: Annotated[int, typer.Option(help="Seed of graphs, splits, walks and networks.")] = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
) -> None:
    """Run experiments of the paper again, and show its results beside those found here.

    Each experiment is written to the folder as soon as it is done: NAME.json and its plots; index.html and report.md
    show all that the folder holds. If a run is interrupted, the same command continues with what is missing.
    """
    from nodewise.lab.paper import Context
    from nodewise.lab.paper import reproduce as run

    context = Context(output, quick, splits, splits_dir, budget, seed, threads, data_dir, say)
    for record in run(experiments, context):
        for sentence in record.sentences:
            print_line(f"{record.name}: {sentence}")
    print_line(str(output / "index.html"))
