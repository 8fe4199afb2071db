"""Messages, progress bars, tables and JSON: messages on stderr, data on stdout; no bars or colours in a file."""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from nodewise._util.errors import NodewiseWarning
from nodewise._util.progress import Progress
from nodewise._util.words import UNSEEN

RATE_SECONDS = 600.0  # over which a rate is measured: a piece of work can take a minute
COUNTED = 200  # from this total on, a bar shows a count instead of a percentage

_COMMANDS = re.compile(f"[{UNSEEN}\\t\\n]")  # what names from files could do to a terminal

_quiet = False


def be_quiet(quiet: bool) -> None:
    """Print only warnings and errors on stderr."""
    global _quiet  # noqa: PLW0603
    _quiet = quiet


def complain(message: str) -> None:
    """Print a warning or an error: one line on stderr, also with --quiet."""
    _write(f"nodewise: {' '.join(message.split())}")


def say(message: str) -> None:
    """Print a message on stderr, unless --quiet."""
    if not _quiet:
        _write(message)


def _write(line: str) -> None:
    with suppress(OSError):  # a log that is full or closed ends no work
        sys.stderr.write(f"{harmless(line)}\n")


def harmless(text: str) -> str:
    r"""``text`` as it may be shown, whoever wrote it.

    >>> print(harmless("\x1b[2Jred\nblue"))
    \x1b[2Jred\nblue
    """
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def print_line(text: str) -> None:
    """Print a line of results on stdout."""
    sys.stdout.write(f"{harmless(text)}\n")


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
    """Print a table on stdout; columns named in ``right`` are aligned to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(harmless(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(harmless, row))
    Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False).print(table)


@contextmanager
def stages(lines: bool = False) -> Iterator[Progress]:
    """Progress bars if stderr is a terminal, one per stage, each with its rate and the time left.

    Elsewhere nothing or, with ``lines``, one line when a stage begins. Yields the function to call.
    """
    tasks: dict[str, Any] = {}
    if _quiet or not sys.stderr.isatty():

        def show_line(stage: str, done: float, total: float | None) -> None:
            if lines and stage not in tasks:
                tasks[stage] = None
                say(f"{stage} …")

        yield show_line
        return
    with _bars() as bars:

        def show_bar(stage: str, done: float, total: float | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield show_bar


def _bars() -> Any:
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Amount(progress.ProgressColumn):
        """A percentage of small totals; of large ones a count, and a rate."""

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
