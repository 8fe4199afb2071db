"""nodewise compare: methods side by side on one graph, with their scores, seconds and memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodewise.cli.console import print_json, print_table, say, stages
from nodewise.cli.options import DataDir, Json, Source, Threads, load_source
from nodewise.cli.splitting import (
    Inductive,
    NamedSplit,
    PerClass,
    SplitFile,
    Splits,
    Test,
    Val,
    check_split_options,
    choose_splits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodewise.lab.compare import Comparison, MethodRow, Step


def compare(
    source: Source,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder for table, picture and results.", show_default=False)
    ],
    methods: Annotated[str, typer.Option(help="'all', or some of them, for example nigcn,sgc,grand+.")] = "all",
    splits: Splits = None,
    split_file: SplitFile = None,
    split: NamedSplit = None,
    per_class: PerClass = None,
    val: Val = None,
    test: Test = None,
    inductive: Inductive = False,
    budget: Annotated[
        float | None, typer.Option(help="Time limit per method, in seconds. (default: no limit)", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits and methods.")] = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Compare methods on SOURCE, all on the same splits, each in a process of its own.

    A method that fails, needs more memory than there is, or exceeds the budget is a row that says so. The same
    command goes on where an interrupted one stopped.
    """
    from nodewise.lab import rivals as baselines
    from nodewise.lab.compare import compare

    check_split_options(splits, split_file, split, per_class=per_class, val=val, test=test)
    names = baselines.METHODS if methods.strip().lower() == "all" else _listed(methods)
    # The graph is not kept: it would take memory from the workers.
    chosen = choose_splits(load_source(source, data_dir), source, splits, split_file, split, per_class, val, test, seed)
    try:
        with _told(len(names)) as progress:
            made = compare(
                source, output, names, chosen.splits, split_source=chosen.origin, inductive=inductive, budget=budget,
                seed=seed, threads=threads, data_dir=data_dir, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"what is finished is kept in {output}; the same command goes on from there")
        raise
    if json:
        print_json({**made.to_json(), "folder": str(output)})
    else:
        _show(made)
        say(f"table, picture and results are in {output}")
    if not any(row.splits for row in made.rows):
        raise typer.Exit(1)


def _listed(methods: str) -> tuple[str, ...]:
    from nodewise.lab.rivals import method_name

    return tuple({method_name(name.strip()) for name in methods.split(",")})


@contextmanager
def _told(total: int) -> Iterator[Callable[[Step], None]]:
    """Bars on a terminal, and a line on stderr for each method that ends."""
    ended = 0
    with stages() as show:

        def tell(step: Step) -> None:
            nonlocal ended
            show(step.method, step.done, step.total)
            if step.row is not None:
                ended += 1
                say(f"{ended} of {total}: {step.method}: {_outcome(step.row)}")

        yield tell


def _outcome(row: MethodRow) -> str:
    score = "" if row.test_f1_mean is None else f"test micro-F1 {100 * row.test_f1_mean:.2f}%"
    time = "" if row.seconds is None else f"{row.seconds:.2f} s per split"
    return ", ".join(part for part in (score, time, row.note) if part)


def _show(made: Comparison) -> None:
    from nodewise.lab.compare.table import COLUMNS, NUMBERS, cells

    print_table(COLUMNS, [cells(row) for row in made.rows], right=NUMBERS)
