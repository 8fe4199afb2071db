"""A worker process from its start to its end, and why it did not finish."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from nodewise._util.memory import show_bytes
from nodewise._util.os_errors import writing
from nodewise.lab.compare.machine import peak_memory
from nodewise.lab.compare.result_files import Folder
from nodewise.lab.compare.worker import Task

LOOK_EVERY = 0.1  # seconds; also how precisely the peak memory of a killed worker is known


def run_worker(task: Task, budget: float | None, look: Callable[[int], None]) -> tuple[str | None, int | None]:
    """Run ``task`` in a process of its own for at most ``budget`` seconds; ``look`` is called regularly with its id.

    Returns why it did not finish, in one phrase, and the most memory that it was seen to hold; None twice if it did
    finish: then its results say exactly how much it held.
    """
    folder = Folder(Path(task.folder))
    with writing(folder.path):
        folder.method(task.method).mkdir(parents=True, exist_ok=True)
        folder.failure(task.method).unlink(missing_ok=True)
        log = folder.log(task.method).open("wb")
    started, peak, late = time.monotonic(), 0, False
    # Not by fork, which would copy this process's memory and threads. -P: no modules from the current folder.
    command = [sys.executable, "-P", "-m", "nodewise.lab.compare.worker"]
    with log, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process:
        try:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it ended at once: its exit code says how
                process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
                process.stdin.flush()
            while process.poll() is None and not late:
                look(process.pid)
                peak = max(peak, peak_memory(process.pid) or 0)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_EVERY)
                late = budget is not None and time.monotonic() - started > budget and process.poll() is None
        finally:  # out of time, Ctrl-C, or an error in `look`
            process.kill()
    if late:
        return f"stopped after its budget of {budget:g} s", peak or None
    if process.returncode == 0:
        return None, None
    return _problem(process.returncode, folder, task.method, peak), peak or None


def _problem(code: int, folder: Folder, method: str, peak: int) -> str:
    held = f"; it held {show_bytes(peak)}" if peak else ""
    see = f"see {folder.log(method).relative_to(folder.path)}"
    if code == -signal.SIGKILL:
        return f"killed, most likely for lack of memory{held}"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}{held}; {see}"
    try:
        return str(json.loads(folder.failure(method).read_bytes())["error"])
    except (OSError, ValueError, LookupError, TypeError):
        return f"ended with exit code {code}; {see}"
