"""What would have to go: the neighbours without which a node would get another label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nodewise._util.threads import thread_count
from nodewise._util.types import AnyArray, BoolArray, DoubleArray, FloatArray, IntArray
from nodewise.diffusion.aggregate import weighted_sum
from nodewise.diffusion.walks import Weights, node_dtype
from nodewise.explaining.parts import Summed
from nodewise.graph import Graph
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.rows import DiffusedRows

TRIES, NUMBERS = 64, 1 << 24  # rows, and numbers in them, that are tried together


class Flipped(NamedTuple):
    """``removed``: places among the neighbours; ``proba``: the model's answer without them."""

    removed: IntArray
    proba: FloatArray


def predicted_columns(model: NIGCN, proba: FloatArray) -> BoolArray:
    """Which classes the model gives to each row: the most probable one or, of several, those above its threshold."""
    if model.multilabel_:
        return np.asarray(model.labels_of_proba(proba) == 1)
    return np.asarray(np.arange(proba.shape[1]) == proba.argmax(1)[:, None])


def find_flip(
    model: NIGCN, maker: DiffusedRows, graph: Graph, node: int, summed: Summed, margins: DoubleArray, column: int,
    holds: bool,
) -> Flipped | None:  # fmt: skip
    """The fewest neighbours, taken in the order of what they add to the margin, without which the answer changes.

    The removed get no weight, the others keep theirs, and the row is scaled again; the node itself stays. ``holds``:
    the class in ``column`` is given now, and would have to go; otherwise it would have to come. Each try is a row made
    anew and the networks' answer to it. Tries are spread over the list, then between the last one that changed nothing
    and the first that did.
    """
    nodes, values = summed.nodes, summed.weights
    push = np.where(nodes == node, 0.0, margins if holds else -margins)
    order = np.argsort(-push, kind="stable")
    count = int((push > 0).sum())
    low, high, flipped = 0, count, None
    beyond = _sums(graph, maker, nodes[order[count:]], values[order[count:]], np.array([0]))[0]
    most = max(2, min(TRIES, NUMBERS // max(1, graph.num_features)))
    while high > low and (flipped is None or high - low > 1):
        cuts = low + _spread(high - low, most)
        between = order[cuts[0] : high]
        sums = _sums(graph, maker, nodes[between], values[between], cuts - cuts[0])
        left = beyond + np.cumsum(sums[::-1], axis=0)[::-1]
        rows = maker.finish(graph, np.full(cuts.size, node), left.astype(np.float32))
        proba = model.proba_of_rows(rows)
        changed = predicted_columns(model, proba)[:, column] != holds
        if not changed.any():
            break
        first = int(np.argmax(changed))
        low, high, beyond = int(cuts[first - 1]) if first else low, int(cuts[first]), left[first]
        flipped = Flipped(order[:high], proba[first])
    return flipped


def _spread(last: int, most: int) -> IntArray:
    """At most ``most`` numbers from 1 to ``last``, dense at the beginning."""
    if last <= most:
        return np.arange(1, last + 1)
    numbers: IntArray = np.unique(np.geomspace(1, last, most).round().astype(np.int64))
    return numbers


def _sums(graph: Graph, maker: DiffusedRows, nodes: IntArray, values: AnyArray, starts: IntArray) -> DoubleArray:
    """The weighted sum of features of each part of a list of nodes; parts begin at ``starts``."""
    indptr = np.append(starts, nodes.size)
    parts = Weights(indptr, nodes.astype(node_dtype(graph)), values.astype(np.float32))
    sums = weighted_sum(parts, graph.features, thread_count(maker.params.threads), maker.feature_norm)
    return sums.astype(np.float64)
