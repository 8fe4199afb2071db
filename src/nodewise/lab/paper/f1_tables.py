"""What Tables 2 and 3 share: scores of methods on data sets, the paper's beside those found here."""

from __future__ import annotations

from collections.abc import Sequence

from nodewise.lab.paper.context import Context
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.paper.result import Cell, Column, Result, Table, difference, middle
from nodewise.lab.paper.runs import Found, f1_cell, how_run, row_of, shortfalls, table_run
from nodewise.lab.paper.words import order

CLOSE = 2.0  # points


def f1_result(table: str, title: str, context: Context) -> Result:
    """Run a table's methods on its data sets, and set the scores side by side."""
    found = [table_run(table, name, context) for name in facts(table)["columns"]]
    return Result(
        sentences=[_sentence(table, one) for one in found]
        + [sentence for one in found for sentence in shortfalls(one)],
        tables=[f1_table(table, title, found)],
        ran_on=[how_run(one) for one in found],
    )


def f1_table(table: str, title: str, found: Sequence[Found]) -> Table:
    columns, rows = [Column("method")], [[method] for method in facts(table)["rows"]]
    filled: list[list[Cell]] = [list(row) for row in rows]
    for subject, comparison in found:
        group = subject.name if subject.is_original else f"{subject.name} (stand-in)"
        columns += [
            Column("paper", ".2f", group),
            Column("here", ".2f", group, best="max" if subject.is_original else ""),
        ]
        columns += [Column("difference", "+.2f", group)] if subject.is_original else []
        for row in filled:
            there, here = reported(table, str(row[0]), subject.name), f1_cell(row_of(comparison, str(row[0])))
            row += [there, here, *([difference(here, there)] if subject.is_original else [])]
    note = "Micro-F1 in percent, mean ± standard deviation over splits. –: not in the paper's table, or not run."
    return Table(f"{title} ({facts(table)['source']})", columns, filled, note)


def _sentence(table: str, found: Found) -> str:
    subject, comparison = found
    scores = {row.method: f1_cell(row) for row in comparison.rows}
    known = {method: score for method, cell in scores.items() if (score := middle(cell)) is not None}
    if not known:
        return f"{subject.name}: no method finished."
    if not subject.is_original:
        return f"{subject.name}: on a stand-in; the order of methods there says nothing of their order on the original."
    ranked = sorted(known, key=known.__getitem__, reverse=True)
    said = f"{subject.name}: the best here is {ranked[0]}" + (f", then {order(ranked[1:3])}" if ranked[1:] else "")
    if "NIGCN" in known:
        said += f"; NIGCN is number {ranked.index('NIGCN') + 1} of {len(ranked)}{_in_paper(table, subject.name)}"
    gaps = {method: difference(scores[method], reported(table, method, subject.name)) for method in ranked}
    low = [f"{method} ({gap:+.1f})" for method, gap in gaps.items() if gap is not None and gap < -CLOSE]
    return f"{said}. More than {CLOSE:g} points under the paper: {order(low)}."


def _in_paper(table: str, name: str) -> str:
    """The place that NIGCN has in the paper's column."""
    column = facts(table)["columns"].index(name)
    scores = {m: row[column][0] for m, row in facts(table)["rows"].items() if row[column] is not None}
    place = sorted(scores.values(), reverse=True).index(scores["NIGCN"]) + 1
    return f" (in the paper, {place} of {len(scores)})"
