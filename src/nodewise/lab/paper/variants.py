"""What the ablation and the sensitivity share: NIGCN by walks, with one thing changed, on dense graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nodewise.datasets.registry import lookup
from nodewise.diffusion.diffuse import diffuse
from nodewise.diffusion.params import DiffusionConfig
from nodewise.graph import Graph
from nodewise.graph.splits import Split
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.subjects import Subject, chosen_settings, find_subject, open_subject, splits_of
from nodewise.lab.rivals import settings as preset
from nodewise.learn.evaluate import Evaluation, evaluate
from nodewise.learn.nigcn import NIGCN


@dataclass(frozen=True)
class Ground:
    """A graph, its splits, and NIGCN's settings on it: Algorithm 2 to the letter, so that first-K means something."""

    subject: Subject
    graph: Graph
    splits: list[Split]
    split_source: str
    inductive: bool
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return self.subject.name if self.subject.is_original else f"{self.subject.name} (stand-in)"

    @property
    def ran_on(self) -> str:
        how = "inductive" if self.inductive else "transductive"
        return f"{self.subject.ran_on}; {how}, {self.split_source}"

    @property
    def diffusion(self) -> DiffusionConfig:
        found: DiffusionConfig = self.settings.get("diffusion", DiffusionConfig())
        return found

    def try_variant(self, changes: dict[str, Any]) -> tuple[Evaluation, float]:
        """The scores on all splits, and the mean number of neighbours that a test node's weights name."""
        model = NIGCN(**{**self.settings, **changes})
        found = evaluate(model, self.graph, self.splits, inductive=self.inductive)
        test = self.splits[0].test
        kept = diffuse(self.graph, test, **vars(model.row_maker.on(self.graph))).matrix.nnz / test.size
        return found, kept


def grounds(context: Context) -> list[Ground]:
    """The paper's Amazon or its stand-in, and Amazon-Computers where it is on this machine."""
    names = ["amazon"]
    computers = lookup("amazon-computers")
    if computers is not None and computers.available(context.data_dir):
        names.append("amazon-computers")
    return [_ground(name, context) for name in names]


def _ground(name: str, context: Context) -> Ground:
    subject = find_subject(name, context)
    graph = open_subject(subject, context)
    inductive = all(part in graph.splits for part in ("train", "val", "test"))
    splits, split_source = splits_of(subject, graph, context, inductive)
    chosen = chosen_settings(subject, ("NIGCN",)).get("NIGCN", {})
    settings = {**preset("NIGCN", subject.source), **chosen}
    settings |= {"engine": "walks", "seed": context.seed, "threads": context.threads}
    return Ground(subject, graph, splits, split_source, inductive, settings)


def percent(found: Evaluation) -> list[float]:
    return [float(score) for score in 100 * np.array(found.test_f1)]


def seconds_of(found: Evaluation) -> float:
    """Preparation and training, the mean of a split."""
    return float(np.mean([s.preparation_seconds + s.train_seconds for s in found.splits]))
