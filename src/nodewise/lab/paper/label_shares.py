"""Table 5 and Figure 4: F1 and seconds as more of the nodes are labelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodewise.lab.compare import Comparison
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.plotting import draw_line, picture
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table, middle
from nodewise.lab.paper.runs import compared, f1_cell, row_of
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, open_subject, part_splits
from nodewise.lab.paper.words import order

Found = dict[float, Comparison]
Reader = Callable[[Found, str, float], Cell]


def run(context: Context) -> Result:
    subject = find_subject(facts("labels")["dataset"], context)
    graph = open_subject(subject, context)
    methods = tuple(facts("labels")["rows"])
    found: Found = {}
    for fraction in facts("labels")["columns"]:
        splits = part_splits(graph, context.num_splits, context.seed, train=round(fraction * graph.num_nodes))
        source = f"{len(splits)} random splits within the official parts, {splits[0].train.size:,} training nodes"
        found[fraction] = compared(
            f"labels-{fraction:g}", subject.source, methods, splits, context,
            settings=chosen_settings(subject, methods), split_source=source, inductive=True,
        )  # fmt: skip
    counts = order([f"{round(fraction * graph.num_nodes):,}" for fraction in found])
    ran_on = f"{subject.ran_on}; inductive, {context.num_splits} splits; {counts} labelled nodes"
    notes = [f"{row.method} at {100 * f:g}%: {row.note}." for f, c in found.items() for row in c.rows if row.note]
    return Result(_sentences(found) + notes, _tables(found), [_figure(found, subject)], [ran_on])


def _score(found: Found, method: str, fraction: float) -> Cell:
    return f1_cell(row_of(found[fraction], method))


def _seconds(found: Found, method: str, fraction: float) -> float | None:
    row = row_of(found[fraction], method)
    return None if row is None else row.seconds


def _sentences(found: Found) -> list[str]:
    said = []
    for what, read, unit in (("F1", _score, "%"), ("time", _seconds, " s")):
        for fraction in found:
            cells = {method: middle(read(found, method, fraction)) for method in facts("labels")["rows"]}
            known = {method: value for method, value in cells.items() if value is not None}
            if known:
                figures = order([f"{m} {v:.2f}{unit}" for m, v in known.items()])
                said.append(f"{100 * fraction:g}% labelled, {what}: {figures}.")
    return said


def _table(title: str, facts_name: str, found: Found, read: Reader, note: str) -> Table:
    """Paper beside here, a group of columns a share. Nothing stands out: the order on a stand-in is no evidence."""
    columns = [Column("method")]
    rows: list[list[Cell]] = [[method] for method in facts("labels")["rows"]]
    for fraction in found:
        group = f"{100 * fraction:g}% labelled"
        columns += [Column("paper", ".2f", group), Column("here", ".2f", group)]
        for row in rows:
            row += [reported(facts_name, str(row[0]), fraction), read(found, str(row[0]), fraction)]
    return Table(f"{title} by share of labelled nodes ({facts(facts_name)['source']})", columns, rows, note)


def _tables(found: Found) -> list[Table]:
    machine = f"Preparation and training of one split. The paper's: {facts('labels_seconds')['machine']}."
    return [
        _table("F1", "labels", found, _score, "Micro-F1 in percent."),
        _table("Seconds", "labels_seconds", found, _seconds, machine),
    ]


def _figure(found: Found, subject: Subject) -> Figure:
    shares = [100 * fraction for fraction in found]

    def draw(scores: Any, times: Any) -> None:
        for method in facts("labels")["rows"]:
            draw_line(scores, method, shares, [middle(_score(found, method, f)) for f in found])
            draw_line(times, method, shares, [_seconds(found, method, f) for f in found])
        times.set_yscale("log")
        for axis, title in ((scores, "F1, %"), (times, "Seconds a split")):
            axis.set_title(title)
            axis.set_xscale("log")
            axis.set_xticks(shares, [f"{share:g}" for share in shares])
            axis.minorticks_off()
            axis.set_xlabel("labelled nodes, %")
        scores.legend()

    return Figure("labels", picture(draw, columns=2), f"{subject.ran_on}. As Table 5 and Figure 4 of the paper.")
