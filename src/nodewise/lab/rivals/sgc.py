"""SGC: ``S^K X`` with ``S = D^-1/2 A D^-1/2``, then a linear classifier.

Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise._util.memory import memory_budget
from nodewise._util.threads import thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.diffusion import exact
from nodewise.graph import Graph
from nodewise.lab.rivals.base import RowRival
from nodewise.lab.rivals.params import Dropout, NonNegative, Positive, Whole, WholeOrZero


@dataclass(eq=False, repr=False, kw_only=True)
class SGC(RowRival):
    """``hops``: K. ``layers=1``: the paper's logistic regression."""

    hops: WholeOrZero = 2
    layers: Whole = 1
    dropout: Dropout = 0.0
    lr: Positive = 0.2
    weight_decay: NonNegative = 5e-5

    # The paper's K = 2 on features scaled to sum to one; as there, weight decay alone is chosen, on validation nodes.
    PRESETS: ClassVar = {
        "cora": {"feature_norm": "l1", "weight_decay": 1e-5},
        "citeseer": {"feature_norm": "l1", "weight_decay": 5e-4},
        "pubmed": {"feature_norm": "l1", "weight_decay": 1e-4},
    }

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        """By NIGCN's exact hops: ``S^K = D^1/2 P^K D^-1/2`` with ``P = D^-1 A``."""
        shares, reach = np.eye(1, self.hops + 1, self.hops)[0], np.full(nodes.size, self.hops)
        threads, memory = thread_count(self.threads), memory_budget(self.memory)
        task = exact.Task(graph, nodes, reach, shares, threads, memory, self._row_scale(graph, 0.5))
        after = (graph.degrees_of(nodes) ** 0.5).astype(np.float32)
        return exact.by_features(task, graph.features, block) * after[:, None]
