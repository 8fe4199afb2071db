"""Tables 2 and 3, Figures 3 and 6: F1 and seconds of all methods, the paper's beside those found here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from nodewise._util.plotting import BLUE, GREY
from nodewise.lab.compare import Comparison
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.plotting import picture
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table, difference, listed, middle
from nodewise.lab.paper.runs import compared, f1_cell, row_of, side_by_side
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, open_subject, splits_of

CLOSE = 2.0  # points
TITLES = {"seconds_small": "Seconds on small graphs", "seconds_large": "Seconds on large graphs"}
Found = tuple[Subject, Comparison]


def table_run(table: str, name: str, context: Context) -> Found:
    """The methods for which the paper has a score on a table's data set, run on it or on its stand-in."""
    inductive = table == "inductive_f1"
    subject = find_subject(name, context)
    methods = tuple(method for method in facts(table)["rows"] if reported(table, method, name) is not None)
    splits, split_source = splits_of(subject, open_subject(subject, context), context, inductive)
    settings = chosen_settings(subject, methods)
    found = compared(
        name, subject.source, methods, splits, context,
        settings=settings, split_source=split_source, inductive=inductive,
    )  # fmt: skip
    return subject, found


def shortfalls(found: Iterable[Found]) -> list[str]:
    """One sentence for each method that did not finish."""
    return [f"{row.method} on {subject.name}: {row.note}." for subject, made in found for row in made.rows if row.note]


def how_run(found: Iterable[Found]) -> list[str]:
    return [f"{subject.ran_on}; {comparison.split_source}" for subject, comparison in found]


# ---------------------------------------------------------------------- Tables 2 and 3


def table2(context: Context) -> Result:
    return _f1_result("transductive_f1", "F1 of transductive learning", context)


def table3(context: Context) -> Result:
    return _f1_result("inductive_f1", "F1 of inductive learning", context)


def _f1_result(table: str, title: str, context: Context) -> Result:
    found = [table_run(table, name, context) for name in facts(table)["columns"]]
    return Result(
        sentences=[_f1_sentence(table, one) for one in found] + shortfalls(found),
        tables=[f1_table(table, title, found)],
        ran_on=how_run(found),
    )


def f1_table(table: str, title: str, found: Sequence[Found]) -> Table:
    """The scores side by side, with their difference where the data set is the paper's."""
    columns = [Column("method")]
    rows: list[list[Cell]] = [[method] for method in facts(table)["rows"]]
    for subject, comparison in found:
        original = subject.is_original
        columns += [
            Column("paper", ".2f", subject.title),
            Column("here", ".2f", subject.title, best="max" if original else ""),
            *([Column("difference", "+.2f", subject.title)] if original else []),
        ]
        for row in rows:
            there, here = reported(table, str(row[0]), subject.name), f1_cell(row_of(comparison, str(row[0])))
            row += [there, here, *([difference(here, there)] if original else [])]
    note = "Micro-F1 in percent, mean ± standard deviation over splits. –: not in the paper's table, or not run."
    return Table(f"{title} ({facts(table)['source']})", columns, rows, note)


def _f1_sentence(table: str, found: Found) -> str:
    subject, comparison = found
    scores = {row.method: f1_cell(row) for row in comparison.rows}
    known = {method: score for method, cell in scores.items() if (score := middle(cell)) is not None}
    if not known:
        return f"{subject.name}: no method finished."
    if not subject.is_original:
        return f"{subject.name}: on a stand-in; the ranking of methods there says nothing about the original."
    ranked = sorted(known, key=known.__getitem__, reverse=True)
    said = f"{subject.name}: the best here is {ranked[0]}" + (f", then {listed(ranked[1:3])}" if ranked[1:] else "")
    if "NIGCN" in known:
        said += f"; NIGCN is number {ranked.index('NIGCN') + 1} of {len(ranked)}{_in_paper(table, subject.name)}"
    gaps = {method: difference(scores[method], reported(table, method, subject.name)) for method in ranked}
    low = [f"{method} ({gap:+.1f})" for method, gap in gaps.items() if gap is not None and gap < -CLOSE]
    return f"{said}. More than {CLOSE:g} points below the paper: {listed(low)}."


