"""Messages on stderr, data on stdout; nothing moves or colours off a terminal."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nodewise._util.errors import NodewiseWarning
from nodewise._util.progress import Progress, silent

RATE_SECONDS = 600.0  # over which a rate is taken: a piece of work can take a minute
COUNTED = 200  # things of which a bar shows the number

_quiet = False


def be_quiet(quiet: bool) -> None:
    """Say nothing on stderr but warnings and errors."""
    global _quiet  # noqa: PLW0603
    _quiet = quiet


def complain(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(f"nodewise: {' '.join(message.split())}\n")


def say(message: str) -> None:
    """A message for the person at the terminal, or in the log."""
    if not _quiet:
        sys.stderr.write(f"{message}\n")


def listen() -> None:
    """Send the library's log and warnings to stderr, one line each."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno > logging.INFO:
                complain(record.getMessage())
            else:
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
def stages(lines: bool = False) -> Iterator[Progress]:
    """Progress bars on stderr where that is a terminal, one per stage, each with its rate and the time left.

    Elsewhere nothing or, with ``lines``, a line when a stage begins. Yields the function to call.
    """
    if _quiet:
        yield silent
        return
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def tell(stage: str, done: float, total: float | None) -> None:
            if lines and stage not in begun:
                begun.add(stage)
                say(f"{stage} …")

        yield tell
        return
    with _bars() as bars:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: float, total: float | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show


def _bars() -> Any:
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Amount(progress.ProgressColumn):
        """A share of small amounts; of large ones, how many, and how many per second."""

        def render(self, task: progress.Task) -> Text:
            if not task.total:
                return Text()
            if task.total < COUNTED:
                return Text(f"{task.percentage:.0f}%")
            rate = "" if not task.speed else f", {task.speed:,.0f}/s"
            return Text(f"{task.completed:,.0f} of {task.total:,.0f}{rate}")

    columns = (
        progress.TextColumn("{task.description}"), progress.BarColumn(), Amount(), progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )  # fmt: skip
    console = Console(stderr=True)
    return progress.Progress(*columns, console=console, transient=True, speed_estimate_period=RATE_SECONDS)
