"""The rows of a comparison as text, for Markdown and for terminals."""

from __future__ import annotations

from nodewise._util.memory import show_bytes
from nodewise.lab.compare.results import Comparison, MethodRow

COLUMNS = (
    "method",
    "test micro-F1 %",
    "val %",
    "prepare s",
    "train s",
    "epochs",
    "peak memory",
    "note",
)
NUMBERS = COLUMNS[1:-1]
SCORE = COLUMNS.index("test micro-F1 %")


def cells(row: MethodRow) -> list[str]:
    """A row as text; what is not known is empty."""
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
    table = [cells(row) for row in comparison.rows]
    for row, mark in zip(table, _marks(comparison.rows), strict=True):
        row[SCORE] = mark.format(row[SCORE])
        row[-1] = row[-1].replace("|", r"\|")
    lines = [
        f"# {comparison.dataset}: {_counted(len(table), 'method')}, {_counted(comparison.splits, 'split')}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "| " + " | ".join("---:" if column in NUMBERS else "---" for column in COLUMNS) + " |",
        *(f"| {' | '.join(row)} |" for row in table),
        "",
        *_legend(comparison),
    ]
    return "\n".join(lines) + "\n"


def _marks(rows: list[MethodRow]) -> list[str]:
    """Formats that make the best score bold and the second best underlined, among those that finished every split.

    Scores that are shown alike rank alike.
    """
    shown = [None if r.test_f1_mean is None or not r.complete else round(100 * r.test_f1_mean, 2) for r in rows]
    ranked = sorted({score for score in shown if score is not None}, reverse=True)
    if sum(score is not None for score in shown) < 2:
        return ["{}"] * len(rows)
    marks = dict(zip(ranked, ("**{}**", "<u>{}</u>"), strict=False))
    return ["{}" if score is None else marks.get(score, "{}") for score in shown]


def _legend(comparison: Comparison) -> list[str]:
    graph, machine = comparison.graph, comparison.machine
    memory = "" if machine["memory"] is None else f", {show_bytes(machine['memory'])} of memory"
    facts = (
        f"Graph: {graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['features']:,} features, "
        f"{graph['classes']:,} classes. Splits: {comparison.split_source}. "
        f"{'Inductive' if comparison.inductive else 'Transductive'}, seed {comparison.seed}.",
        f"Machine: {machine['processor']}, {comparison.threads} of {machine['cores']} cores used{memory}. "
        f"nodewise {comparison.versions['nodewise']}, torch {comparison.versions['torch']}.",
    )
    reading = (
        "Means ± standard deviations over splits; seconds are the mean of a split and hold no compilation. Peak memory "
        "is the most that the method's process held: Python, libraries and graph included. Of the methods that "
        "finished every split the best is **bold** and the second best <u>underlined</u>."
    )
    return [facts[0], "", facts[1], "", reading]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _percent(mean: float | None, spread: float | None, splits: int) -> str:
    if mean is None or spread is None:
        return ""
    return f"{100 * mean:.2f}" if splits < 2 else f"{100 * mean:.2f} ± {100 * spread:.2f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
