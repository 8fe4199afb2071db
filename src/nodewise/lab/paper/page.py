"""The report on all experiments: one HTML file with style and pictures inside, and the same text as Markdown."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from nodewise._util.memory import show_bytes
from nodewise._util.words import counted
from nodewise.lab.compare.table import markdown_table
from nodewise.lab.paper.experiments import EXPERIMENTS
from nodewise.lab.paper.published import facts
from nodewise.lab.paper.result import Cell, Column, Made, Record, Table, middle, shown

FAR = 2.0  # points: differences beyond this are coloured
OWN = "NIGCN"
TITLE = "Node-wise diffusion, run again"


def html_page(records: Sequence[Record], folder: Path) -> str:
    """The page, with the pictures in ``folder``."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join([_head(records), _contents(records), *(_section(record, folder) for record in records)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def markdown_report(records: Sequence[Record]) -> str:
    parts = ["# The paper's tables and figures, run again", ""]
    for record in records:
        experiment = EXPERIMENTS[record.name]
        parts += [f"## {experiment.title} ({experiment.source})", "", experiment.question, ""]
        parts += [*(f"- {sentence}" for sentence in record.sentences), ""]
        for table in record.tables:
            parts += [f"**{table.title}**", "", *markdown_lines(table), ""]
            parts += [table.note, ""] if table.note else []
        for file, caption in record.figures:
            parts += [f"![{caption}]({file})", "", caption, ""]
        parts += [*(f"Ran on {ran_on}." for ran_on in record.ran_on), ""]
        parts += [f"`{record.made['command']}`, {record.made['date']}, {record.made['seconds']:,.0f} s", ""]
    return "\n".join(parts)


def markdown_lines(table: Table) -> list[str]:
    names = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
    rows = [[shown(cell, column.format) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    for number in range(len(table.columns)):
        if (best := table.best_row(number)) is not None:
            rows[best][number] = f"**{rows[best][number]}**"
    return markdown_table(names, [column.is_number for column in table.columns], rows)


# ---------------------------------------------------------------------- the page


def _head(records: Sequence[Record]) -> str:
    last = max(records, key=lambda record: str(record.made["date"]))
    return (
        f"<header>\n<h1>{TITLE}</h1>\n"
        f'<p class="lead">The tables and figures of {escape(str(facts("source")))}, made again by nodewise '
        f"{escape(last.made['versions']['nodewise'])}. The paper's numbers are beside those found here.</p>\n"
        f'<p class="quiet">{_machine(last.made)} {escape(str(last.made["date"]))}.</p>\n'
        f'<p class="legend">Differences are found here minus paper: those of more than {FAR:g} points '
        f'<span class="low">below</span> or <span class="high">above</span> are coloured. The best of a column is '
        f"<strong>bold</strong>. Sentences are made from the numbers of the run.</p>\n</header>"
    )


def _machine(made: Made) -> str:
    """The machine and the versions of libraries."""
    machine, cores = made["machine"], made["machine"]["cores"]
    memory = "" if machine["memory"] is None else f", {show_bytes(machine['memory'])} of memory"
    versions = ", ".join(f"{name} {number}" for name, number in made["versions"].items())
    return escape(f"{counted(cores, 'core')} of {machine['processor']}{memory}, {machine['system']}. {versions}.")


def _contents(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        experiment = EXPERIMENTS[record.name]
        rows.append(
            f'<tr><td><a href="#{record.name}">{escape(experiment.title)}</a></td><td>{escape(experiment.source)}</td>'
            f'<td>{escape(experiment.question)}</td><td class="number">{_time(record.made["seconds"])}</td></tr>'
        )
    head = '<tr><th>Experiment</th><th>In the paper</th><th>Question</th><th class="number">Took</th></tr>'
    table = f"<table>\n<thead>{head}</thead>\n<tbody>\n" + "\n".join(rows) + "\n</tbody>\n</table>"
    return f'<nav class="contents scroll">{table}</nav>'


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def _section(record: Record, folder: Path) -> str:
    experiment = EXPERIMENTS[record.name]
    parts = [
        f'<section id="{record.name}">',
        f'<div class="heading"><h2>{escape(experiment.title)}</h2>',
        f'<span class="source">{escape(experiment.source)}</span></div>',
        f'<p class="question">{escape(experiment.question)}</p>',
        '<ul class="findings">' + "".join(f"<li>{escape(s)}</li>" for s in record.sentences) + "</ul>",
        *(_table(table) for table in record.tables),
        *(_figure(folder / file, caption) for file, caption in record.figures),
        _how(record),
        "</section>",
    ]
    return "\n".join(parts)


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    text = escape(caption)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'


def _how(record: Record) -> str:
    made = record.made
    lines = [
        *(f"<p>Ran on {escape(ran_on)}.</p>" for ran_on in record.ran_on),
        f"<p><code>{escape(made['command'])}</code></p>",
        f"<p>{escape(str(made['date']))}, {_time(made['seconds'])}. {_machine(made)}</p>",
    ]
    return "<details><summary>How this was run</summary>" + "".join(lines) + "</details>"


# ---------------------------------------------------------------------- tables


def _table(table: Table) -> str:
    rows = "\n".join(_row(table, number) for number in range(len(table.rows)))
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{escape(table.title)}</h3>\n<div class="scroll"><table>\n<thead>{_header(table.columns)}</thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>\n{note}"
    )


def _header(columns: Sequence[Column]) -> str:
    groups = [(group, len(list(members))) for group, members in groupby(columns, key=lambda column: column.group)]
    upper = [
        f'<th class="group starts" colspan="{width}" scope="colgroup"><span>{escape(group)}</span></th>'
        if group
        else f'<th colspan="{width}"></th>'
        for group, width in groups
    ]
    names = [
        f'<th scope="col"{_classes(_kinds(columns, number))}>{escape(column.name)}</th>'
        for number, column in enumerate(columns)
    ]
    return (f"<tr>{''.join(upper)}</tr>" if any(group for group, _ in groups) else "") + f"<tr>{''.join(names)}</tr>"


def _kinds(columns: Sequence[Column], number: int) -> list[str]:
    """The classes of a column, for the style."""
    column = columns[number]
    starts = bool(column.group) and columns[number - 1].group != column.group
    return ["number"] * column.is_number + ["starts"] * starts + ["paper"] * column.name.startswith("paper")


def _row(table: Table, number: int) -> str:
    cells = []
    for i, (cell, column) in enumerate(zip(table.rows[number], table.columns, strict=True)):
        kinds = _kinds(table.columns, i)
        kinds += ["best"] * (table.best_row(i) == number)
        kinds += ["own"] * (i == 0 and cell == OWN)
        kinds += ["words"] * (column.is_number and isinstance(cell, str))
        if column.format.startswith("+") and (value := middle(cell)) is not None and abs(value) > FAR:
            kinds.append("low" if value < 0 else "high")
        cells.append(f"<td{_classes(kinds)}>{_shown(cell, column)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _shown(cell: Cell, column: Column) -> str:
    text = escape(shown(cell, column.format))
    if isinstance(cell, list):
        mean, spread = text.split(" ± ")
        return f'{mean} <span class="pm">± {spread}</span>'
    return text


def _classes(kinds: list[str]) -> str:
    return f' class="{" ".join(kinds)}"' if kinds else ""
