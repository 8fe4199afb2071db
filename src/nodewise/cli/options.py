"""What commands share: their common options, options kept in a dataclass, and the graph behind SOURCE."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from nodewise.cli.console import be_quiet

if TYPE_CHECKING:
    from nodewise.graph import Graph

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="A data set by name, a store folder, or an .npz file."),
]
SourceOrFiles = Annotated[
    str | None,
    typer.Argument(metavar="SOURCE", help="A data set by name, a store folder, or an .npz file; or use --edges."),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of data sets. (default: $NODEWISE_DATA, else the cache)")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads. (default: one per core)")]
Memory = Annotated[
    str | None,
    typer.Option(metavar="<size>", help="Memory limit, for example 4GB. (default: a quarter of what is available)"),
]
On = Annotated[str, typer.Option(metavar="<local|ray>", help="Where to compute.", rich_help_panel="Cluster")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster, HOST:6379 or auto. (default: $RAY_ADDRESS, else a new one on this machine)",
        rich_help_panel="Cluster",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show only results, warnings and errors.", callback=be_quiet)
]

until_the_end = ExitStack()  # closes what is open when a command ends


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """``function`` as typer takes it: a parameter that is a dataclass becomes one option per field; with --quiet."""
    own = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)}
    options: list[inspect.Parameter] = []
    for name, parameter in own.items():
        if name not in groups:
            options.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        types = get_type_hints(groups[name], include_extras=True)
        options += [_keyword(field.name, types[field.name], field.default) for field in fields(groups[name])]
    options.append(_keyword("quiet", Quiet, False))

    def run(*, quiet: bool, **values: Any) -> None:
        filled = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        with until_the_end:
            function(**values, **filled)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)  # each wrapped to the terminal
    return run


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def load_source(source: str, data_dir: Path | None) -> Graph:
    from nodewise.datasets import load

    return load(source, data_dir)


def given(**options: Any) -> dict[str, Any]:
    """The options that the user set."""
    return {name: value for name, value in options.items() if value is not None}
