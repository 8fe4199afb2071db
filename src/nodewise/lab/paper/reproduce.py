"""Run experiments, keep what each gave, and write the page: ``NAME.json``, pictures, ``index.html``, ``report.md``."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nodewise._util.atomic import new_file
from nodewise._util.errors import InputError, NodewiseError, StoreError
from nodewise._util.run_folder import locked_run_dir
from nodewise.lab.paper.catalogue import EXPERIMENTS, Experiment, experiments_named
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.markdown import markdown_report
from nodewise.lab.paper.page import html_page
from nodewise.lab.paper.plotting import check_matplotlib
from nodewise.lab.paper.result import Record, Result


def reproduce(names: Sequence[str], context: Context) -> list[Record]:
    """Run the experiments ``names`` ("table2", ..., "all") into ``context.output``.

    One that was finished there with the same arguments is not run again. One that fails does not keep the others from
    running; the error comes at the end. The page shows all that the folder holds.
    """
    chosen = experiments_named(list(names))
    check_matplotlib()
    _check(context)
    context = replace(context, output=context.output.resolve())
    done, failed = [], {}
    with locked_run_dir(context.output, "reproduction", {}):
        for experiment in chosen:
            try:
                done.append(finished(experiment.name, context) or _run(experiment, context))
            except NodewiseError as error:
                context.say(f"{experiment.name} failed: {error}")
                failed[experiment.name] = str(error)
            write_page(context.output)
        shutil.rmtree(context.output / "graphs", ignore_errors=True)  # the same seed makes the same stand-ins again
    if failed:
        first, reason = next(iter(failed.items()))
        raise InputError(f"{', '.join(failed)} did not finish; {first}: {reason}")
    return done


def _check(context: Context) -> None:
    if context.output.exists() and not context.output.is_dir():
        raise StoreError(f"{context.output}: this is a file, and a folder is to be written; choose another place")
    if context.splits is not None and context.splits < 1:
        raise InputError(f"splits={context.splits}: expected a whole number of at least 1")
    if context.budget is not None and not context.budget > 0:
        raise InputError(f"budget={context.budget}: expected seconds, more than 0")
    if context.splits_dir is not None and not context.splits_dir.is_dir():
        raise InputError(f"{context.splits_dir}: not a folder; expected one with NAME.npz, the splits of a data set")


def finished(name: str, context: Context) -> Record | None:
    """The record of an experiment that was finished with these arguments."""
    record = read_record(context.output, name)
    if record is None or record.asked != context.asked():
        return None
    context.say(f"{name}: finished before, kept")
    return record


def _run(experiment: Experiment, context: Context) -> Record:
    from nodewise.lab.compare.machine import describe_machine
    from nodewise.learn.evaluate import versions

    context.say(f"{experiment.name}: {experiment.title} ({experiment.source})")
    started = time.perf_counter()
    result = experiment.run(context)
    made = {
        "command": _command(experiment.name, context),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": round(time.perf_counter() - started, 2),
        "machine": describe_machine(),
        "versions": versions(),
    }
    return _keep(experiment.name, result, made, context)


def _keep(name: str, result: Result, made: dict[str, object], context: Context) -> Record:
    """The pictures first: where there is a record, all that it names is there."""
    for figure in result.figures:
        with new_file(context.output / f"{figure.name}.png") as path:
            path.write_bytes(figure.png)
    figures = [(f"{figure.name}.png", figure.caption) for figure in result.figures]
    record = Record(name, context.asked(), made, result.sentences, result.ran_on, result.tables, figures)
    with new_file(context.output / f"{name}.json") as path:
        path.write_text(json.dumps(record.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


def read_record(folder: Path, name: str) -> Record | None:
    """What an experiment left in a folder, or None where it left nothing, or nothing of this version's form."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    try:
        record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError):
        return None
    return record if all((folder / file).is_file() for file, _ in record.figures) else None


def write_page(folder: Path) -> None:
    """``index.html`` and ``report.md`` about every experiment that the folder holds."""
    records = [record for name in EXPERIMENTS if (record := read_record(folder, name)) is not None]
    if not records:
        return
    with new_file(folder / "index.html") as path:
        path.write_text(html_page(records, folder), encoding="utf-8")
    with new_file(folder / "report.md") as path:
        path.write_text(markdown_report(records), encoding="utf-8")


def _command(name: str, context: Context) -> str:
    """The command that makes this again."""
    parts = [f"nodewise reproduce {name} -o {context.output.name}"]
    parts += ["--quick"] if context.quick else []
    options = {
        "splits": context.splits,
        "splits-dir": context.splits_dir,
        "budget": None if context.budget is None else f"{context.budget:g}",
        "seed": context.seed or None,
        "threads": context.threads,
        "data-dir": context.data_dir,
    }
    return " ".join(parts + [f"--{option} {value}" for option, value in options.items() if value is not None])
