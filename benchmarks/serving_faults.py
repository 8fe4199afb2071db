"""What `nodewise serve` does under attack: generated requests, crowds, kills, full disks, files that change.

    python -m venv /tmp/st-venv && /tmp/st-venv/bin/pip install schemathesis       # for `requests` only
    python benchmarks/serving_faults.py requests crowds kills disk files -o docs/results/serving-faults.json

Linux only; server and clients on this machine, on 127.0.0.1. Each part writes its own figures. `requests`: bodies and
parameters that schemathesis makes from the server's own OpenAPI document, valid and invalid. `crowds`: many clients
that are slow, silent, or do not read. Each attack of `attacks.py` alone is sent by `tests/serve/test_attacks.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import attacks
from measuring import keep, kept
from server_process import LARGE, Asking, Server, ended, prepared

# ---------------------------------------------------------------------- requests


def requests(folder: Path, schemathesis: str, examples: int, only: str | None) -> dict[str, Any]:
    """Requests made by schemathesis; how many of each status, by path."""
    with Server(*prepared(folder)) as server:
        before, memory = server.metrics(), server.memory()
        command = [schemathesis, "run", f"http://127.0.0.1:{server.port}/openapi.json", "--checks", "all"]
        # What the document allows may still be no class, feature or coverage of this graph and model.
        options = ["--exclude-checks", "positive_data_acceptance", "--mode", "all", "--max-examples", str(examples)]
        options += ["--seed", "1", "--continue-on-failure", "--no-color"]
        options += ["--include-path", only] if only else []
        said = subprocess.run([*command, *options], check=False, capture_output=True, text=True, cwd=folder)
        (folder / f"schemathesis{(only or '').replace('/', '-')}.txt").write_text(said.stdout + said.stderr)
        after = server.metrics()
        counts: dict[str, dict[str, int]] = {}
        for (path, status), count in sorted(after.items()):
            counts.setdefault(path, {})[status] = count - before.get((path, status), 0)
        return {
            "requests": sum(after.values()) - sum(before.values()),
            "of status 500": sum(count for (_, status), count in after.items() if status == "500"),
            "schemathesis found nothing": said.returncode == 0,
            "by path and status": counts,
            "megabytes before": memory,
            "megabytes after": server.memory(),
            "answers afterwards": server.answers(),
            "exit code": server.stop()[0],
        }


# ---------------------------------------------------------------------- crowds


@contextmanager
def crowd(port: int, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)))
            made[-1].setblocking(False)
            send_some(made[-1], first)
        yield made


def send_some(connection: socket.socket, data: bytes) -> bool:
    """Send what fits; whether the connection is still there."""
    try:
        connection.send(data)
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def crowds(folder: Path) -> dict[str, Any]:
    """Many bad clients at once, beside one good one."""
    unfinished = attacks.post(f"content-length: {8 << 20}")
    cases = {
        "5,000 silent connections": (5000, b"", b""),
        "200 clients that send a header, a byte per second": (200, b"GET /about HTTP/1.1\r\nx: ", b"a"),
        "200 clients that send a body, a byte per second": (200, unfinished, b"1"),
        "200 clients that send half of 8 MB each": (200, unfinished, b" " * (4 << 20)),
        "200 clients that ask and do not read": (200, attacks.get("/openapi.json") * 500, b""),
    }
    found: dict[str, Any] = {}
    for name, (count, first, later) in cases.items():
        with Server(*prepared(folder)) as server:
            before, peak, started = server.memory(), 0.0, time.monotonic()
            with crowd(server.port, count, first) as made:
                beside = Asking(server, pause=0.05)
                while (left := sum(map(is_open, made))) and time.monotonic() - started < 150:
                    for connection in made if later else ():
                        send_some(connection, later)
                    peak = max(peak, server.memory())
                    time.sleep(1)
                found[name] = {"still open": left, "seconds until all are closed": time.monotonic() - started}
                found[name] |= beside.end() | {"megabytes before": before, "peak megabytes": peak}
        print(name, found[name], flush=True)
    return found


# ---------------------------------------------------------------------- kills


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
    with suppress(OSError):  # the process has ended
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
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


def main() -> None:
    parts = {"crowds": crowds, "kills": kills, "disk": disk, "files": files}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=["requests", *parts])
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("TMPDIR", "/tmp")) / "nodewise-faults")
    parser.add_argument("--schemathesis", default="/tmp/st-venv/bin/schemathesis", help="the program")
    parser.add_argument("--examples", type=int, default=1500, help="of schemathesis, for each question")
    parser.add_argument("--only", help="ask schemathesis about this path alone")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        if part == "requests":
            value = requests(options.folder, options.schemathesis, options.examples, options.only)
        else:
            value = parts[part](options.folder)
        print(part, json.dumps(value, indent=1), flush=True)
        key = f"{part}, {options.only}" if options.only else part
        keep(kept(options.output) | {key: value}, options.output)


if __name__ == "__main__":
    main()
