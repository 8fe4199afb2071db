"""A worker process from its start to its end, and what its end means."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from nodewise._util.memory import show_bytes
from nodewise._util.os_errors import writing
from nodewise.lab.compare.machine import peak_memory
from nodewise.lab.compare.result_files import Folder
from nodewise.lab.compare.worker_task import Task

LOOK_EVERY = 0.1  # seconds; also how closely the peak of a worker that is killed is known


@dataclass(frozen=True)
class Ending:
    """Why a worker did not finish, in one phrase, or None; and the most memory that it was seen to hold."""

    problem: str | None
    peak_memory: int | None


def run_worker(task: Task, budget: float | None, look: Callable[[int], None]) -> Ending:
    """Have ``task`` done within ``budget`` seconds. ``look`` is called with the worker's id again and again."""
    folder = Folder(Path(task.folder))
    with writing(folder.path):
        folder.method(task.method).mkdir(parents=True, exist_ok=True)
        folder.failure(task.method).unlink(missing_ok=True)
        log = folder.log(task.method).open("wb")
    started, peak, late = time.monotonic(), 0, False
    # Not by fork, which would hand on this process's memory and threads. -P: no modules from the current folder.
    command = [sys.executable, "-P", "-m", "nodewise.lab.compare.worker"]
    with log, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process:
        try:
            _hand_over(process, task)
            while process.poll() is None and not late:
                look(process.pid)
                peak = max(peak, peak_memory(process.pid) or 0)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_EVERY)
                late = budget is not None and time.monotonic() - started > budget and process.poll() is None
        finally:  # out of time, Ctrl-C, or an error in `look`
            process.kill()
    if late:
        return Ending(f"stopped after its budget of {budget:g} s", peak or None)
    return Ending(_problem(process.returncode, folder, task.method, peak), peak or None)


def _hand_over(process: subprocess.Popen[bytes], task: Task) -> None:
    if process.stdin is None:
        raise RuntimeError("a worker without stdin")
    with contextlib.suppress(BrokenPipeError):  # it ended at once: its exit code says how
        process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
        process.stdin.flush()


def _problem(code: int, folder: Folder, method: str, peak: int) -> str | None:
    if code == 0:
        return None
    held = f"; it held {show_bytes(peak)}" if peak else ""
    if code == -signal.SIGKILL:
        return f"killed, most likely for want of memory{held}"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}{held}; see {_place(folder, method)}"
    try:
        return str(json.loads(folder.failure(method).read_bytes())["error"])
    except (OSError, ValueError, LookupError, TypeError):
        return f"ended with exit code {code}; see {_place(folder, method)}"


def _place(folder: Folder, method: str) -> str:
    return os.path.relpath(folder.log(method), folder.path)
