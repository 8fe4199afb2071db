"""nodewise report: a graph, a model and its mistakes on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodewise.cli.console import print_json, say, stages
from nodewise.cli.files import FileOptions, source_or_files
from nodewise.cli.options import DataDir, Json, SourceOrFiles, load_source
from nodewise.cli.predict import Model


def report(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write, an .html file.")],
    files: FileOptions,
    source: SourceOrFiles = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Write a page about MODEL on SOURCE: the graph, the score, the mistakes, and which nodes to look at.

    The page needs no other file and no network. --json prints the same numbers.
    """
    from nodewise.report.report_page import write_report

    source, _ = source_or_files(source, files)

    with stages(lines=True) as progress:
        found = write_report(model, load_source(source, data_dir), output, overwrite=overwrite, progress=progress)
    if json:
        print_json(found.to_json())
    say(f"report written to {output}")
