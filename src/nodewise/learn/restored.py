"""What the files of a saved NIGCN say about its ensemble and its held-out nodes, checked part against part.

Anyone may have written them. ValueError where something cannot be what :meth:`NIGCN.save` wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch

from nodewise._util.json_file import typed_fields
from nodewise._util.types import AnyArray
from nodewise.diffusion.ghd import MOST_HOPS
from nodewise.diffusion.params import Engine
from nodewise.graph.features import check_norm
from nodewise.learn.calibrate import LEAST_SCALE, MOST_SCALE
from nodewise.learn.cost import Effort
from nodewise.learn.ensemble import Ensemble, Member
from nodewise.learn.fitting import Learned
from nodewise.learn.saved import array
from nodewise.learn.search import Found

ROUNDING = 1.001  # factor by which a number in a file may lie beyond its bounds


class Shape(TypedDict):
    """Networks of one kind, side by side."""

    count: int
    inputs: int
    outputs: int
    hidden: int
    layers: int
    bias: bool


@dataclass(frozen=True)
class SavedEnsemble:
    """What the configuration says."""

    engine: Engine
    found: Found
    effort: Effort
    shapes: list[Shape]
    members: list[Member]
    votes: list[float]
    scales: list[float]
    ridge_scales: list[float]
    temperature: float
    threshold: float

    @classmethod
    def of(cls, fitted: dict[str, Any], features: int, classes: int, tensors: int) -> SavedEnsemble:
        """``tensors``: how many the other file has, which bounds the number of layers."""
        saved = cls(**typed_fields(cls, fitted, "fitted", others=True))
        check_norm(saved.found.feature_norm, "feature_norm")
        if not 0 <= saved.found.hops <= MOST_HOPS:
            raise ValueError(f"hops={saved.found.hops}; expected at most {MOST_HOPS:,}")
        if not saved.members or not len(saved.members) == len(saved.votes) == len(saved.scales):
            raise ValueError("its members, their votes and their scales are not equally many")
        scales = [*saved.scales, *saved.ridge_scales, saved.temperature]
        if not all(LEAST_SCALE / ROUNDING <= scale <= MOST_SCALE * ROUNDING for scale in scales):
            raise ValueError("a scale or the temperature is out of bounds")
        if not all(0 <= share <= 1 for share in (*saved.votes, saved.threshold)):
            raise ValueError("a vote or the threshold is out of bounds")
        saved._check_shapes(features * (2 if any(member.own for member in saved.members) else 1), classes, tensors)
        return saved

    def _check_shapes(self, inputs: int, outputs: int, tensors: int) -> None:
        for shape in self.shapes:
            if (shape["inputs"], shape["outputs"]) != (inputs, outputs):
                raise ValueError(f"a network has {shape['inputs']} inputs and {shape['outputs']} outputs; expected "
                                 f"{inputs} and {outputs}")  # fmt: skip
            if min(shape["count"], shape["hidden"], shape["layers"]) < 1:
                raise ValueError("a network has no layer, or none of any width")
        if not 1 <= sum(shape["layers"] for shape in self.shapes) <= tensors:
            raise ValueError(f"its networks have other layers than the {tensors} tensors of its file")

    @property
    def learned(self) -> Learned:
        """The ensemble, not filled yet."""
        return Learned(
            Ensemble.of_shapes(self.shapes),  # type: ignore[arg-type]
            self.members, self.votes, self.scales, self.ridge_scales, self.temperature, self.threshold,
        )  # fmt: skip


def held_out(tensors: Mapping[str, torch.Tensor], classes: int, multilabel: bool) -> dict[str, AnyArray]:
    """The arrays of the held-out nodes: ids, probabilities, labels, and which of them chose nothing."""
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
    return {"nodes": nodes, "proba": proba, "labels": labels, "chose_nothing": aside}


def ridge_shares(tensors: Mapping[str, torch.Tensor], classes: int) -> dict[str, AnyArray] | None:
    """The labelled nodes of ridges that vote, and their coefficients; None where the model keeps none."""
    if "ridge.nodes" not in tensors:
        return None
    nodes = array(tensors, "ridge.nodes", torch.int64, None)
    duals = array(tensors, "ridge.duals", torch.float64, nodes.size, classes)
    if (nodes < 0).any() or not np.isfinite(duals).all():
        raise ValueError("its ridge was solved on nodes, or gave numbers, that there cannot be")
    return {"nodes": nodes, "duals": duals}
