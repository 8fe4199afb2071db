"""What the rivals share that spread the features over the graph first, and then learn from each node's row alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from nodewise._util.errors import warn
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.features import check_norm
from nodewise.lab.rivals.rival import Rival
from nodewise.learn.heads import Heads
from nodewise.learn.rows import RowMaker
from nodewise.learn.task import Task
from nodewise.learn.trainer import choose_device, train


@dataclass(eq=False, repr=False, kw_only=True)
class RowRival(Rival, RowMaker):
    """Base of the rivals that make rows; a method says how in ``represent_block``, some columns at a time."""

    bias: bool = True
    row_norm: str = "none"
    device: str = "auto"
    memory: int | str | None = None

    def check_params(self) -> None:
        super().check_params()
        check_norm(self.row_norm, "row_norm")
        choose_device(self.device)

    # ------------------------------------------------------------------ rows

    def represent(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return self.represent_block(graph, nodes, slice(0, graph.num_features))

    def column_blocks(self, graph: Graph, nodes: IntArray | None, memory: int) -> list[slice] | None:
        """All columns, or as many as leave the rows of all nodes a quarter of the memory."""
        count = graph.num_nodes if nodes is None else nodes.size
        width = max(1, memory // (16 * max(1, count)))
        columns = graph.num_features
        return [slice(first, min(columns, first + width)) for first in range(0, columns, width)]

    # ------------------------------------------------------------------ the estimator

    def _fit(self, task: Task, **how: Any) -> FloatArray:
        started = time.perf_counter()
        rows = self._rows_of_task(task)
        prepared = time.perf_counter()
        device = choose_device(self.device)
        learned, judged = (
            (torch.from_numpy(part).to(device), self._labels(task, nodes).to(device))
            for part, nodes in zip(rows, (task.train, task.val), strict=False)
        )
        make = partial(self._make_network, self.n_features_in_, self._classes.ids.size)
        self._keep(*train(make, learned, judged if task.val.size else None, self._config()))
        self.val_f1_ = self._val_f1(task, self._proba_of_rows(rows[1]))
        self.seconds_ = {"preparation": prepared - started, "training": time.perf_counter() - prepared}
        return self._proba_of_rows(rows[2])

    def _rows_of_task(self, task: Task) -> list[FloatArray]:
        """Rows of training, validation and asked nodes; those of training nodes see what training sees."""
        parts = [task.train, task.val, task.asked]
        alone = [self.rows(*task.seen(task.train))] if task.inductive else []
        together = parts[len(alone) :]
        rows = self.rows(task.graph, np.concatenate(together))
        return [*alone, *np.split(rows, np.cumsum([part.size for part in together[:-1]]))]

    def _proba(self, graph: Graph, nodes: IntArray) -> FloatArray:
        return np.concatenate([self._proba_of_rows(rows) for rows in self.rows_in_steps(graph, nodes)])

    @torch.no_grad()
    def _proba_of_rows(self, rows: FloatArray) -> FloatArray:
        device = next(self.networks_.parameters()).device
        logits = self.networks_(torch.from_numpy(rows).to(device))[0]
        return np.asarray(self._classes.proba(logits).cpu().numpy())

    def _make_network(self, inputs: int, outputs: int, draw: torch.Generator | None = None) -> Heads:
        return Heads(1, inputs, outputs, self.hidden, self.layers, self.dropout, self.bias, draw=draw)

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, torch.Tensor]) -> torch.nn.Module:
        if self.device == "cuda" and not torch.cuda.is_available():
            warn("this model was trained with device='cuda', and this machine has no CUDA: it runs on the CPU here")
            self.device = "cpu"
        return super()._restore(fitted, arrays).to(choose_device(self.device))
