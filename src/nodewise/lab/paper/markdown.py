"""The report as Markdown: the page's words and tables, without its looks."""

from __future__ import annotations

from collections.abc import Sequence

from nodewise.lab.paper.catalogue import EXPERIMENTS
from nodewise.lab.paper.result import Record, Table, shown


def markdown_report(records: Sequence[Record]) -> str:
    parts = ["# The paper's tables and figures, run again", ""]
    for record in records:
        experiment = EXPERIMENTS[record.name]
        parts += [f"## {experiment.title} ({experiment.source})", "", experiment.question, ""]
        parts += [*(f"- {sentence}" for sentence in record.sentences), ""]
        for table in record.tables:
            parts += [f"**{table.title}**", "", *markdown_table(table), ""]
            parts += [table.note, ""] if table.note else []
        for file, caption in record.figures:
            parts += [f"![{caption}]({file})", "", caption, ""]
        parts += [*(f"Ran on {ran_on}." for ran_on in record.ran_on), ""]
        parts += [f"`{record.made['command']}`, {record.made['date']}, {record.made['seconds']:,.0f} s", ""]
    return "\n".join(parts)


def markdown_table(table: Table) -> list[str]:
    names = [f"{column.group}: {column.name}" if column.group else column.name for column in table.columns]
    lines = ["| " + " | ".join(names) + " |"]
    lines.append("| " + " | ".join("---:" if column.is_number else "---" for column in table.columns) + " |")
    best = [table.best_row(number) for number in range(len(table.columns))]
    for i, row in enumerate(table.rows):
        cells = [shown(cell, column.format) for cell, column in zip(row, table.columns, strict=True)]
        marked = [f"**{cell}**" if best[number] == i else cell for number, cell in enumerate(cells)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in marked) + " |")
    return lines
