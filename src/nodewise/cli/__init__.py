"""The command line: one file per command, each a thin layer over one function of the library."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress

import typer

from nodewise._util.errors import InputError, NodewiseError
from nodewise._util.memory import address_space, show_bytes
from nodewise.cli import (
    append,
    compare,
    datasets,
    describe,
    embed,
    evaluate,
    explain,
    import_,
    info,
    predict,
    report,
    reproduce,
    serve,
    train,
    tune,
    verify,
)
from nodewise.cli.console import complain, listen
from nodewise.cli.options import as_command

app = typer.Typer(
    help="Label the nodes of very large graphs from few known labels.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, tuple[Callable[..., None], str]] = {  # by name, each with an example
    "train": (train.train, "cora -o cora-model"),
    "tune": (tune.tune, "cora -o cora-study --trials 30"),
    "compare": (compare.compare, "cora -o cora-methods --methods nigcn,sgc --splits 10"),
    "reproduce": (reproduce.reproduce, "table2 ghd -o paper --quick"),
    "predict": (predict.predict, "cora-model cora -o labels.csv"),
    "evaluate": (evaluate.evaluate, "papers-model papers --labels new-labels.csv"),
    "describe": (describe.describe, "papers-model"),
    "explain": (explain.explain, "cora-model cora 1708 -o why.html"),
    "embed": (embed.embed, "cora-model cora -o rows.parquet"),
    "report": (report.report, "cora-model cora -o report.html"),
    "serve": (serve.serve, "papers-model papers"),
    "import": (import_.import_, "--edges edges.csv --features x.csv --labels y.csv -o papers"),
    "append": (append.append, "papers --edges new-edges.csv --features new-x.csv -o papers-2"),
    "info": (info.info, "papers"),
    "datasets": (datasets.datasets, "--json"),
    "verify": (verify.verify, "papers"),
}
for _name, (_function, _example) in COMMANDS.items():
    app.command(_name, epilog=f"Example: nodewise {_name} {_example}")(as_command(_function))


LEAST_ADDRESS_SPACE = 3 * 10**9  # with less, some libraries wait for more without an end
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what standard output may be


def _show_version(value: bool) -> None:
    if value:
        from nodewise._version import __version__

        typer.echo(f"nodewise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    listen()


def main() -> None:
    """Run the command line; exit codes: 0, 1 for a failure, 2 for wrong usage or input."""
    _open_streams()
    try:
        _check_start(sys.argv[1:])
        try:
            app()
        except SystemExit:
            sys.stdout.flush()
            raise
    except NodewiseError as error:
        _end(2, as_option(str(error)))
    except KeyboardInterrupt:
        _end(130, "interrupted")
    except BrokenPipeError:
        _drop_stdout()  # the reader is gone: nothing to report
        sys.exit(1)
    except OSError as error:
        if os.environ.get("NODEWISE_DEBUG"):
            raise
        if error.filename is not None:
            _end(2, f"{error.filename}: {error.strerror or error}; check the path and its permissions")
        if error.errno in FULL:  # of other files, the message says which
            _drop_stdout()
            _end(2, f"standard output: cannot be written: {error.strerror}; write to a file, or free some space")
        _end(1, _unexpected(error))
    except MemoryError as error:
        _end(1, f"out of memory ({error}); use fewer nodes at a time or a larger machine")
    except Exception as error:
        if os.environ.get("NODEWISE_DEBUG"):
            raise
        _end(1, _unexpected(error))


def _open_streams() -> None:
    """Open what was closed when this process was started: the next file would get its number, and its text.

    Characters that standard output has no codes for are written as escapes.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _check_start(words: list[str]) -> None:
    """Raise if the current folder is gone, if libraries would not load, or if an argument is not text.

    Arrow opens no file of such a name, and no file of ours can hold it.
    """
    try:
        with suppress(PermissionError):  # relative paths work all the same
            os.getcwd()
    except FileNotFoundError as error:
        raise InputError("the current folder does not exist any more; cd to another one") from error
    limit = address_space()
    if limit < LEAST_ADDRESS_SPACE:
        raise InputError(
            f"only {show_bytes(limit)} of address space are allowed (ulimit -v), and compiled libraries reserve more "
            f"than they use; allow at least {show_bytes(LEAST_ADDRESS_SPACE)}, and limit memory with --memory"
        )
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{word!a}: is not valid UTF-8; rename the file, or reach it through a link") from error


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {error}. Set NODEWISE_DEBUG=1 to see where, and please report it"


def _drop_stdout() -> None:
    """Let nothing more be written there, also not at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_option(message: str) -> str:
    """A message about a parameter, with the parameter spelled as an option.

    >>> as_option("max_hops=-1: expected a whole number"), as_option("ids='x': expected 'auto'")
    ('--max-hops -1: expected a whole number', "--ids x: expected 'auto'")
    """
    return re.sub(
        r"^([a-z_]+)=('?)([^':]*)\2: ", lambda found: f"--{found[1].strip('_').replace('_', '-')} {found[3]}: ", message
    )


def _end(code: int, message: str) -> None:
    complain(message)
    sys.exit(code)
