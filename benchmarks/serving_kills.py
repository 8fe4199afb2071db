"""Parts of `serving_faults.py`: kills, disks that are full, files that change under the server."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attacks
from server_process import LARGE, Asking, Server, ended, prepared


def kills(folder: Path) -> dict[str, Any]:
    """kill -9 of a worker and of the parent, and SIGTERM, each under load."""
    found: dict[str, Any] = {}
    with Server(*prepared(folder), "--workers", "2") as server:
        load, memory = [Asking(server) for _ in range(8)], server.memory()
        until_both_answer(server)
        seconds = []
        for _ in range(5):
            os.kill(server.workers()[0], signal.SIGKILL)
            seconds.append(until_both_answer(server))
        found["kill -9 of one of two workers, 5 times"] = ended(load) | {
            "seconds until both answer": seconds,
            "not connected": sum(one.refused for one in load),
            "megabytes of the parent": [memory, server.memory()],
        }
        os.kill(server.process.pid, signal.SIGKILL)
        seconds = [until(lambda: not listens(server.port))]
        found["kill -9 of the parent"] = {"seconds until no worker listens": seconds[0]}
    for workers in ("1", "2"):
        with Server(*prepared(folder), "--workers", workers) as server:
            load = [Asking(server, new=new) for new in [False] * 8 + [True] * 2]
            time.sleep(2)
            code, took = server.stop()
            found[f"SIGTERM, workers {workers}"] = ended(load) | {"exit code": code, "seconds": took}
    return found


def until_both_answer(server: Server) -> float:
    """Seconds until each of two workers has been seen to hold a connection."""
    seen: set[int] = set()

    def done() -> bool:
        held = established(server.port)
        seen.update(pid for pid in server.workers() if not held.isdisjoint(files_of(pid)))
        return len(seen & set(server.workers())) == 2

    return until(done)


def established(port: int) -> set[str]:
    """Connections to a port, as the files of a process name them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {f"socket:[{one[9]}]" for one in lines if one[1].endswith(f":{port:04X}") and one[3] == "01"}


def files_of(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):  # the process has ended
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(file))
    return found


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def until(done: Callable[[], bool]) -> float:
    """Seconds until it is so, at most two minutes."""
    started = time.monotonic()
    while not done() and time.monotonic() - started < 120:
        time.sleep(0.01)
    return time.monotonic() - started


# ---------------------------------------------------------------------- disks and files


def disk(folder: Path) -> dict[str, Any]:
    """No file can grow any more; the log is closed, or full."""
    found: dict[str, Any] = {}
    with Server(*prepared(folder)) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        before = written(server)
        found["files cannot grow"] = asked_everything(server) | {"bytes written": written(server) - before}
        found["files cannot grow"]["exit code"] = server.stop()[0]
    with open("/dev/full", "w") as full, Server(*prepared(folder), stdout=full, stderr=full) as server:
        found["a log on a full disk"] = asked_everything(server) | {"exit code": server.stop()[0]}
    reader, writer = os.pipe()
    os.close(reader)
    with Server(*prepared(folder), stdout=writer, stderr=writer) as server:
        found["a log that is closed"] = asked_everything(server) | {"exit code": server.stop()[0]}
    os.close(writer)
    return found


def asked_everything(server: Server) -> dict[str, Any]:
    """Good questions of each kind, and bad requests."""
    good = {
        "/predict": b'{"nodes": [1, "author 0000002"]}',
        "/explain": b'{"node": 1}',
        "/predict-new": b'{"nodes": [{"neighbours": [1]}]}',
    }
    found = {
        path: attacks.status_of(attacks.send(server.port, attacks.request(body, path))) for path, body in good.items()
    }
    for data, allowed in attacks.framing().values():
        attacks.send(server.port, data, 0.1 if allowed == {attacks.GONE} else attacks.WAIT)
    return found | {"answers after attacks": server.answers()}


def written(server: Server) -> int:
    """Bytes that it wrote to files so far."""
    return int(re.search(r"write_bytes: (\d+)", Path(f"/proc/{server.process.pid}/io").read_text())[1])


def files(folder: Path) -> dict[str, Any]:
    """The store is replaced, and then cut short, while two workers serve it."""
    model, store = prepared(folder, LARGE)
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy)
    found: dict[str, Any] = {}
    with Server(model, copy, "--workers", "2") as server:
        load = [Asking(server) for _ in range(2)]
        workers = server.workers()
        copy.rename(folder / "away")
        shutil.copytree(store, copy)
        time.sleep(2)
        found["replaced"] = {"same workers": workers == server.workers()} | ended(load)
        shutil.rmtree(folder / "away")
    with Server(model, copy, "--workers", "2") as server:
        load = [Asking(server, random_question(place)) for place in range(4)]
        until_both_answer(server)
        for file in copy.rglob("*.npy"):
            os.truncate(file, file.stat().st_size // 2)
        time.sleep(10)
        cut = ended(load) | {"workers alive": len(server.workers()), "parent alive": server.process.poll() is None}
        shutil.rmtree(copy)
        shutil.copytree(store, copy)
        found["cut short"] = cut | {"seconds until it answers once the store is back": until(server.answers)}
        found["cut short"]["exit code"] = server.stop()[0]
    shutil.rmtree(copy)
    return found


def random_question(seed: int) -> bytes:
    nodes = random.Random(seed).sample(range(LARGE), 50)
    return attacks.request(json.dumps({"nodes": nodes}).encode())
