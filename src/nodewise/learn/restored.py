"""What the files of a saved NIGCN say about its ensemble and its held-out nodes, checked part against part.

Anyone may have written them. ValueError where something cannot be what :meth:`NIGCN.save` wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch

from nodewise._util.json_file import typed_fields
from nodewise._util.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray
from nodewise.diffusion.ghd import MOST_HOPS
from nodewise.diffusion.params import Engine
from nodewise.graph.features import check_norm
from nodewise.learn.calibrate import LEAST_SCALE, MOST_SCALE
from nodewise.learn.cost import Effort
from nodewise.learn.ensemble import Ensemble
from nodewise.learn.fitting import TENSORS_OF_LEARNED, Learned
from nodewise.learn.saved import array
from nodewise.learn.search import Found

ROUNDING = 1.001  # factor by which a number in a file may lie beyond its bounds


class HeldOut(NamedTuple):
    """The model's answers for nodes it had not learned from, kept with it.

    ``chose_nothing``: nodes that had no part in choosing the model either.
    """

    nodes: IntArray
    proba: FloatArray
    labels: AnyArray
    chose_nothing: BoolArray

    @property
    def cleanest(self) -> BoolArray:
        """Mask of the nodes that had no part in choosing the model; all nodes if there are none."""
        return self.chose_nothing if self.chose_nothing.any() else np.ones(self.nodes.size, bool)


class RidgeShares(NamedTuple):
    """What labelled ``nodes`` add to the ridges' logits; ``duals``: as in :class:`fitting.Learned`."""

    nodes: IntArray
    duals: DoubleArray


class Shape(TypedDict):
    """Networks of one kind, side by side."""

    count: int
    inputs: int
    outputs: int
    hidden: int
    layers: int
    bias: bool


@dataclass(frozen=True)
class SavedFit:
    """What the configuration says besides the numbers of the ensemble."""

    engine: Engine
    found: Found
    effort: Effort
    shapes: list[Shape]


def saved_fit(fitted: dict[str, Any], features: int, classes: int, tensors: int) -> tuple[SavedFit, Learned]:
    """The ensemble is not filled yet. ``tensors``: how many the other file has, which bounds the number of layers."""
    fit = SavedFit(**typed_fields(SavedFit, fitted, "fitted", others=True))
    numbers = typed_fields(Learned, fitted, "fitted", besides=TENSORS_OF_LEARNED, others=True)
    members, votes, scales = (numbers[name] for name in ("members", "votes", "scales"))
    check_norm(fit.found.feature_norm, "feature_norm")
    if not 0 <= fit.found.hops <= MOST_HOPS:
        raise ValueError(f"hops={fit.found.hops}; expected at most {MOST_HOPS:,}")
    if not members or not len(members) == len(votes) == len(scales):
        raise ValueError("its members, their votes and their scales are not equally many")
    scales = [*scales, *numbers["ridge_scales"], numbers["temperature"]]
    if not all(LEAST_SCALE / ROUNDING <= scale <= MOST_SCALE * ROUNDING for scale in scales):
        raise ValueError("a scale or the temperature is out of bounds")
    if not all(0 <= share <= 1 for share in (*votes, numbers["threshold"])):
        raise ValueError("a vote or the threshold is out of bounds")
    _check_shapes(fit.shapes, features * (2 if any(member.own for member in members) else 1), classes, tensors)
    return fit, Learned(Ensemble.of_shapes(fit.shapes), **numbers)  # type: ignore[arg-type]


def _check_shapes(shapes: list[Shape], inputs: int, outputs: int, tensors: int) -> None:
    for shape in shapes:
        if (shape["inputs"], shape["outputs"]) != (inputs, outputs):
            raise ValueError(f"a network has {shape['inputs']} inputs and {shape['outputs']} outputs; expected "
                             f"{inputs} and {outputs}")  # fmt: skip
        if min(shape["count"], shape["hidden"], shape["layers"]) < 1:
            raise ValueError("a network has no layer, or none of any width")
    if not 1 <= sum(shape["layers"] for shape in shapes) <= tensors:
        raise ValueError(f"its networks have other layers than the {tensors} tensors of its file")


def held_out(tensors: Mapping[str, torch.Tensor], classes: int, multilabel: bool) -> HeldOut:
    nodes = array(tensors, "held_out.nodes", torch.int64, None)
    proba = array(tensors, "held_out.proba", torch.float32, nodes.size, classes)
    if multilabel:
        labels = array(tensors, "held_out.labels", torch.float32, nodes.size, classes)
        known = ((labels == 0) | (labels == 1)).all()
    else:
        labels = array(tensors, "held_out.labels", torch.int64, nodes.size)
        known = ((labels >= 0) & (labels < classes)).all()
    if not known or (nodes < 0).any() or (proba < 0).any() or (proba > ROUNDING).any():
        raise ValueError("its held-out nodes have labels or probabilities that it cannot have given")
    aside = array(tensors, "held_out.chose_nothing", torch.bool, nodes.size)
    return HeldOut(nodes, proba, labels, aside)


def ridge_shares(tensors: Mapping[str, torch.Tensor], classes: int) -> RidgeShares | None:
    """None where the model keeps none."""
    if "ridge.nodes" not in tensors:
        return None
    nodes = array(tensors, "ridge.nodes", torch.int64, None)
    duals = array(tensors, "ridge.duals", torch.float64, nodes.size, classes)
    if (nodes < 0).any() or not np.isfinite(duals).all():
        raise ValueError("its ridge was solved on nodes, or gave numbers, that there cannot be")
    return RidgeShares(nodes, duals)
