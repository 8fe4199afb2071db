"""The command line: one file a command, each a thin layer over one function of the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from nodewise._util.errors import NodewiseError
from nodewise.cli import compare, datasets, embed, import_, info, predict, reproduce, train, tune, verify
from nodewise.cli.console import complain, listen
from nodewise.cli.options import with_quiet

app = typer.Typer(
    help="Label the nodes of very large graphs from few known labels.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "train": train.train,
    "tune": tune.tune,
    "compare": compare.compare,
    "reproduce": reproduce.reproduce,
    "predict": predict.predict,
    "embed": embed.embed,
    "import": import_.import_,
    "info": info.info,
    "datasets": datasets.datasets,
    "verify": verify.verify,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(with_quiet(_command))


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
    try:
        app()
    except NodewiseError as error:
        complain(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        complain("interrupted")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone: nothing to report
        sys.exit(1)
    except MemoryError as error:
        complain(f"out of memory ({error}); ask for fewer nodes at a time or use a larger machine")
        sys.exit(1)
    except Exception as error:
        if os.environ.get("NODEWISE_DEBUG"):
            raise
        complain(f"unexpected {type(error).__name__}: {error}. Set NODEWISE_DEBUG=1 to see where, and please report it")
        sys.exit(1)
