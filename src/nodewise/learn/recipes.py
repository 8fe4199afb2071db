"""What a recipe adds to the paper's training; each part is an option of :class:`nodewise.NIGCN` too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nodewise._typing import BoolArray, FloatArray

RecipeName = Literal["paper", "full"]


@dataclass(frozen=True)
class Parts:
    """``heads``: networks that are averaged. ``hop_attention``, ``raw_features``, ``label_reuse``: what a row has.

    ``consistency``: the weight of agreement between draws. ``self_training``: stages, at most. ``class_shares``: these
    teach classes as common as they are among validation nodes.
    ``correct_and_smooth``: predictions mended by what is known nearby.
    """

    heads: int = 1
    hop_attention: bool = False
    raw_features: bool = False
    label_reuse: bool = False
    consistency: float = 0.0
    self_training: int = 0
    class_shares: bool = False
    correct_and_smooth: bool = False


RECIPES = {"paper": Parts(), "full": Parts(4, True, True, True, 5.0, 1, True, True)}


def clearly_better(right: BoolArray, before: BoolArray, errors: float = 1.0, weights: FloatArray | None = None) -> bool:
    """Whether more validation labels are right than before, by more than so many standard errors of the difference.

    Labels that are right in both or in neither say nothing. Of the ``n`` others each is a fair coin if the two are
    equally good, so the difference has a standard error of ``sqrt(n)``. ``weights``: what each label counts, if not 1.

    >>> clearly_better(np.array([True] * 9), np.array([True] * 5 + [False] * 4))
    True
    >>> clearly_better(np.array([True] * 9), np.array([True] * 8 + [False]))
    False
    """
    change = (right.astype(np.float64) - before) * (1.0 if weights is None else weights)
    return bool(change.sum() > errors * math.sqrt(np.square(change).sum()))
