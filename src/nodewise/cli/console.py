"""Messages on stderr, data on stdout; nothing moves or colours off a terminal."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nodewise.errors import NodewiseWarning


def complain(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"nodewise: {' '.join(message.split())}\n")


def say(message: str) -> None:
    """A message for the person at the terminal, or in the log."""
    sys.stderr.write(f"{message}\n")


def listen() -> None:
    """Send the library's log and warnings to stderr, one line each."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(f"nodewise: {record.getMessage()}")

    logger = logging.getLogger("nodewise")
    if not logger.handlers:
        logger.addHandler(Lines())
        logger.setLevel(logging.INFO)
        logger.propagate = False

    plain = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, NodewiseWarning):
            complain(f"warning: {message}")
        else:
            plain(message, category, *where, **more)

    warnings.showwarning = show


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """A table on stdout; columns named in ``right`` are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False, markup=False, soft_wrap=False).print(table)


@contextmanager
def stages(lines: bool = False) -> Iterator[Callable[[str, float, float | None], None]]:
    """Progress bars on stderr where that is a terminal, one per stage, each with the time left.

    Elsewhere nothing or, with ``lines``, a line when a stage begins. Yields a function of what is going on, how much of
    it is done, and of how much, or None where nobody knows.
    """
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def tell(what: str, done: float, total: float | None) -> None:
            if lines and what not in begun:
                begun.add(what)
                say(f"{what} …")

        yield tell
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def show(what: str, done: float, total: float | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show
