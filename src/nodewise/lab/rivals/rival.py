"""What all rivals share: the parameters of a network and of its training, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nodewise._util.threads import thread_count
from nodewise._util.types import FloatArray, IntArray
from nodewise.graph.checks import check_number, checked_seed
from nodewise.graph.features import check_norm
from nodewise.learn.estimator import NodeClassifier
from nodewise.learn.metrics import micro_f1
from nodewise.learn.task import Task, check_whole
from nodewise.learn.trainer import TrainConfig, check_bounds


@dataclass(eq=False, repr=False, kw_only=True)
class Rival(NodeClassifier):
    """Base of all rivals.

    ``batch_size=None``: all training nodes at once, or as many as the method finds sensible. ``feature_norm`` ("none",
    "l1", "l2") scales each node's features first.
    """

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-3
    epochs: int = 1000
    patience: int = 60
    batch_size: int | None = None
    feature_norm: str = "none"
    seed: int = 0
    threads: int | None = None

    def check_params(self) -> None:
        for name in ("hidden", "layers", "epochs", "patience", "batch_size"):
            if name != "batch_size" or self.batch_size is not None:
                check_whole(name, getattr(self, name))
        check_norm(self.feature_norm, "feature_norm")
        checked_seed(self.seed)
        check_number("dropout", self.dropout, "a number of at least 0 and below 1", 0, 1)
        check_number("lr", self.lr, "a number above 0", 0, strictly=True)
        check_number("weight_decay", self.weight_decay, "a number of at least 0", 0)

    def _make_network(self, inputs: int, outputs: int) -> nn.Module:
        """The network, untrained."""
        raise NotImplementedError

    def _restore(self, fitted: dict[str, Any], arrays: dict[str, torch.Tensor]) -> nn.Module:
        return self._make_network(self.n_features_in_, self._classes.ids.size)

    def _config(self) -> TrainConfig:
        """How to train, from the parameters."""
        threads = thread_count(self.threads)
        return TrainConfig(self.lr, self.weight_decay, self.epochs, self.patience, self.batch_size, self.seed, threads)

    def _labels(self, task: Task, nodes: IntArray) -> torch.Tensor:
        """Labels as the loss takes them."""
        return self._classes.encoded(task.labels(nodes))

    def _keep(self, network: nn.Module, epochs: list[int]) -> None:
        """Take a trained network as this model's, unless training diverged."""
        check_bounds(network, self.lr)
        self.networks_, self.epochs_ = network.eval(), epochs[0]

    def _val_f1(self, task: Task, proba: FloatArray) -> float | None:
        """Micro-F1 of what is said of validation nodes."""
        return micro_f1(task.labels(task.val), self.labels_of_proba(proba)) if task.val.size else None
