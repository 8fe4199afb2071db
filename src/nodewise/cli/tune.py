"""nodewise tune: search for a network and its training that suit a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodewise.cli.console import print_json, print_table, say, stages
from nodewise.cli.options import DataDir, Json, Source, Threads, load_source
from nodewise.cli.shards import Memory
from nodewise.cli.splitting import (
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
    from nodewise.tuning import Tuned

SHOWN = 5  # of the trials, the best


def tune(
    source: Source,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="The folder for study, picture and preset.", show_default=False),
    ],
    trials: Annotated[int, typer.Option(help="How many there are to be, with those that the folder holds.")] = 50,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds after which no trial is begun. (default: no limit)", show_default=False),
    ] = None,
    splits: Splits = None,
    split_file: SplitFile = None,
    split: NamedSplit = None,
    per_class: PerClass = None,
    val: Val = None,
    test: Test = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, walks, networks and proposals.")] = 0,
    threads: Threads = None,
    memory: Memory = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Search for parameters that suit SOURCE, by its validation nodes.

    One diffusion serves all trials. The same command goes on where an
    interrupted one stopped; more --trials go on from a finished one. What is
    found goes to preset.json, for: nodewise train SOURCE --preset FILE
    """
    from nodewise.tuning import tune

    check_split_options(splits, split_file, split, per_class=per_class, val=val, test=test)
    chosen = choose_splits(load_source(source, data_dir), splits, split_file, split, per_class, val, test, seed)
    try:
        with stages() as show:
            tuned = tune(
                source, output, chosen.splits, trials=trials, timeout=timeout, seed=seed, threads=threads,
                memory=memory, data_dir=data_dir, progress=lambda done: show(f"tune {source}", len(done), trials),
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"what is finished is kept in {output}; the same command goes on from there")
        raise
    if json:
        print_json(tuned.to_json())
        return
    _show(tuned)
    say(f"study and picture are in {output}; use what was found by: nodewise train {source} --preset {tuned.preset}")


def _show(tuned: Tuned) -> None:
    names = [name for name in tuned.best.point if name in tuned.params]
    best = sorted(tuned.trials, key=lambda trial: (trial.given_up, -trial.value))[:SHOWN]
    numbers = [str(trial.number) for trial in best]
    rows = [["val F1 %", *(f"{100 * trial.value:.2f}" for trial in best)]]
    rows += [[name.replace("_", " "), *(_short(trial.point[name]) for trial in best)] for name in names]
    print_table(("trial", *numbers), rows, right=numbers)
    given_up = sum(trial.given_up for trial in tuned.trials)
    typer.echo(f"{tuned.dataset}: {len(tuned.trials)} trials, {given_up} of them given up early")


def _short(value: float | bool | str) -> str:
    if isinstance(value, bool):
        return ("no", "yes")[value]
    return value if isinstance(value, str) else f"{value:.3g}"
