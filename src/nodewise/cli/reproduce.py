"""nodewise reproduce: the paper's tables and figures, run again, as data and as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import say
from nodewise.cli.options import DataDir, Threads

BUDGET = 900.0


def reproduce(
    experiments: Annotated[
        list[str],
        typer.Argument(
            help="table2, table3, runtime, ablation, labels, sensitivity, ghd, weights, complexity, or all.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to fill.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Smaller graphs and two splits: minutes, not hours.")] = False,
    splits: Annotated[
        int | None, typer.Option(help="Splits of each graph. (default: 10; --quick: 2)", show_default=False)
    ] = None,
    splits_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder with NAME.npz, a data set's splits. (default: $NODEWISE_DATA/splits)", show_default=False
        ),
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds that a method may take on a graph, all splits.")] = BUDGET,
    seed: Annotated[int, typer.Option(help="Seed of graphs, splits, walks and networks.")] = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
) -> None:
    """Run the paper's EXPERIMENTS and set what it reports beside what is found here.

    Each experiment is written to the folder as soon as it is done: NAME.json and
    its pictures; index.html and report.md show all that the folder holds. Called
    again, the command goes on with what is missing.
    """
    from nodewise.lab.paper import Context
    from nodewise.lab.paper import reproduce as run

    context = Context(output, quick, splits, splits_dir, budget, seed, threads, data_dir, say)
    for record in run(experiments, context):
        for sentence in record.sentences:
            typer.echo(f"{record.name}: {sentence}")
    typer.echo(str(output / "index.html"))
