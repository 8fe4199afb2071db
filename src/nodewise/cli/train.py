"""nodewise train: learn from a graph's few labels, report the score, save the model."""

from __future__ import annotations

import time
from os.path import abspath, realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import complain, print_json, print_line, print_table, say, stages
from nodewise.cli.files import FileOptions, source_or_files
from nodewise.cli.model_options import ModelOptions, model_params
from nodewise.cli.options import Address, DataDir, Json, Memory, On, SourceOrFiles, Threads, given, load_source
from nodewise.cli.splitting import Inductive, SplitOptions, choose_splits

if TYPE_CHECKING:
    from nodewise.graph import Graph
    from nodewise.graph.splits import Split
    from nodewise.learn.evaluate import ClassResult, Evaluation

SHOWN_CLASSES = 20


def train(
    split_options: SplitOptions,
    params: ModelOptions,
    files: FileOptions,
    source: SourceOrFiles = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the model. (default: ./NAME-model)")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model that -o names.")] = False,
    inductive: Inductive = False,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="After the score, train again on all labels, test nodes included. (default: on your own graph)",
            rich_help_panel="Splits",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="<name|path>",
            help="The paper's plain NIGCN with parameters for a named data set, or a file from 'nodewise tune'.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, walks and networks.")] = 0,
    threads: Threads = None,
    memory: Memory = None,
    on: On = "local",
    address: Address = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Train on SOURCE, or on your own files (--edges, --features, --labels), report the score, and save the model.

    A named data set uses its official split, or 20 training nodes per class. On your own graph, a part of the labels is
    held out for the score; then the model is trained again on all labels and saved.
    """
    from nodewise._util.atomic import beside, check_new_folder
    from nodewise._util.errors import InputError
    from nodewise._util.run_folder import RunFolder
    from nodewise.batch import row_maker
    from nodewise.learn.saved import is_model

    settings = {**model_params(preset, params), **given(threads=threads, memory=memory), "seed": seed}
    started = time.perf_counter()
    source, words = source_or_files(source, files)
    graph = load_source(source, data_dir)
    loading = time.perf_counter() - started
    place = output or _default_place(source)
    check_new_folder(place, overwrite=True, ours=is_model)  # before the work, not after
    chosen = choose_splits(graph, source, split_options, seed)
    refit = chosen.own if refit is None else refit
    how: dict[str, Any] = {"inductive": inductive, "refit_asked": refit}
    with RunFolder(beside(Path(realpath(place)), "train"), "training", {}, ours=None, output=place).locked():
        if is_model(place):
            if output is not None and not overwrite:
                raise InputError(
                    f"{place}: holds a model already; pass --overwrite to replace it, or choose another place"
                )
            say(f"the model in {place} will be replaced")
        try:
            with row_maker(source, data_dir, on=on, address=address, threads=threads) as make_rows:
                result = _evaluate(graph, chosen.splits, settings, make_rows=make_rows, **how)
        except KeyboardInterrupt:
            complain(f"{place}: no model was saved and nothing is kept; the same command starts over")
            raise
        result.best.save(place)
    if json:
        print_json({**result.to_json(), "split_origin": chosen.origin, "refit": refit, "model": str(place)})
        return
    _show(result, loading, chosen.origin)
    again = f", trained again on all {sum(part.size for part in chosen.splits[0]):,} labels" if refit else ""
    say(f"model saved in {place}{again}. Next: nodewise predict {place} {words} -o labels.csv")


def _default_place(source: str) -> Path:
    """The folder for a model unless -o names one: after what the user wrote, not after a name inside of a file."""
    path = Path(abspath(source))
    return Path(f"{path.stem if path.suffix.lower() == '.npz' else path.name}-model")


def _evaluate(graph: Graph, splits: list[Split], params: dict[str, Any], **how: Any) -> Evaluation:
    from nodewise.learn.evaluate import evaluate
    from nodewise.learn.nigcn import NIGCN

    model = NIGCN(**params)
    model.check_params()
    expected = model.expected_seconds(graph, *(part.size for part in splits[0]))
    say(f"training on {graph.name}: about {_duration(len(splits) * sum(expected.values()))} expected")
    if graph.features is None:
        say("the graph has no features: a random vector per node is used instead")
    finished: list[Any] = []
    with stages(lines=True) as show:

        def progress(stage: str, done: float, total: float | None) -> None:
            show(f"split {len(finished)}: {stage}" if len(splits) > 1 else stage, done, total)

        return evaluate(model, graph, splits, progress=progress, done=finished.append, **how)


def _duration(seconds: float) -> str:
    """Roughly, as a person says it.

    >>> _duration(0.4), _duration(74), _duration(4000)
    ('1 s', '70 s', '67 min')
    """
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds, -1):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(result: Evaluation, loading: float, origin: str) -> None:
    first, several = result.splits[0], len(result.splits) > 1
    if several:
        columns = ("split", "val F1 %", "test F1 %", "macro-F1 %", "ECE", "prepare s", "train s")
        rows = [
            (
                str(s.split),
                *(_number(score, 2, 100) for score in (s.val_f1, s.test_f1, s.test_macro_f1)),
                _number(s.test_calibration_error, 3),
                f"{s.preparation_seconds:.2f}",
                f"{s.train_seconds:.2f}",
            )
            for s in result.splits
        ]
        print_table(columns, rows, right=columns)
    if result.test_f1_mean is not None:
        show_classes(result.classes)
    print_line(f"split{'s' * several}: {origin}")
    if not several:
        found = {**first.auto_params, "engine": result.engine}
        guide = getattr(getattr(result.best, "found_", None), "guide", "nothing")
        by = "" if guide == "nothing" else f" on {guide}"
        chosen = (f"{name} {value if isinstance(value, str) else f'{value:.3g}'}" for name, value in found.items())
        print_line(f"chosen{by}: {', '.join(chosen)}")
        print_line("votes: " + "; ".join(f"{100 * vote:.0f}% {name}" for name, vote in first.members.items()))
    seconds = {
        stage: sum(s.seconds.get(stage, 0.0) for s in result.splits) for s in result.splits for stage in s.seconds
    }
    spent = {"loading": loading, **seconds}
    print_line("time: " + ", ".join(f"{stage} {value:.2f} s" for stage, value in spent.items()))
    print_line(f"{result.dataset}: {_score(result)}")


def show_classes(results: list[ClassResult]) -> None:
    """Precision and recall by class, the most common first."""
    columns = ("class", "precision %", "recall %", "test nodes")
    classes = sorted((c for c in results if c.support), key=lambda c: -c.support)
    rows = [
        (c.label, _number(c.precision, 1, 100), _number(c.recall, 1, 100), f"{c.support:,}")
        for c in classes[:SHOWN_CLASSES]
    ]
    print_table(columns, rows, right=columns[1:])
    if len(classes) > SHOWN_CLASSES:
        print_line(f"and {len(classes) - SHOWN_CLASSES} smaller classes (--json shows all)")
    if untested := [c.label for c in results if not c.support]:
        more = "" if len(untested) <= SHOWN_CLASSES else ", …"
        print_line(f"classes without test nodes: {', '.join(untested[:SHOWN_CLASSES])}{more}")


def _number(value: float | None, digits: int, scale: int = 1) -> str:
    return "" if value is None else f"{scale * value:.{digits}f}"


def _score(result: Evaluation) -> str:
    if result.test_f1_mean is None or result.test_f1_std is None:
        return "no test nodes, so no score"
    if len(result.test_f1) > 1:
        spread = f" ± {100 * result.test_f1_std:.2f} over {len(result.test_f1)} splits"
    else:
        (nodes, (low, high)) = next((s.sizes["test"], s.test_interval) for s in result.splits if s.test_interval)
        spread = f" ({nodes:,} test nodes; 95% interval {100 * low:.1f} to {100 * high:.1f})"
    macro, loss, error = (result.mean(f"test_{name}") or 0.0 for name in ("macro_f1", "log_loss", "calibration_error"))
    return (
        f"test micro-F1 {100 * result.test_f1_mean:.2f}%{spread}, macro-F1 {100 * macro:.2f}%, "
        f"log-loss {loss:.3f}, calibration error {error:.3f}"
    )
