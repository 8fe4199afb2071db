"""A worker process from its start to its end, and why it did not finish."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO

from nodewise._util.json_file import read_json
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
        for old in (folder.failure(task.method), folder.log(task.method)):
            old.unlink(missing_ok=True)  # which may be a pipe or a link, and not ours
        log = folder.log(task.method).open("xb")
    started, peak, late = time.monotonic(), 0, False
    # Not by fork, which would copy this process's memory and threads. -P: no modules from the current folder.
    command = [sys.executable, "-P", "-m", "nodewise.lab.compare.worker", str(os.getpid())]
    with log, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process:
        try:
            assert process.stdin is not None
            _hand_over(process.stdin, task)
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


def _hand_over(stdin: IO[bytes], task: Task) -> None:
    """Write the task; a worker that has ended by now says why by its exit code."""
    with contextlib.suppress(BrokenPipeError):
        stdin.write(json.dumps(asdict(task)).encode())
    with contextlib.suppress(BrokenPipeError):  # what is left in the buffer
        stdin.close()


def _problem(code: int, folder: Folder, method: str, peak: int) -> str:
    held = f"; it held {show_bytes(peak)}" if peak else ""
    see = f"see {folder.log(method).relative_to(folder.path)}"
    if code == -signal.SIGKILL:
        return f"killed, most likely for lack of memory{held}"
    if code < 0:
        return f"ended by {signal.Signals(-code).name}{held}; {see}"
    try:
        return str(read_json(folder.failure(method))["error"])
    except (OSError, ValueError, LookupError):
        return f"ended with exit code {code}; {see}"
