"""The command line: one file a command, each a thin layer over one function of the library."""

from __future__ import annotations

import os
import sys

import typer

from nodewise.cli import compare, datasets, embed, import_, info, predict, reproduce, train, tune, verify
from nodewise.cli.console import complain, listen
from nodewise.errors import NodewiseError

app = typer.Typer(
    help="Label the nodes of very large graphs from few known labels.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("compare")(compare.compare)
app.command("reproduce")(reproduce.reproduce)
app.command("predict")(predict.predict)
app.command("embed")(embed.embed)
app.command("import")(import_.import_)
app.command("info")(info.info)
app.command("datasets")(datasets.datasets)
app.command("verify")(verify.verify)


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
