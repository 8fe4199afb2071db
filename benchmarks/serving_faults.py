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
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attacks
from measuring import keep, kept
from server_process import Asking, Server, prepared
from serving_kills import disk, files, kills

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
