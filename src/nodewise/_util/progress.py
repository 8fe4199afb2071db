"""The progress callback of everything that takes long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float, float | None], None]  # the stage, how much of it is done, out of how much


def silent(stage: str, done: float, total: float | None) -> None:
    """Report nothing."""
