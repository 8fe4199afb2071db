"""`nodewise serve` in a process of its own, and clients that measure it: for benchmarks and tests."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import attacks
import nodewise as nw

LARGE = 1_000_000  # nodes
QUESTION = attacks.request(b'{"nodes": [1]}')


PLAIN = {"omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.1, "feature_norm": "l1", "layers": 2, "teach": False}


def prepared(folder: Path, nodes: int = 300) -> tuple[Path, Path]:
    """A model and a store with names, made on first use."""
    model, store = folder / f"model-{nodes}", folder / f"store-{nodes}"
    if not model.exists():
        graph = nw.synthetic.dcsbm(nodes, avg_degree=8, classes=3, features=4, signal=2.0, seed=0)
        names = [f"author {place:07d}" for place in range(nodes)]
        graph = graph.replace(node_names=names, label_names=["red", "blue", "<b>"], feature_names=list("abcd"))
        nw.write_store(graph, store)
        engine = "auto" if nodes < 10_000 else "stratified"
        nw.NIGCN(seed=0, epochs=30, engine=engine, **PLAIN).fit(graph, range(60), range(60, 200)).save(model)
    return model, store


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has ended


class Server:
    """A server that answers once this is made, and is killed in the end."""

    def __init__(self, model: Path, store: Path | str, *options: str, **popen: Any) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "nodewise", "serve", str(model), str(store), "--port", str(self.port)]
        self.process = subprocess.Popen([*command, *options], **popen)
        deadline = time.monotonic() + 300
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.kill()
                raise TimeoutError("the server did not start")
            time.sleep(0.1)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def answers(self, wait: float = 5.0) -> bool:
        """Whether it answers a question on a connection of its own."""
        try:
            return attacks.status_of(attacks.send(self.port, QUESTION, wait)) == 200
        except OSError:
            return False

    def metrics(self) -> dict[tuple[str, str], int]:
        """Requests that it counted, by path and status."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as connection:
            text = fetch(connection, attacks.get("/metrics"))
        found = re.findall(rb'nodewise_requests_total\{path="([^"]*)",status="(\d+)"\} ([\d.e+]+)', text)
        return {(path.decode(), status.decode()): int(float(count)) for path, status, count in found}

    def workers(self) -> list[int]:
        """The processes that answer: those that listen on the port, without the parent where there are several."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = [int(pid) for pid in children if b"spawn_main" in command_line(pid)]
        return found or [self.process.pid]

    def memory(self, pid: int | None = None) -> float:
        """Megabytes that a process holds, less the pages of mapped files."""
        text = Path(f"/proc/{pid or self.process.pid}/status").read_text()
        return float(re.search(r"RssAnon:\s+(\d+)", text)[1]) / 1000

    def stop(self) -> tuple[int, float]:
        """The exit code after SIGTERM, and the seconds until then."""
        started = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90), time.perf_counter() - started

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Asking(threading.Thread):
    """A client that asks again and again: on one connection or, for `new`, on one per question."""

    def __init__(self, server: Server, question: bytes = QUESTION, pause: float = 0.0, new: bool = True) -> None:
        super().__init__(daemon=True)
        self.server, self.question, self.pause, self.new = server, question, pause, new
        self.spent: list[float] = []
        self.failed: list[str] = []  # sent and not answered
        self.refused = 0  # not even connected
        self.ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                connection = socket.create_connection(("127.0.0.1", self.server.port), 30)
            except OSError:
                self.refused += 1
                time.sleep(0.02)
                continue
            with connection:
                while not self.ended.wait(self.pause) and self._asked(connection) and not self.new:
                    pass

    def _asked(self, connection: socket.socket) -> bool:
        started = time.perf_counter()
        try:
            answer = fetch(connection, self.question)
        except OSError as error:
            self.failed.append(str(error))
            return False
        self.spent.append(time.perf_counter() - started)
        if attacks.status_of(answer) != 200:
            self.failed.append(str(attacks.status_of(answer)))
        return b"connection: close" not in answer.lower()

    def end(self) -> dict[str, Any]:
        """As :func:`ended`, of this one alone."""
        return ended([self])


def ended(load: list[Asking]) -> dict[str, Any]:
    """Stop; how long answers took, how many did not come, and why."""
    for one in load:
        one.ended.set()
    for one in load:
        one.join(35)
    spent = [1000 * seconds for one in load for seconds in one.spent]
    failed = [reason for one in load for reason in one.failed]
    times = {"p50_ms": float(np.median(spent)), "max_ms": max(spent)} if spent else {}
    return {"answered": len(spent), "failed": len(failed), **times, "reasons": sorted(set(failed))}


def fetch(connection: socket.socket, question: bytes) -> bytes:
    """The whole answer, which has a content-length."""
    connection.sendall(question)
    answer = b""
    while True:
        head, end, body = answer.partition(b"\r\n\r\n")
        if end and len(body) >= int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1]):
            return answer
        part = connection.recv(1 << 16)
        if not part:
            raise OSError("closed")
        answer += part
