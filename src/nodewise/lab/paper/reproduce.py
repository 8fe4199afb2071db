"""Run experiments and write their results (``NAME.json``, pictures) and the report (``index.html``, ``report.md``)."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nodewise._util.atomic import new_file
from nodewise._util.errors import InputError, NodewiseError
from nodewise._util.json_file import read_json
from nodewise._util.run_folder import locked_run_dir, write_text
from nodewise.lab.paper.experiments import EXPERIMENTS, Context, Experiment, experiments_named
from nodewise.lab.paper.page import html_page, markdown_report
from nodewise.lab.paper.plotting import check_matplotlib
from nodewise.lab.paper.result import Made, Record

MOST_PICTURE = 1 << 26  # bytes


def reproduce(names: Sequence[str], context: Context) -> list[Record]:
    """Run the experiments ``names`` ("table2", ..., "all") into ``context.output``.

    One that was finished there with the same arguments is not run again. If one fails, the others still run; the
    error is raised at the end. The page shows every experiment in the folder.
    """
    chosen = experiments_named(names)
    check_matplotlib()
    _check(context)
    context = replace(context, output=context.output.resolve())
    done, failed = [], {}
    with locked_run_dir(context.output, "reproduction", {}):
        for experiment in chosen:
            try:
                done.append(_finished(experiment.name, context) or _run(experiment, context))
            except NodewiseError as error:
                context.say(f"{experiment.name} failed: {error}")
                failed[experiment.name] = str(error)
            _write_page(context.output)
        shutil.rmtree(context.output / "graphs", ignore_errors=True)  # the same seed makes the same stand-ins again
    if failed:
        first, reason = next(iter(failed.items()))
        raise InputError(f"{', '.join(failed)} did not finish; {first}: {reason}")
    return done


def _check(context: Context) -> None:
    if context.splits is not None and context.splits < 1:
        raise InputError(f"splits={context.splits}: expected a whole number of at least 1")
    if context.budget is not None and not context.budget > 0:
        raise InputError(f"budget={context.budget}: expected a number of seconds above 0")
    if context.splits_dir is not None and not context.splits_dir.is_dir():
        raise InputError(f"{context.splits_dir}: not a folder; expected one with NAME.npz, the splits of a data set")


def _finished(name: str, context: Context) -> Record | None:
    """The record of an experiment that was finished with the same arguments, or None."""
    record = _read_record(context.output, name)
    if record is None or record.asked != context.asked():
        return None
    context.say(f"{name}: already finished")
    return record


def _run(experiment: Experiment, context: Context) -> Record:
    from nodewise.lab.compare.machine import describe_machine
    from nodewise.learn.evaluate import versions

    context.say(f"{experiment.name}: {experiment.title} ({experiment.source})")
    started = time.perf_counter()
    result = experiment.run(context)
    made: Made = {
        "command": _command(experiment.name, context),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(time.perf_counter() - started, 2),
        "machine": describe_machine(),  # type: ignore[typeddict-item]
        "versions": versions(),
    }
    for figure in result.figures:  # first: a record names only pictures that exist
        with new_file(context.output / f"{figure.name}.png") as path:
            path.write_bytes(figure.png)
    figures = [(f"{figure.name}.png", figure.caption) for figure in result.figures]
    record = Record(experiment.name, context.asked(), made, result.sentences, result.ran_on, result.tables, figures)
    text = json.dumps(record.to_json(), indent=1, ensure_ascii=False) + "\n"
    write_text(context.output / f"{experiment.name}.json", text)
    return record


def _read_record(folder: Path, name: str) -> Record | None:
    """The record of an experiment in a folder; None if there is none, or none that this version can read."""
    try:
        record = Record.from_json(read_json(folder / f"{name}.json"))
        fits = record.name == name and all(_is_picture(folder / file) for file, _ in record.figures)
        return record if fits else None
    except (OSError, ValueError):
        return None


def _is_picture(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MOST_PICTURE


def _write_page(folder: Path) -> None:
    """Write ``index.html`` and ``report.md`` about every experiment in the folder."""
    records = [record for name in EXPERIMENTS if (record := _read_record(folder, name)) is not None]
    if records:
        write_text(folder / "index.html", html_page(records, folder))
        write_text(folder / "report.md", markdown_report(records))


def _command(name: str, context: Context) -> str:
    """The command that makes this again."""
    parts = [f"nodewise reproduce {name} -o {context.output.name}", *(["--quick"] if context.quick else [])]
    for option in ("splits", "splits_dir", "budget", "seed", "threads", "data_dir"):
        if value := getattr(context, option):  # of these only the seed can be 0, its default
            parts.append(f"--{option.replace('_', '-')} {f'{value:g}' if option == 'budget' else value}")
    return " ".join(parts)
