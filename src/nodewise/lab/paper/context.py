"""What the user asked for, as every experiment gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPLITS, QUICK_SPLITS = 10, 2  # ten, as in the paper


def _quiet(message: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Context:
    """``quick`` takes smaller graphs and fewer splits; ``budget`` is the seconds that a method may take on a graph.

    ``splits_dir`` holds ``NAME.npz`` with the splits of a data set; by default ``$NODEWISE_DATA/splits``.
    """

    output: Path
    quick: bool = False
    splits: int | None = None
    splits_dir: Path | None = None
    budget: float | None = None
    seed: int = 0
    threads: int | None = None
    data_dir: Path | None = None
    say: Callable[[str], None] = _quiet

    @property
    def num_splits(self) -> int:
        return self.splits or (QUICK_SPLITS if self.quick else SPLITS)

    def asked(self) -> dict[str, Any]:
        """What the numbers depend on: a result of the same is not made again."""
        return {
            "quick": self.quick,
            "splits": self.num_splits,
            "splits_dir": None if self.splits_dir is None else str(self.splits_dir),
            "budget": self.budget,
            "seed": self.seed,
            "threads": self.threads,
            "data_dir": None if self.data_dir is None else str(self.data_dir),
        }
