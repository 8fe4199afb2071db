"""How the server is started, goes on when a worker dies, and ends."""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from nodewise._util.errors import InputError, NodewiseError
from nodewise._util.threads import thread_count
from nodewise.batch.opened import open_model, resolve_source
from nodewise.datasets import load
from nodewise.diffusion.walks import check_epsilon
from nodewise.serve.answers import Answers
from nodewise.serve.app import make_app
from nodewise.serve.connections import BACKLOG, Connection, connection_limit
from nodewise.serve.guards import HERE

SETTINGS = "NODEWISE_SERVE"  # the variable by which workers learn what to serve
AGAIN = 5.0  # seconds until a worker that could not start is started again
LOGGERS = ("nodewise", "asyncio", "uvicorn.error")
MOST_LINES, LONGEST_LINE = 100, 1 << 10  # messages that a worker logs; characters by which two are told apart


class FewLines(logging.Filter):
    """Lets each message through once, only so many, and none to a pipe that is full, which would stop the server."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = f"{record.getMessage()[:LONGEST_LINE]} {record.exc_info[:2] if record.exc_info else ''}"
        if message in self._seen or len(self._seen) >= MOST_LINES or _is_full(sys.stderr):
            return False
        self._seen.add(message)
        return True


def _is_full(stream: Any) -> bool:
    """Whether to write to a pipe would wait for its reader."""
    try:
        return not select.select([], [stream], [], 0)[1]
    except (OSError, ValueError):  # no pipe
        return False


def from_environment() -> FastAPI:
    """The application that the environment describes: each worker of a server makes its own."""
    few = FewLines()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(few)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    model, source, folder, threads, epsilon, hosts = json.loads(os.environ[SETTINGS])
    try:
        app = make_app(Answers(open_model(model), load(source, folder), threads, epsilon), hosts)
    except NodewiseError as error:
        if parent is None:
            raise
        # Model and graph could be opened when the server was started, and perhaps can again: other workers go on.
        logging.getLogger("nodewise").error("a worker cannot start: %s", error)
        time.sleep(AGAIN)
        sys.exit(1)
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # else the search for garbage takes longer than reading a large body
    return app


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    """End this worker after its parent, however that ended: it would keep the port for itself."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


class Supervisor(Multiprocess):
    """Starts another worker in place of one that died.

    uvicorn's own asks each worker in turn whether it is well, and waits for the answer: a worker that takes its time to
    start is killed, and one that died while it was asked goes unnoticed for as long.
    """

    def keep_subprocess_alive(self) -> None:
        if self.should_exit.is_set():
            return
        for place, worker in enumerate(self.processes):
            if not worker.process.is_alive():
                worker.kill()  # closes what belonged to it
                worker.join()
                self.processes[place] = Process(self.config, self.sockets)
                self.processes[place].start()


def _check_address(host: str, port: int) -> None:
    """Raise unless a server can listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except (OSError, UnicodeError) as error:  # the latter: no name of a host
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: cannot listen there ({why}); choose another --port or --host") from error


def serve(
    model: str | Path,
    source: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    threads: int | None = None,
    epsilon: float | None = None,
    allow_hosts: Sequence[str] = (),
    data_dir: str | Path | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve ``model`` on the graph at ``source`` until a signal ends it; what was accepted is answered first.

    ``ready`` is called when model and graph are loaded, and the server is about to listen.
    """
    _check_address(host, port)
    most = connection_limit()
    place, folder = resolve_source(source, data_dir)
    if epsilon is not None:
        check_epsilon(epsilon)
    answers = Answers(open_model(os.path.abspath(model)), load(place, folder), threads, epsilon)
    answers.probabilities([0])  # compiles the kernels before the workers start
    each = max(1, thread_count(threads) // workers)
    os.environ[SETTINGS] = json.dumps(
        [os.path.abspath(model), place, folder, each, epsilon, [*HERE, host, *allow_hosts]]
    )
    del answers
    ready()
    config = uvicorn.Config(
        f"{__name__}:from_environment", factory=True, host=host, port=port, workers=workers,
        http=Connection, ws="none", h11_max_incomplete_event_size=1 << 16, limit_concurrency=most,
        timeout_graceful_shutdown=30, backlog=BACKLOG,
        log_level="error", access_log=False, proxy_headers=False, server_header=False,  # no client makes the log grow
    )  # fmt: skip
    listener = config.bind_socket()
    # Connections inherit this: without it each answer, sent in two parts, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if workers > 1:
        Supervisor(config, [listener]).run()
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))  # uvicorn raises the signal again once all is answered
    uvicorn.Server(config).run(sockets=[listener])