def _in_paper(table: str, name: str) -> str:
    """The rank of NIGCN in the paper's column."""
    scores = {m: score[0] for m in facts(table)["rows"] if (score := reported(table, m, name)) is not None}
    place = sorted(scores.values(), reverse=True).index(scores["NIGCN"]) + 1
    return f" (in the paper, {place} of {len(scores)})"


# ---------------------------------------------------------------------- Figures 3 and 6


def runtime(context: Context) -> Result:
    found = {
        figure: [table_run(_table_of(name), name, context) for name in facts(figure)["columns"]] for figure in TITLES
    }
    everything = [one for some in found.values() for one in some]
    machine = facts("seconds_small")["machine"]
    other = f"The paper's seconds are from another machine ({machine}): only orders within a column can be compared."
    return Result(
        sentences=[other, *map(_time_sentence, everything), *shortfalls(everything)],
        tables=[_time_table(figure, some) for figure, some in found.items()],
        figures=[_figure(figure, some) for figure, some in found.items()],
        ran_on=how_run(everything),
    )


def _table_of(name: str) -> str:
    """The table whose runs are timed."""
    return next(table for table in ("transductive_f1", "inductive_f1") if name in facts(table)["columns"])


def _time_table(figure: str, found: Sequence[Found]) -> Table:
    note = "Preparation and training of one split, the mean over splits. A stand-in is smaller than the original."
    groups = [(subject.title, subject.name, comparison) for subject, comparison in found]
    return side_by_side(TITLES[figure], figure, groups, attrgetter("seconds"), note, "min")


def _time_sentence(found: Found) -> str:
    subject, comparison = found
    times = {row.method: row.seconds for row in comparison.rows if row.seconds is not None}
    if not times:
        return f"{subject.name}: no method finished."
    if not subject.is_original:
        return f"{subject.name}: on a stand-in, whose seconds are not those of the original."
    ranked = sorted(times, key=times.__getitem__)
    said = f"{subject.name}: the fastest here is {ranked[0]} with {times[ranked[0]]:.2f} s per split"
    if "NIGCN" in times:
        said += f"; NIGCN is number {ranked.index('NIGCN') + 1} of {len(ranked)} with {times['NIGCN']:.2f} s"
    return said + "."


def _figure(figure: str, found: Sequence[Found]) -> Figure:
    methods = list(facts(figure)["rows"])[::-1]

    def draw(*axes: Any) -> None:
        for axis, one in zip(axes, found, strict=True):
            _dots(axis, figure, one, methods)
            if axis is not axes[0]:
                axis.set_yticklabels([])
        handles, words = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, words, loc="outside upper left", ncols=2)

    png = picture(draw, columns=len(found), height=1.4 + 0.24 * len(methods))
    caption = f"{TITLES[figure]}, one split, logarithmic; * is a stand-in. As {facts(figure)['source']} of the paper."
    return Figure(f"runtime-{figure.removeprefix('seconds_')}", png, caption)


def _dots(axis: Any, figure: str, found: Found, methods: list[str]) -> None:
    for y, method in enumerate(methods):
        there, here = reported(figure, method, found[0].name), row_of(found[1], method).seconds
        if there is not None and here is not None:
            axis.plot([there, here], [y, y], color=GREY, linewidth=0.8, zorder=1)
        label = method == methods[0]
        axis.plot([there], [y], "o", mfc="white", mec=GREY, label="paper, its machine" if label else None)
        axis.plot([here], [y], "o", color=BLUE, label="here" if label else None)
    axis.set_xscale("log")
    axis.set_yticks(range(len(methods)), methods)
    axis.set_ylim(-0.5, len(methods) - 0.5)
    axis.set_xlabel("seconds")
    axis.xaxis.set_minor_formatter("")
    axis.set_title(found[0].name if found[0].is_original else f"{found[0].name} *")
