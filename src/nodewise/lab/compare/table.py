"""The rows of a comparison as text, for Markdown and for terminals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodewise._util.memory import show_bytes
from nodewise._util.words import counted
from nodewise.lab.compare.results import Comparison, MethodRow

COLUMNS = ("method", "test micro-F1 %", "val %", "prepare s", "train s", "epochs", "peak memory", "note")
NUMBERS = COLUMNS[1:-1]
SCORE = COLUMNS.index("test micro-F1 %")


def cells(row: MethodRow) -> list[str]:
    """A row as text; unknown values are empty."""
    return [
        row.method,
        _percent(row.test_f1_mean, row.test_f1_std, len(row.splits)),
        _percent(row.val_f1_mean, row.val_f1_std, len(row.splits)),
        _seconds(row.preparation_seconds),
        _seconds(row.train_seconds),
        "" if row.epochs is None else f"{row.epochs:.0f}",
        "" if row.peak_memory is None else show_bytes(row.peak_memory),
        row.note,
    ]


def markdown(comparison: Comparison) -> str:
    """Heading, table, and how to read it."""
    graph, machine = comparison.graph, comparison.machine
    table = [cells(row) for row in comparison.rows]
    for row, mark in zip(table, _marks(comparison.rows), strict=True):
        row[SCORE] = mark.format(row[SCORE])
    memory = "" if machine["memory"] is None else f", {show_bytes(machine['memory'])} of memory"
    lines = [
        f"# {comparison.dataset}: {counted(len(table), 'method')}, {counted(comparison.splits, 'split')}",
        "",
        *markdown_table(COLUMNS, [column in NUMBERS for column in COLUMNS], table),
        "",
        f"Graph: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features, "
        f"{graph['classes']:,} classes. Splits: {comparison.split_source}. "
        f"{'Inductive' if comparison.inductive else 'Transductive'}, seed {comparison.seed}.",
        "",
        f"Machine: {machine['processor']}, {comparison.threads} of {machine['cores']} cores used{memory}. "
        f"nodewise {comparison.versions['nodewise']}, torch {comparison.versions['torch']}.",
        "",
        "Means ± standard deviations over splits; seconds are per split, without compilation. Peak memory is the most "
        "that the method's process held, including Python, libraries and the graph. Among methods that finished every "
        "split, the best is **bold** and the second best <u>underlined</u>.",
    ]
    return "\n".join(lines) + "\n"


def markdown_table(names: Sequence[str], numeric: Iterable[bool], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; columns that are ``numeric`` are aligned to the right."""
    rules = ["---:" if number else "---" for number in numeric]
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return [f"| {' | '.join(line)} |" for line in (names, rules, *escaped)]


def _marks(rows: list[MethodRow]) -> list[str]:
    """Formats that make the best score bold and the second best underlined, among methods that finished every split.

    Scores that look the same rank the same.
    """
    shown = [None if r.test_f1_mean is None or not r.complete else round(100 * r.test_f1_mean, 2) for r in rows]
    known = [score for score in shown if score is not None]
    if len(known) < 2:
        return ["{}"] * len(rows)
    marks = dict(zip(sorted(set(known), reverse=True), ("**{}**", "<u>{}</u>"), strict=False))
    return ["{}" if score is None else marks.get(score, "{}") for score in shown]


def _percent(mean: float | None, spread: float | None, splits: int) -> str:
    if mean is None or spread is None:
        return ""
    return f"{100 * mean:.2f}" if splits < 2 else f"{100 * mean:.2f} ± {100 * spread:.2f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
