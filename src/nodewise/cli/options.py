"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import be_quiet

if TYPE_CHECKING:
    from nodewise.graph import Graph

Source = Annotated[str, typer.Argument(help="A named data set, a store folder, or an .npz file.", show_default=False)]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where data sets lie; else $NODEWISE_DATA, then the cache.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use. (default: all cores)", show_default=False)]


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show only results, warnings and errors.", callback=be_quiet)
]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` the option that every command has; its callback does all there is to do."""
    signature = inspect.signature(command, eval_str=True)
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)

    @functools.wraps(command)
    def run(*, quiet: bool, **options: Any) -> None:
        command(**options)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), quiet])  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()} | {"quiet": Quiet}
    return run


def load_source(source: str, data_dir: Path | None) -> Graph:
    from nodewise.datasets import load

    return load(source, data_dir)


def given(**options: Any) -> dict[str, Any]:
    """The options that the user set."""
    return {name: value for name, value in options.items() if value is not None}
