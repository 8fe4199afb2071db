"""Figures 3 and 6: seconds of the runs of Tables 2 and 3, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodewise.lab.paper.context import Context
from nodewise.lab.paper.plotting import BLUE, GREY, picture
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Cell, Column, Figure, Result, Table
from nodewise.lab.paper.runs import Found, how_run, row_of, shortfalls, table_run

TITLES = {"seconds_small": "Seconds on small graphs", "seconds_large": "Seconds on large graphs"}


def run(context: Context) -> Result:
    shown: dict[str, list[Found]] = {}
    for figure in TITLES:
        tables = {name: _table_of(name) for name in facts(figure)["columns"]}
        shown[figure] = [table_run(table, name, context) for name, table in tables.items()]
    everything = [one for found in shown.values() for one in found]
    return Result(
        sentences=[_machines()]
        + [_sentence(one) for one in everything]
        + [s for one in everything for s in shortfalls(one)],
        tables=[_table(figure, found) for figure, found in shown.items()],
        figures=[_figure(figure, found) for figure, found in shown.items()],
        ran_on=[how_run(one) for one in everything],
    )


def _table_of(name: str) -> str:
    """The table whose runs are timed."""
    return next(table for table in ("transductive_f1", "inductive_f1") if name in facts(table)["columns"])


def _machines() -> str:
    machine = facts("seconds_small")["machine"]
    return f"The paper's seconds are from another machine ({machine}): only orders within a column can be compared."


def _seconds(found: Found, method: str) -> float | None:
    row = row_of(found[1], method)
    return None if row is None else row.seconds


def _table(figure: str, found: Sequence[Found]) -> Table:
    columns = [Column("method")]
    rows: list[list[Cell]] = [[method] for method in facts(figure)["rows"]]
    for one in found:
        group = one[0].name if one[0].is_original else f"{one[0].name} (stand-in)"
        columns += [Column("paper", ".2f", group, best="min"), Column("here", ".2f", group, best="min")]
        for row in rows:
            row += [reported(figure, str(row[0]), one[0].name), _seconds(one, str(row[0]))]
    note = "Preparation and training of one split, the mean over splits. A stand-in is smaller than the original."
    return Table(f"{TITLES[figure]} ({facts(figure)['source']})", columns, rows, note)


def _sentence(found: Found) -> str:
    subject, comparison = found
    times = {row.method: row.seconds for row in comparison.rows if row.seconds is not None}
    if not times:
        return f"{subject.name}: no method finished."
    if not subject.is_original:
        return f"{subject.name}: on a stand-in, whose seconds are not those of the original."
    ranked = sorted(times, key=times.__getitem__)
    said = f"{subject.name}: the fastest here is {ranked[0]} with {times[ranked[0]]:.2f} s a split"
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
        there, here = reported(figure, method, found[0].name), _seconds(found, method)
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
