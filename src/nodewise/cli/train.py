"""nodewise train: learn on a graph's few labels, report the score, save the model."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import print_json, print_table, say, stages
from nodewise.cli.model_options import model_params, with_model_options
from nodewise.cli.options import DataDir, Json, Source, Threads, given, load_source
from nodewise.cli.shards import Address, Memory, On
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
    from nodewise.graph import Graph
    from nodewise.graph.splits import Split
    from nodewise.learn.evaluate import Evaluation
    from nodewise.learn.rows import MakeRows

SHOWN_CLASSES = 20


@with_model_options
def train(
    source: Source,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to save the model. (default: ./NAME-model)", show_default=False),
    ] = None,
    splits: Splits = None,
    split_file: SplitFile = None,
    split: NamedSplit = None,
    per_class: PerClass = None,
    val: Val = None,
    test: Test = None,
    inductive: Inductive = False,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="Learn again from all labels, test nodes included, after the score. (default: on your own graph)",
            rich_help_panel="Splits",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="The plain NIGCN of the paper with parameters for this data set, or those in this file.",
            rich_help_panel="Diffusion",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, walks and networks.")] = 0,
    threads: Threads = None,
    memory: Memory = None,
    on: On = "local",
    address: Address = None,
    data_dir: DataDir = None,
    json: Json = False,
    **params: Any,
) -> None:
    """Train on SOURCE, report the score, and save the model.

    A named data set uses its official split, or 20 nodes per class. Of your own
    graph a part of the labels is held out for an honest score; then the model
    learns again from all labels, and that model is saved.
    """
    check_split_options(splits, split_file, split, per_class=per_class, val=val, test=test)
    settings = {**model_params(preset, params), **given(threads=threads, memory=memory), "seed": seed}
    started = time.perf_counter()
    graph = load_source(source, data_dir)
    loading = time.perf_counter() - started
    place = output or Path(f"{Path(graph.name).name}-model")
    _check_place(place)
    chosen = choose_splits(graph, source, splits, split_file, split, per_class, val, test, seed)
    refit = chosen.own if refit is None else refit
    with _row_maker(on, address, source, data_dir, threads) as make_rows:
        result = _evaluate(graph, chosen.splits, settings, inductive, refit, make_rows)
    result.best.save(place)
    if json:
        print_json({**result.to_json(), "split_origin": chosen.origin, "refit": refit, "model": str(place)})
        return
    _show(result, loading, chosen.origin)
    known = sum(chosen.splits[0][part].size for part in range(3))
    after = f"; it learned again from all {known:,} labels" if refit else ""
    say(f"model saved in {place}{after}. Next: nodewise predict {place} {source} -o labels.csv")


def _check_place(place: Path) -> None:
    """Raise before the work is done, not after."""
    from nodewise._util.atomic import check_new_folder
    from nodewise.learn.saved import is_model

    check_new_folder(place, overwrite=True, ours=is_model)


def _row_maker(
    on: str, address: str | None, source: str, data_dir: Path | None, threads: int | None
) -> AbstractContextManager[MakeRows | None]:
    """Who makes the rows: nobody else, or a cluster."""
    from nodewise._util.errors import InputError

    if on not in ("local", "ray"):
        raise InputError(f"--on {on}: expected local or ray")
    if on == "local" and address is not None:
        raise InputError(f"--address {address}: is that of a Ray cluster; pass --on ray too, or leave it out")
    if on == "local":
        return nullcontext()
    from nodewise.batch import row_maker

    return row_maker(source, data_dir, address=address, threads=threads)


def _evaluate(
    graph: Graph,
    chosen: list[Split],
    params: dict[str, Any],
    inductive: bool,
    refit: bool,
    make_rows: MakeRows | None,
) -> Evaluation:
    from nodewise.learn.evaluate import evaluate
    from nodewise.learn.nigcn import NIGCN

    model = NIGCN(**params)
    model.check_params()
    expected = model.expected_seconds(graph, *(part.size for part in chosen[0]))
    say(f"train {graph.name}: about {_duration(len(chosen) * sum(expected.values()))} expected")
    if graph.features is None:
        say("the graph has no features: random vectors of its nodes take their place")
    count = 0

    def done(_: Any) -> None:
        nonlocal count
        count += 1

    with stages(lines=True) as show:

        def progress(stage: str, part: float, total: float | None) -> None:
            show(f"split {count}: {stage}" if len(chosen) > 1 else stage, part, total)

        return evaluate(
            model, graph, chosen, inductive=inductive, make_rows=make_rows, progress=progress, done=done,
            refit_asked=refit,
        )  # fmt: skip


def _duration(seconds: float) -> str:
    """As a person says it: roughly.

    >>> _duration(0.4), _duration(74), _duration(4000)
    ('1 s', '70 s', '67 min')
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds, -1):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(result: Evaluation, loading: float, origin: str) -> None:
    if len(result.splits) > 1:
        columns = ("split", "val F1 %", "test F1 %", "macro-F1 %", "ECE", "prepare s", "train s")
        rows = [
            (
                str(s.split),
                *("" if score is None else f"{100 * score:.2f}" for score in (s.val_f1, s.test_f1, s.test_macro_f1)),
                "" if s.test_calibration_error is None else f"{s.test_calibration_error:.3f}",
                f"{s.preparation_seconds:.2f}",
                f"{s.train_seconds:.2f}",
            )
            for s in result.splits
        ]
        print_table(columns, rows, right=columns)
    if result.test_f1_mean is not None:
        _show_classes(result)
    first = result.splits[0]
    typer.echo(f"split: {origin}")
    typer.echo(f"{result.dataset}: {_score(result)}")
    if len(result.splits) == 1:
        found = {**first.auto_params, "engine": result.engine}
        guide = getattr(getattr(result.best, "found_", None), "guide", "nothing")
        by = "" if guide == "nothing" else f" on {guide}"
        typer.echo(f"found{by}: " + ", ".join(f"{name} {_short(value)}" for name, value in found.items()))
        typer.echo("votes: " + ", ".join(f"{100 * vote:.0f}% {name}" for name, vote in first.members.items()))
    spent: dict[str, float] = {}
    for s in result.splits:
        for stage, seconds in s.seconds.items():
            spent[stage] = spent.get(stage, 0.0) + seconds
    stages_ = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in spent.items())
    typer.echo(f"loading {loading:.2f} s, {stages_}")


