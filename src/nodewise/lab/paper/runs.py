"""Comparisons of methods, each made once for all experiments that show it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nodewise.graph.splits import Split
from nodewise.lab.compare import Comparison, MethodRow, Step, compare
from nodewise.lab.compare.settings import plain
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, open_subject, splits_of
from nodewise.learn.evaluate import versions

Found = tuple[Subject, Comparison]


def compared(
    label: str,
    source: str,
    methods: Sequence[str],
    splits: Sequence[Split],
    context: Context,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    split_source: str = "given",
    inductive: bool = False,
) -> Comparison:
    """A comparison kept in ``runs/LABEL-KEY``, or what is missing of it; the key stands for what was asked."""
    kept = None if settings is None else plain(settings)
    asked = {**context.asked(), "source": source, "settings": kept, "inductive": inductive, "with": versions()}
    del asked["budget"]  # more time finishes a comparison, it does not make it another
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]

    def tell(step: Step) -> None:
        if step.row is not None:
            context.say(f"{label}: {_outcome(step.row)}")

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
        progress=tell,
    )


def _outcome(row: MethodRow) -> str:
    if row.test_f1_mean is None or row.seconds is None:
        return f"{row.method}: {row.problem or 'nothing'}"
    return f"{row.method}: F1 {100 * row.test_f1_mean:.2f}%, {row.seconds:.2f} s a split{row.note and ', ' + row.note}"


def table_run(table: str, name: str, context: Context) -> Found:
    """The methods that the paper has a score of on one of a table's data sets, run on it or on its stand-in."""
    inductive = table == "inductive_f1"
    subject = find_subject(name, context)
    rows = facts(table)["rows"]
    column = facts(table)["columns"].index(name)
    methods = tuple(method for method, scores in rows.items() if scores[column] is not None)
    graph = open_subject(subject, context)
    splits, split_source = splits_of(subject, graph, context, inductive)
    settings = chosen_settings(subject, methods)
    found = compared(
        name, subject.source, methods, splits, context,
        settings=settings, split_source=split_source, inductive=inductive,
    )  # fmt: skip
    return subject, found


def f1_cell(row: MethodRow | None) -> Cell:
    """A method's score in percent, or why it has none."""
    if row is None:
        return None
    if row.test_f1_mean is None or row.test_f1_std is None:
        return row.problem or None
    if not row.complete:  # words, which are neither ranked nor bold
        score = f"{100 * row.test_f1_mean:.2f} ± {100 * row.test_f1_std:.2f}"
        return f"{score} ({len(row.splits)} of {row.asked})"
    return [100 * row.test_f1_mean, 100 * row.test_f1_std]


def row_of(found: Comparison, method: str) -> MethodRow | None:
    return next((row for row in found.rows if row.method == method), None)


def shortfalls(found: Found) -> list[str]:
    """A sentence for each method that did not finish."""
    subject, comparison = found
    return [f"{row.method} on {subject.name}: {row.note}." for row in comparison.rows if row.note]


def how_run(found: Found) -> str:
    subject, comparison = found
    return f"{subject.ran_on}; {comparison.split_source}"
