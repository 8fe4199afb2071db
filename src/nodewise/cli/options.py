"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nodewise.graph import Graph

Source = Annotated[str, typer.Argument(help="A named data set, a store folder, or an .npz file.", show_default=False)]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where data sets lie; else $NODEWISE_DATA, then the cache.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use. (default: all cores)", show_default=False)]


def load_source(source: str, data_dir: Path | None) -> Graph:
    from nodewise.datasets import load

    return load(source, data_dir)


def given(**options: Any) -> dict[str, Any]:
    """The options that the user set."""
    return {name: value for name, value in options.items() if value is not None}