def _show_classes(result: Evaluation) -> None:
    """Class by class, the most common first."""
    columns = ("class", "precision %", "recall %", "test nodes")
    classes = sorted((c for c in result.classes if c.support), key=lambda c: -c.support)
    rows = [(c.label, _percent(c.precision), _percent(c.recall), f"{c.support:,}") for c in classes[:SHOWN_CLASSES]]
    print_table(columns, rows, right=columns[1:])
    if len(classes) > SHOWN_CLASSES:
        typer.echo(f"and {len(classes) - SHOWN_CLASSES} smaller classes (--json has all)")
    if untested := [c.label for c in result.classes if not c.support]:
        more = "" if len(untested) <= SHOWN_CLASSES else ", …"
        typer.echo(f"not tested, for want of labels: {', '.join(untested[:SHOWN_CLASSES])}{more}")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _score(result: Evaluation) -> str:
    if result.test_f1_mean is None or result.test_f1_std is None:
        return "no test nodes, so no score"
    nodes = sum(s.sizes["test"] for s in result.splits)
    if len(result.test_f1) > 1:
        spread = f" ± {100 * result.test_f1_std:.2f} over {len(result.test_f1)} splits"
    else:
        low, high = _interval(result.test_f1_mean, nodes)
        spread = f" ({nodes:,} test nodes; 95% interval {100 * low:.1f} to {100 * high:.1f})"
    error = result.mean("test_calibration_error") or 0.0
    macro = 100 * (result.mean("test_macro_f1") or 0.0)
    return (
        f"test micro-F1 {100 * result.test_f1_mean:.2f}%{spread}, macro-F1 {macro:.2f}%, "
        f"log-loss {result.mean('test_log_loss') or 0:.3f}, calibration error {error:.3f}"
    )


def _interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of so many."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * ((share * (1 - share) + z * z / (4 * count)) / count) ** 0.5 / (1 + z * z / count)
    return middle - half, middle + half
