"""What parts add to the default, or take from it, with few and with many labels.

    NODEWISE_DATA=... python benchmarks/parts.py -o docs/results/parts.json [NAME ...]

Regimes: 20 labels per class (the fixed splits), 5% and 50% of the nodes; 500 validation and 1,000 test nodes, three
splits each (one where rows hold more than 2^26 numbers or there are more than 20,000 labels). Every variant learns from
the same diffusion with the same seeds; figures are micro-F1 in percent. *no own features*, *no teaching*, *one
network*: the default without a part that it has. *label reuse*: beside the rows the classes of labelled nodes in reach,
never the node's own, taken where the validation log-loss is less with them. *correct and smooth*: predictions mended by
the residuals of labelled nodes in reach, its strength (which may be 0) chosen on validation nodes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import nodewise as nw
from learning import NAMES, splits_of
from measuring import keep, kept
from nodewise.graph.features import normalize
from nodewise.graph.splits import Split
from nodewise.learn.cost import UNLABELLED
from nodewise.learn.fitting import Learned, TrainingData, known_shares, learn
from nodewise.learn.search import judged, penalties_of
from nodewise.learn.task import Task

REGIMES = ("20 per class", "5%", "50%")
MANY_NUMBERS, MOST_NUMBERS = 1 << 26, 1 << 28  # in the rows of a variant: one split beyond the first, none beyond
MANY_LABELS = 20_000


def draw(name: str, graph: nw.Graph, regime: str, number: int) -> Split:
    fixed = splits_of(name)[number]
    if regime == "20 per class":
        return fixed
    share = 0.05 if regime == "5%" else 0.5
    inside = graph.splits["train"] if name == "arxiv-standin" else np.flatnonzero(graph.labels >= 0)
    rest = np.setdiff1d(inside, np.concatenate([fixed.val, fixed.test]))
    count = min(rest.size, int(share * graph.num_nodes))
    return Split(np.random.default_rng(number).choice(rest, count, replace=False), fixed.val, fixed.test)


def run(name: str, graph: nw.Graph, split: Split) -> dict[str, float]:
    """Test micro-F1 of the default and its variants, in percent."""
    task = Task.checked(graph, split.train, split.val, split.test, name == "arxiv-standin", None)
    model = nw.NIGCN(epochs=4).fit(graph, split.train, split.val, inductive=task.inductive)  # finds the diffusion
    model.epochs = nw.NIGCN().epochs
    pool = task.unlabelled(UNLABELLED, 0)
    parts = [split.train, pool, split.val, split.test]
    rows = model._rows(task, pool, [split.val, split.test], None)
    truth = [model._classes.encoded(graph.labels[part]) for part in parts]
    width, config = graph.num_features, model._network.suited(split.train.size)
    diffused = [part[:, :width] for part in rows]
    default = fitted(rows, width, truth, config)
    found = {"default": default.right}
    found["no own features"] = fitted(diffused, width, truth, config).right
    found["no teaching"] = fitted(rows, width, truth, replace(config, teach=False)).right
    single = replace(config, layers=2, weight_decay=0.005, teach=False)
    found["one network"] = fitted(diffused, width, truth, single).right
    reached = [labels_in_reach(model, graph, part, split.train) for part in parts]
    more = [np.hstack([row[:, :width], label, row[:, width:]]) for row, label in zip(rows, reached, strict=True)]
    reuse = fitted(more, width + reached[0].shape[1], truth, config)
    found["label reuse"] = reuse.right if reuse.val_loss < default.val_loss else default.right
    found["correct and smooth"] = mended(model, graph, split, rows, truth, default.learned)
    return found


class Fitted(NamedTuple):
    right: float
    val_loss: float
    learned: Learned


def fitted(rows: list[np.ndarray], diffused: int, truth: list[torch.Tensor], config: Any) -> Fitted:
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in rows]
    classes = int(max(labels.max() for labels in truth)) + 1
    train, val = (tensors[0], truth[0]), (tensors[2], truth[2])
    data = TrainingData(classes, train, val, tensors[1], known_shares(val[1], train[1], classes), diffused)
    plain = data.without_own()
    some = slice(None, None, -(-train[0].shape[0] // 800))
    penalties = penalties_of(judged((plain.train[0][some], train[1][some]), plain.val, classes)[0])
    learned = learn(data, penalties, config)
    logits = [said_of(learned, tensors[i], diffused) for i in (2, 3)]
    right = 100 * float((logits[1].argmax(1) == truth[3]).float().mean())
    return Fitted(right, float(torch.nn.functional.cross_entropy(logits[0], truth[2])), learned)


@torch.no_grad()
def said_of(learned: Learned, rows: torch.Tensor, diffused: int) -> torch.Tensor:
    return learned.ensemble(rows if learned.own else rows[:, :diffused]) / learned.temperature


def weights(model: nw.NIGCN, graph: nw.Graph, nodes: np.ndarray) -> Any:
    maker = model.row_maker
    return nw.diffuse(graph, nodes, **{**vars(maker.on(graph)), "engine": "stratified", "epsilon": 0.05}).matrix


def labels_in_reach(model: nw.NIGCN, graph: nw.Graph, nodes: np.ndarray, train: np.ndarray) -> np.ndarray:
    reach = weights(model, graph, nodes).tolil()
    reach[np.arange(nodes.size), nodes] = 0
    known = np.zeros((graph.num_nodes, int(graph.labels.max()) + 1), np.float32)
    known[train, graph.labels[train]] = 1
    return normalize(np.asarray(reach.tocsr() @ known, np.float32), "l1")


def mended(model: Any, graph: nw.Graph, split: Split, rows: list[np.ndarray], truth: list[Any], learned: Any) -> float:
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in rows]
    said = [torch.softmax(said_of(learned, part, graph.num_features), 1).numpy() for part in tensors]
    classes = said[0].shape[1]
    residual = np.zeros((graph.num_nodes, classes), np.float32)
    residual[split.train] = np.eye(classes, dtype=np.float32)[truth[0].numpy()] - said[0]
    best = (-1.0, 0.0)
    spread = [weights(model, graph, part) @ residual for part in (split.val, split.test)]
    for strength in (0.0, 0.5, 1.0, 2.0, 5.0, 10.0):
        val, test = (
            100 * float(np.mean((said[2 + i] + strength * spread[i]).argmax(1) == truth[2 + i].numpy())) for i in (0, 1)
        )
        best = max(best, (val, test), key=lambda pair: pair[0])
    return best[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    found = kept(args.output)
    for regime in REGIMES:
        for name in args.names or NAMES:
            key = f"{name}, {regime}"
            if key in found:
                continue
            graph = nw.load(name)
            splits = [draw(name, graph, regime, number) for number in range(args.splits)]
            numbers = 2 * (splits[0].train.size + 3500) * graph.num_features
            if numbers > MOST_NUMBERS:
                continue
            many = numbers > MANY_NUMBERS or splits[0].train.size > MANY_LABELS
            scores = [run(name, graph, split) for split in splits[: 1 if many else None]]
            found[key] = {part: float(np.mean([one[part] for one in scores])) for part in scores[0]}
            found[key]["splits"] = len(scores)
            keep(found, args.output)
            print(key, {part: round(value, 2) for part, value in found[key].items()}, flush=True)


if __name__ == "__main__":
    main()
