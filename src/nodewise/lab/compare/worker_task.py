"""What a worker is told. Apart from the worker, which Python loads as a program, not as a module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Task:
    """What a worker is asked for: these ``splits`` of those in the folder."""

    folder: str
    source: str
    data_dir: str | None
    method: str
    settings: dict[str, Any]
    threads: int
    inductive: bool
    splits: list[int]
