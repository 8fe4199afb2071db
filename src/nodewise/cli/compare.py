"""nodewise compare: methods side by side on one graph, with their scores, seconds and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodewise.cli.console import print_json, print_table, say, stages
from nodewise.cli.options import DataDir, Json, Source, Threads, load_source
from nodewise.cli.splitting import Inductive, SplitOptions, choose_splits

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodewise.lab.compare import MethodRow, Step


def compare(
    source: Source,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the table, the plot and the results.")],
    split_options: SplitOptions,
    inductive: Inductive = False,
    methods: Annotated[str, typer.Option(help="all, or a list such as nigcn,sgc,grand+.")] = "all",
    budget: Annotated[float | None, typer.Option(help="Time limit per method, in seconds. (default: no limit)")] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits and methods.")] = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Compare methods on SOURCE: the same splits for all, one process for each.

    A method that fails, runs out of memory or exceeds its time limit gets a row that says so. If a run is interrupted,
    the same command continues where it stopped.
    """
    from nodewise.lab.compare import compare
    from nodewise.lab.compare.table import COLUMNS, NUMBERS, cells
    from nodewise.lab.rivals import METHODS, method_name

    asked = methods.split(",") if methods.strip().lower() != "all" else METHODS
    names = tuple({method_name(name.strip()) for name in asked})
    # The graph is not kept: it would take memory from the workers.
    chosen = choose_splits(load_source(source, data_dir), source, split_options, seed)
    try:
        with _progress(len(names)) as progress:
            made = compare(
                source, output, names, chosen.splits, split_source=chosen.origin, inductive=inductive, budget=budget,
                seed=seed, threads=threads, data_dir=data_dir, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"finished methods are kept in {output}; the same command continues from there")
        raise
    if json:
        print_json({**made.to_json(), "folder": str(output)})
    else:
        print_table(COLUMNS, [cells(row) for row in made.rows], right=NUMBERS)
        say(f"table, plot and results are in {output}")
    if not any(row.splits for row in made.rows):
        raise typer.Exit(1)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Step], None]]:
    """Bars on a terminal, and a line on stderr for each method that ends."""
    ended = 0
    with stages() as show:

        def progress(step: Step) -> None:
            nonlocal ended
            show(step.method, step.done, step.total)
            if step.row is not None:
                ended += 1
                say(f"{ended} of {total}: {step.method}: {_outcome(step.row)}")

        yield progress


def _outcome(row: MethodRow) -> str:
    score = "" if row.test_f1_mean is None else f"test micro-F1 {100 * row.test_f1_mean:.2f}%"
    time = "" if row.seconds is None else f"{row.seconds:.2f} s per split"
    return ", ".join(part for part in (score, time, row.note) if part)
