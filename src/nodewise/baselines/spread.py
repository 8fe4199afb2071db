"""``sum over l of w_l (D^(r-1) A D^-r)^l X`` for the nodes asked about, by NIGCN's exact hops.

``D^(r-1) A D^-r`` is ``D^r P D^-r``, so scaling the features before and the rows after is all that ``r`` changes:
``r = 0`` is the random walk ``P = D^-1 A``, ``r = 1/2`` the symmetric ``D^-1/2 A D^-1/2``, ``r = 1`` is ``A D^-1``.
"""

from __future__ import annotations

import numpy as np

from nodewise._typing import DoubleArray, FloatArray, IntArray
from nodewise.diffusion import exact
from nodewise.features import row_scales
from nodewise.graph import Graph


def spread(
    graph: Graph, nodes: IntArray, shares: DoubleArray, r: float, norm: str, threads: int, memory: int
) -> FloatArray:
    """A row for each of ``nodes``; ``shares[l]`` is the weight of hop ``l``, ``norm`` that of the features."""
    scale = graph.degrees**-r
    scales = row_scales(graph.features, norm)
    before = (scale if scales is None else scale * scales).astype(np.float32)
    reach = np.full(nodes.size, shares.size - 1)
    task = exact.Task(graph, nodes, reach, shares, threads, memory, before)
    return exact.by_features(task, graph.features) / scale[nodes].astype(np.float32)[:, None]
