"""The parts of a logit: what each neighbour and each feature adds to it, without remainder.

A node's row is ``z = s * sum over v of t_v x_v``. Networks of ReLU layers are linear around a given row, and so is a
sum of them: ``logit = a z + c``. So neighbour ``v`` adds ``s t_v (a x_v)``, and column ``j`` adds ``a_j z_j``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.types import DoubleArray, Features, FloatArray, IntArray
from nodewise.diffusion.diffuse import diffuse
from nodewise.graph import Graph
from nodewise.graph.features import row_scales
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.rows import DiffusedRows

NUMBERS = 1 << 24  # of feature rows that are held at a time


class Summed(NamedTuple):
    """One node's neighbours in order (itself among them), their weights, the sum, and the row that networks see."""

    nodes: IntArray
    weights: FloatArray
    total: FloatArray
    row: FloatArray


class Linear(NamedTuple):
    """The networks around one row: ``values = slopes @ row + biases``.

    Of the logit and, where there is a runner-up, of the margin over it.
    """

    values: DoubleArray
    slopes: DoubleArray
    biases: DoubleArray


def sum_around(maker: DiffusedRows, graph: Graph, node: int) -> Summed:
    """The weighted sum that makes the row of ``node``."""
    asked = np.array([node])
    diffusion = diffuse(graph, asked, **vars(maker.on(graph)))
    total = diffusion.apply(graph.features, maker.feature_norm)
    row = maker.finish(graph, asked, total)[0]
    nodes, weights = diffusion.matrix.indices.astype(np.int64), diffusion.matrix.data
    if node not in nodes:  # too light to be kept
        place = int(np.searchsorted(nodes, node))
        nodes, weights = np.insert(nodes, place, node), np.insert(weights, place, 0)
    return Summed(nodes, weights, total[0], row)


@torch.enable_grad()
def linear_around(model: NIGCN, row: FloatArray, column: int, runner_up: int | None) -> Linear:
    """The networks around ``row``: by the gradient, and the biases of all layers times theirs."""
    networks = model.networks_
    biases = [value for name, value in networks.named_parameters() if ".biases." in name]
    point = torch.from_numpy(row).to(next(networks.parameters()).device).requires_grad_()
    logits = networks(point[None])[0] / model.temperature_
    found = []
    for value in [logits[column]] + ([] if runner_up is None else [logits[column] - logits[runner_up]]):
        slope, *by_bias = torch.autograd.grad(value, [point, *biases], retain_graph=True)
        bias = sum(float((grad * its.detach()).sum()) for grad, its in zip(by_bias, biases, strict=True))
        found.append((value.item(), slope.double().cpu().numpy(), bias))
    values, slopes, constants = zip(*found, strict=True)
    return Linear(np.array(values), np.stack(slopes), np.array(constants))


def by_neighbour(maker: DiffusedRows, graph: Graph, node: int, summed: Summed, linear: Linear) -> DoubleArray:
    """What each neighbour adds, ``(neighbours, values)``; own features beside the sum are the node's own part."""
    width, order = graph.num_features, slice(None) if maker.order is None else maker.order
    slopes = np.empty((linear.values.size, width))
    slopes[:, order] = linear.slopes[:, :width]
    scale = row_scales(summed.total[None], maker.row_norm)
    factors: DoubleArray = summed.weights.astype(np.float64) * (1.0 if scale is None else float(scale[0]))
    added = factors[:, None] * _products(graph.features, summed.nodes, maker.feature_norm, slopes.T)
    if maker.own:
        added[summed.nodes == node] += linear.slopes[:, width:] @ summed.row[width:]
    return added


def by_feature(maker: DiffusedRows, graph: Graph, summed: Summed, linear: Linear) -> DoubleArray:
    """What each column of the graph's features adds, ``(columns, values)``; own features are added to their columns."""
    each = linear.slopes * summed.row
    added = np.empty((graph.num_features, linear.values.size))
    added[slice(None) if maker.order is None else maker.order] = (
        each.reshape(linear.values.size, -1, graph.num_features).sum(1).T
    )
    return added


def _products(features: Features, nodes: IntArray, norm: str, directions: DoubleArray) -> DoubleArray:
    """The features of ``nodes``, each row scaled to ``norm``, times ``directions``; a part of the rows at a time."""
    made = np.empty((nodes.size, directions.shape[1]))
    step = max(1, NUMBERS // max(1, directions.shape[0]))
    for first in range(0, nodes.size, step):
        part = slice(first, first + step)
        rows = features[nodes[part]]
        rows = rows if sp.issparse(rows) else np.asarray(rows, np.float32)
        scales = row_scales(rows, norm)
        made[part] = rows @ directions
        if scales is not None:
            made[part] *= scales[:, None]
    return made
