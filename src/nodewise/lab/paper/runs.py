"""Comparisons of methods, each run once for all experiments that show it, and their numbers as cells of tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nodewise.graph.splits import Split
from nodewise.lab.compare import Comparison, MethodRow, Step, compare
from nodewise.lab.compare.settings import plain
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Best, Cell, Column, Table
from nodewise.learn.evaluate import versions


def compared(
    label: str,
    source: str,
    methods: Sequence[str],
    splits: Sequence[Split],
    context: Context,
    *,
    settings: Mapping[str, Mapping[str, Any]],
    split_source: str = "given",
    inductive: bool = False,
) -> Comparison:
    """A comparison saved in ``runs/LABEL-KEY``; only what is missing there is run. The key is that of the arguments."""
    asked = {**context.asked(), "source": source, "settings": plain(settings), "inductive": inductive}
    asked["with"] = versions()
    del asked["budget"]  # more time finishes a comparison, it does not make it another
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]

    def progress(step: Step) -> None:
        if step.row is not None:
            context.say(f"{label}: {step.method}: {_outcome(step.row)}")

    return compare(
        source,
        context.output / "runs" / f"{label}-{key}",
        methods,
        splits,
        settings=settings,
        split_source=split_source,
        inductive=inductive,
        budget=context.budget,
        seed=context.seed,
        threads=context.threads,
        data_dir=context.data_dir,
        progress=progress,
    )


def _outcome(row: MethodRow) -> str:
    if row.test_f1_mean is None or row.seconds is None:
        return row.problem or "nothing"
    return f"F1 {100 * row.test_f1_mean:.2f}%, {row.seconds:.2f} s per split{row.note and ', ' + row.note}"


def row_of(found: Comparison, method: str) -> MethodRow:
    """The row of a method; one without splits if it was not run."""
    return next((row for row in found.rows if row.method == method), MethodRow(method, {}, [], asked=0))


def f1_cell(row: MethodRow) -> Cell:
    """A method's score in percent, or why it has none."""
    if row.test_f1_mean is None or row.test_f1_std is None:
        return row.problem or None
    if not row.complete:  # text, which is neither ranked nor bold
        score = f"{100 * row.test_f1_mean:.2f} ± {100 * row.test_f1_std:.2f}"
        return f"{score} ({len(row.splits)} of {row.asked})"
    return [100 * row.test_f1_mean, 100 * row.test_f1_std]


def side_by_side(
    title: str,
    name: str,
    found: Iterable[tuple[str, Any, Comparison]],
    cell: Callable[[MethodRow], Cell],
    note: str,
    best: Best = "",
) -> Table:
    """The paper's table ``name`` beside what was found; ``found``: a heading, the paper's column, and what was run."""
    columns = [Column("method")]
    rows: list[list[Cell]] = [[method] for method in facts(name)["rows"]]
    for group, column, comparison in found:
        columns += [Column("paper", ".2f", group, best), Column("here", ".2f", group, best)]
        for row in rows:
            row += [reported(name, str(row[0]), column), cell(row_of(comparison, str(row[0])))]
    return Table(f"{title} ({facts(name)['source']})", columns, rows, note)
