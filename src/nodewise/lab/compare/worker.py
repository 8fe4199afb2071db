"""The process of one method: ``python -m nodewise.lab.compare.worker PARENT``, with a task as JSON on stdin.

It opens the graph itself, warms up, and writes a file for each split it finishes. When the process with the id PARENT
ends, so does the worker.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nodewise._util.errors import NodewiseError
from nodewise._util.parent import end_with


@dataclass(frozen=True)
class Task:
    """What a worker is to do: these ``splits`` of those in ``folder``."""

    folder: str
    source: str
    data_dir: str | None
    method: str
    settings: dict[str, Any]
    threads: int
    inductive: bool
    splits: list[int]


def run(task: Task) -> None:
    """Fit and test the method on each split, and write the results."""
    from nodewise._util.run_folder import write_json
    from nodewise.datasets import load
    from nodewise.formats.split_file import read_split_file
    from nodewise.lab.compare.machine import peak_memory
    from nodewise.lab.compare.result_files import Folder
    from nodewise.lab.compare.results import FinishedSplit
    from nodewise.lab.compare.settings import model_of, plain
    from nodewise.lab.compare.warmup import warm_up
    from nodewise.learn.evaluate import evaluate

    folder = Folder(Path(task.folder))
    model = model_of(task.method, task.settings, task.threads)
    graph = load(task.source, task.data_dir)
    splits = read_split_file(folder.splits, graph.num_nodes)
    warm_up(model, graph, splits[0], task.inductive)
    for number in task.splits:
        result = evaluate(model, graph, [splits[number]], inductive=task.inductive).splits[0]
        finished = FinishedSplit(**asdict(replace(result, split=number)), peak_memory=peak_memory())
        facts = {"method": task.method, "settings": task.settings, "params": plain(model.get_params())}
        write_json(folder.result(task.method, number), {**facts, **asdict(finished)})


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    end_with(int(sys.argv[1]))
    task = Task(**json.load(sys.stdin))
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        run(task)
    except Exception as error:
        from nodewise._util.run_folder import write_json
        from nodewise.lab.compare.result_files import Folder

        traceback.print_exc()
        write_json(Folder(Path(task.folder)).failure(task.method), {"error": in_one_line(error)})
        return 1
    return 0


def in_one_line(error: BaseException) -> str:
    """The message of an error, with its type unless it was raised on purpose."""
    message = " ".join(str(error).split())
    if isinstance(error, NodewiseError | ImportError) and message:
        return message
    if isinstance(error, MemoryError):
        return f"out of memory ({message})" if message else "out of memory"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
