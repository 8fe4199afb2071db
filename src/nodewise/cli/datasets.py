"""nodewise datasets: the data sets known by name, where they come from, and whether they are here."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from nodewise.cli.console import print_json, print_line
from nodewise.cli.options import DataDir, Json

if TYPE_CHECKING:
    from nodewise.datasets.registry import DatasetRow

WIDEST = 100  # columns


def datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the data sets known by name: size, origin, and where each one is."""
    from nodewise.datasets import list_datasets

    rows = list_datasets(data_dir)
    if json:
        print_json([asdict(row) for row in rows])
        return
    width = min(WIDEST, shutil.get_terminal_size().columns)
    for row in rows:
        for number, text in enumerate(_lines(row)):
            for line in textwrap.wrap(text, width, initial_indent="    " * (number > 0), subsequent_indent="    "):
                print_line(line)


def _lines(row: DatasetRow) -> tuple[str, str, str]:
    features = f"{row.features:,} features" if row.features else "no features"
    size = f"{row.nodes:,} nodes, {row.edges:,} edges, {features}, {row.classes} classes"
    return f"{row.name}{' (in the paper)' * row.in_paper}: {row.origin}", size, row.where or _download(row)


def _download(row: DatasetRow) -> str:
    from nodewise._util.memory import show_bytes

    if not row.downloadable:
        return "not here, and no download is known"
    size = f" ({show_bytes(row.download_bytes)})" if row.download_bytes else ""
    return f"not on this machine; can be downloaded{size}"
