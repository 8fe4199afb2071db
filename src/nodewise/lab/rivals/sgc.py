"""SGC: ``S^K X`` with ``S = D^-1/2 A D^-1/2``, then a linear classifier.

Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nodewise._util.memory import memory_budget
from nodewise._util.threads import thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.lab.rivals.decoupled import RowRival
from nodewise.lab.rivals.spread import spread
from nodewise.learn.task import check_whole


@dataclass(eq=False, repr=False, kw_only=True)
class SGC(RowRival):
    """``hops``: K. ``layers=1``: the paper's logistic regression.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> SGC(seed=0).fit(g, range(60), range(60, 120)).score(g, range(120, 500)) > 0.6
    True
    """

    hops: int = 2
    layers: int = 1
    dropout: float = 0.0
    lr: float = 0.2
    weight_decay: float = 5e-5

    # The paper's K = 2 on features scaled to sum to one; as there, weight decay alone is chosen, on validation nodes.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cora": {"feature_norm": "l1", "weight_decay": 1e-5},
        "citeseer": {"feature_norm": "l1", "weight_decay": 5e-4},
        "pubmed": {"feature_norm": "l1", "weight_decay": 1e-4},
    }

    def check_params(self) -> None:
        super().check_params()
        check_whole("hops", self.hops, 0)

    def represent_block(self, graph: Graph, nodes: IntArray, block: slice) -> FloatArray:
        shares = np.zeros(self.hops + 1)
        shares[-1] = 1.0
        memory, threads = memory_budget(self.memory), thread_count(self.threads)
        return spread(graph, nodes, block, shares, 0.5, self.feature_norm, threads, memory)
