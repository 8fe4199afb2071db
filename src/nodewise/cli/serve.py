"""nodewise serve: answer questions about single nodes over HTTP, with a page to ask them on."""

from __future__ import annotations

from typing import Annotated

import typer

from nodewise.cli.console import say
from nodewise.cli.options import DataDir, Source, Threads
from nodewise.cli.predict import Model


def serve(
    model: Model,
    source: Source,
    host: Annotated[str, typer.Option(help="Address to listen on. Anyone who reaches it may ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name by which the server may be called, as behind a proxy.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Another epsilon than in training: more is quicker and less exact.")
    ] = None,
    threads: Threads = None,
    data_dir: DataDir = None,
) -> None:
    """Serve MODEL on SOURCE over HTTP: labels, reasons, new nodes, and a page to look at.

    There is no login: it listens on this machine alone, unless --host says otherwise; then put a proxy in front.
    """
    from nodewise._util.errors import InputError

    try:
        from nodewise.serve.running import serve as start
    except ImportError as error:
        raise InputError(
            f"serving needs FastAPI, uvicorn and prometheus-client ({error}); pip install 'nodewise[serve]'"
        ) from error
    place = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    words = f"{place} shows a page, {place}/docs the questions; Ctrl-C ends it"
    start(
        model, source, host=host, port=port, workers=workers, threads=threads, epsilon=epsilon,
        allow_hosts=allow_host or (), data_dir=data_dir, ready=lambda: say(words),
    )  # fmt: skip
