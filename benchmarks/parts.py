"""What parts add to the default, or take from it, with few and with many labels.

    NODEWISE_DATA=... python benchmarks/parts.py -o docs/results/parts.json [NAME ...]

Regimes: 20 labels per class (the fixed splits), 5% and 50% of the nodes; 500 validation and 1,000 test nodes, three
splits each. Every variant learns from the same rows with the same seeds; the difference to the default is in points of
micro-F1. *no teaching*, *one network*: the default without a part that it has. *own features*: each node's own features
beside the diffused ones. *label reuse*: the classes of labelled nodes in reach beside them, never the node's own.
*correct and smooth*: predictions mended by residuals and labels in reach, its strength chosen on validation nodes.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nodewise as nw
from learning import NAMES, splits_of
from nodewise.features import dense_rows, normalize
from nodewise.learn.fitting import Known, known_shares, learn
from nodewise.learn.search import judged, penalties_of
from nodewise.learn.task import Task
from nodewise.splits import Split

REGIMES = ("20 per class", "5%", "50%")
MOST_NUMBERS = 1 << 27  # in the rows of a variant: the widest graphs with half of the labels are left out


def draw(name: str, graph: nw.Graph, regime: str, number: int) -> Split:
    fixed = splits_of(name)[number]
    if regime == "20 per class":
        return fixed
    share = 0.05 if regime == "5%" else 0.5
    inside = graph.splits["train"] if name == "arxiv-standin" else np.flatnonzero(graph.labels >= 0)
    rest = np.setdiff1d(inside, np.concatenate([fixed.val, fixed.test]))
    count = min(rest.size, int(share * graph.num_nodes))
    return Split(np.random.default_rng(number).choice(rest, count, replace=False), fixed.val, fixed.test)


def run(name: str, graph: nw.Graph, split: Split) -> dict[str, float] | None:
    """Test micro-F1 of the default and its variants, in percent; None where rows would be too large."""
    task = Task.checked(graph, split.train, split.val, split.test, name == "arxiv-standin", None)
    if (split.train.size + 3500) * graph.num_features > MOST_NUMBERS:
        return None
    model = nw.NIGCN(epochs=4).fit(graph, split.train, split.val, inductive=task.inductive)  # finds the diffusion
    model.epochs = 300
    pool = task.unlabelled(2000, 0)
    parts = [split.train, pool, split.val, split.test]
    rows = model._rows(task, pool, [split.val, split.test], None)
    truth = [model._classes.encoded(graph.labels[part]) for part in parts]
    config = model._network
    base, learned = fitted(rows, truth, config)
    found = {"default": base}
    found["no teaching"], _ = fitted(rows, truth, replace(config, teach=False))
    single = replace(config, layers=2, weight_decay=0.005, teach=False)
    found["one network"], _ = fitted(rows, truth, single)
    own = [dense_rows(graph.features, part, model.row_maker.feature_norm) for part in parts]
    found["own features"], _ = fitted(
        [np.hstack([a, normalize(b, "l2")]) for a, b in zip(rows, own, strict=True)], truth, config
    )
    reached = [labels_in_reach(model, graph, part, split.train) for part in parts]
    found["label reuse"], _ = fitted([np.hstack(pair) for pair in zip(rows, reached, strict=True)], truth, config)
    found["correct and smooth"] = mended(model, graph, split, rows, truth, learned)
    return found


def fitted(rows: list[np.ndarray], truth: list[torch.Tensor], config: Any) -> tuple[float, Any]:
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in rows]
    classes = int(max(labels.max() for labels in truth)) + 1
    train, val = (tensors[0], truth[0]), (tensors[2], truth[2])
    some = slice(None, None, -(-train[0].shape[0] // 800))
    penalties = penalties_of(judged((train[0][some], train[1][some]), val, classes)[0])
    known = Known(classes, train, val, tensors[1], known_shares(val[1], train[1], classes))
    learned = learn(known, penalties, config)
    with torch.no_grad():
        right = learned.ensemble(tensors[3]).argmax(1) == truth[3]
    return 100 * float(right.float().mean()), learned


def weights(model: nw.NIGCN, graph: nw.Graph, nodes: np.ndarray) -> Any:
    maker = model.row_maker
    return nw.diffuse(graph, nodes, **{**vars(maker.on(graph)), "engine": "stratified", "epsilon": 0.05}).matrix


def one_hot(labels: np.ndarray) -> np.ndarray:
    return np.eye(int(labels.max()) + 1, dtype=np.float32)[labels]


def labels_in_reach(model: nw.NIGCN, graph: nw.Graph, nodes: np.ndarray, train: np.ndarray) -> np.ndarray:
    reach = weights(model, graph, nodes).tolil()
    reach[np.arange(nodes.size), nodes] = 0
    known = np.zeros((graph.num_nodes, int(graph.labels.max()) + 1), np.float32)
    known[train] = one_hot(graph.labels)[train]
    return normalize(np.asarray(reach.tocsr() @ known, np.float32), "l1")


def mended(model: Any, graph: nw.Graph, split: Split, rows: list[np.ndarray], truth: list[Any], learned: Any) -> float:
    with torch.no_grad():
        said = [torch.softmax(learned.ensemble(torch.from_numpy(np.ascontiguousarray(r))), 1).numpy() for r in rows]
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
    found = json.loads(args.output.read_text()) if args.output.is_file() else {}
    for regime in REGIMES:
        for name in args.names or NAMES:
            key = f"{name}, {regime}"
            if key in found:
                continue
            graph = nw.load(name)
            every = [run(name, graph, draw(name, graph, regime, number)) for number in range(args.splits)]
            scores = [one for one in every if one is not None]
            if scores:
                found[key] = {part: float(np.mean([one[part] for one in scores])) for part in scores[0]}
                args.output.write_text(json.dumps(found, indent=1) + "\n")
                print(key, {part: round(value, 2) for part, value in found[key].items()}, flush=True)


if __name__ == "__main__":
    main()
