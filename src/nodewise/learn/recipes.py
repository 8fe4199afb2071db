"""What a recipe adds to the paper's training; each part is an option of :class:`nodewise.NIGCN` too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RecipeName = Literal["paper", "full"]


@dataclass(frozen=True)
class Parts:
    """``consistency``: the weight of agreement between draws. ``self_training``: stages, at most."""

    consistency: float = 0.0
    self_training: int = 0


RECIPES = {"paper": Parts(), "full": Parts(consistency=5.0, self_training=2)}
