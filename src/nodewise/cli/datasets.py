"""nodewise datasets: what is known by name, where it comes from, whether it is here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from nodewise.cli.console import print_json, print_table
from nodewise.cli.options import DataDir, Json

if TYPE_CHECKING:
    from nodewise.datasets.registry import DatasetRow


def datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the data sets known by name: size, origin, and where each one is."""
    from nodewise.datasets import list_datasets

    rows = list_datasets(data_dir)
    if json:
        print_json([asdict(row) for row in rows])
        return
    columns = ("name", "nodes", "edges", "features", "classes", "in paper", "here", "origin")
    table = [
        (
            row.name,
            f"{row.nodes:,}",
            f"{row.edges:,}",
            f"{row.features:,}",
            f"{row.classes}",
            "yes" if row.in_paper else "",
            row.where or _download(row),
            row.origin,
        )
        for row in rows
    ]
    print_table(columns, table, right=("nodes", "edges", "features", "classes"))


def _download(row: DatasetRow) -> str:
    from nodewise.memory import show_bytes

    if not row.downloadable:
        return "no"
    return f"can be downloaded ({show_bytes(row.download_bytes)})" if row.download_bytes else "can be downloaded"
