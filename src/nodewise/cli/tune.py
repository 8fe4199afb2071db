"""nodewise tune: search around the default for parameters that suit a graph better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodewise.cli.console import print_json, print_line, print_table, say, stages
from nodewise.cli.options import DataDir, Json, Memory, Source, Threads, load_source
from nodewise.cli.splitting import SplitOptions, choose_splits

if TYPE_CHECKING:
    from nodewise.tune import Tuned

SHOWN = 4  # trials beside the default: the best


def tune(
    source: Source,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the study, its plot and the preset.")],
    split_options: SplitOptions,
    trials: Annotated[int, typer.Option(help="Total number of trials, including finished ones.")] = 50,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which no new trial begins. (default: no limit)")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, walks, networks and proposals.")] = 0,
    threads: Threads = None,
    memory: Memory = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Search for parameters that suit SOURCE better than the default.

    The first trial is the default: what nodewise train finds by itself. At the end, the best trial and the default are
    compared once more on the validation nodes; preset.json gets the best trial if it is better, else the default. Use
    it with: nodewise train SOURCE --preset FILE

    One diffusion serves all trials. The same command continues after an interruption, and with more --trials after the
    end.
    """
    from nodewise.tune import tune

    chosen = choose_splits(load_source(source, data_dir), source, split_options, seed)
    try:
        with stages(lines=True) as show:
            tuned = tune(
                source, output, chosen.splits, trials=trials, timeout=timeout, seed=seed, threads=threads,
                memory=memory, data_dir=data_dir, progress=show,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"finished trials are kept in {output}; the same command continues from there")
        raise
    if json:
        print_json(tuned.to_json())
        return
    _show(tuned)
    say(f"study and plot are in {output}. Next: nodewise train {source} --preset {tuned.preset}")


def _show(tuned: Tuned) -> None:
    default, *others = tuned.trials
    best = [default, *sorted(others, key=lambda trial: (trial.given_up, -trial.value))[:SHOWN]]
    numbers = ["default", *(str(trial.number) for trial in best[1:])]
    rows = [["val F1 %", *(f"{100 * trial.value:.2f}" for trial in best)]]
    rows += [[name.replace("_", " "), *(_short(trial.point[name]) for trial in best)] for name in default.point]
    print_table(("trial", *numbers), rows, right=numbers)
    given_up = sum(trial.given_up for trial in tuned.trials)
    print_line(f"{tuned.dataset}: {len(tuned.trials)} trials, {given_up or 'none'} of them stopped early")
    print_line(_verdict(tuned))
    winner = f"trial {tuned.best.number}" if tuned.is_better else "the default"
    print_line(f"the preset holds the parameters of {winner}")


def _verdict(tuned: Tuned) -> str:
    """Whether the best trial is better than the default, and how sure that is."""
    if tuned.best == tuned.trials[0]:
        return "no measurable gain over the default: no other trial has more validation labels right"
    said = "better than the default" if tuned.is_better else "no measurable gain over the default"
    gain = f"{abs(tuned.gain):,} {'more' if tuned.gain > 0 else 'fewer'}" if tuned.gain else "as many"
    return (
        f"{said}: judged once more, trial {tuned.best.number} has {gain} validation labels right "
        f"({100 * tuned.confirmed_value:.2f}% against {100 * tuned.default_value:.2f}%; standard error "
        f"{tuned.standard_error:.1f} labels)"
    )


def _short(value: float | bool | str) -> str:
    if isinstance(value, bool):
        return ("no", "yes")[value]
    return value if isinstance(value, str) else f"{value:.3g}"
