"""Table 5 and Figure 4: F1 and seconds as more nodes are labelled."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from nodewise.lab.compare import Comparison
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import draw_line, picture
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Figure, Result, Table, listed, middle
from nodewise.lab.paper.runs import compared, f1_cell, row_of, side_by_side
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, open_subject, part_splits

Found = dict[float, Comparison]


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
    counts = listed([f"{round(fraction * graph.num_nodes):,}" for fraction in found])
    ran_on = f"{subject.ran_on}; inductive, {context.num_splits} splits; {counts} labelled nodes"
    notes = [f"{row.method} at {100 * f:g}%: {row.note}." for f, c in found.items() for row in c.rows if row.note]
    return Result(_sentences(found) + notes, _tables(found), [_figure(found, subject)], [ran_on])


def _sentences(found: Found) -> list[str]:
    said = []
    for what, cell, unit in (("F1", f1_cell, "%"), ("time", attrgetter("seconds"), " s")):
        for fraction, comparison in found.items():
            values = {method: middle(cell(row_of(comparison, method))) for method in facts("labels")["rows"]}
            known = [f"{method} {value:.2f}{unit}" for method, value in values.items() if value is not None]
            if known:
                said.append(f"{100 * fraction:g}% labelled, {what}: {listed(known)}.")
    return said


def _tables(found: Found) -> list[Table]:
    """F1 and seconds, one group of columns per share. No best is marked: a ranking on a stand-in is no evidence."""
    machine = f"Preparation and training of one split. The paper's: {facts('labels_seconds')['machine']}."
    groups = [(f"{100 * fraction:g}% labelled", fraction, comparison) for fraction, comparison in found.items()]
    title = "by share of labelled nodes"
    return [
        side_by_side(f"F1 {title}", "labels", groups, f1_cell, "Micro-F1 in percent."),
        side_by_side(f"Seconds {title}", "labels_seconds", groups, attrgetter("seconds"), machine),
    ]


def _figure(found: Found, subject: Subject) -> Figure:
    shares = [100 * fraction for fraction in found]

    def draw(scores: Any, times: Any) -> None:
        for method in facts("labels")["rows"]:
            rows = [row_of(comparison, method) for comparison in found.values()]
            draw_line(scores, method, shares, [middle(f1_cell(row)) for row in rows])
            draw_line(times, method, shares, [row.seconds for row in rows])
        times.set_yscale("log")
        for axis, title in ((scores, "F1, %"), (times, "Seconds per split")):
            axis.set_title(title)
            axis.set_xscale("log")
            axis.set_xticks(shares, [f"{share:g}" for share in shares])
            axis.minorticks_off()
            axis.set_xlabel("labelled nodes, %")
        scores.legend()

    return Figure("labels", picture(draw, columns=2), f"{subject.ran_on}. As Table 5 and Figure 4 of the paper.")
