"""What an experiment runs on: a data set of the paper or a stand-in, its splits, and the settings of methods.

A stand-in is a synthetic graph with the classes, features and average degree of the original and fewer nodes. How
informative features and communities are in the originals is not known (except for ogbn-arxiv, whose graph is here), so
this was set to give scores between chance and 100%. The ranking of methods on a stand-in is therefore no evidence for
or against any of them, even less so as only NIGCN has the original's settings there, and no sentence ranks them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import AnyArray
from nodewise.datasets import load
from nodewise.datasets.registry import lookup
from nodewise.diffusion.params import Convention, DiffusionConfig
from nodewise.formats.split_file import read_split_file
from nodewise.graph import Graph, synthetic
from nodewise.graph.splits import Split, random_splits
from nodewise.lab.paper.experiments import Context
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.rivals import settings as preset
from nodewise.store import is_store, write_store

PER_CLASS, VAL, TEST = 20, 500, 1000  # the paper's protocol
PARTS = {"train": 0.66, "val": 0.1, "test": 0.24}  # of a stand-in's nodes, as of Reddit's


@dataclass(frozen=True)
class Shape:
    """A stand-in: its number of nodes, and how clearly communities and features show the classes."""

    nodes: int
    quick_nodes: int
    homophily: float
    signal: float


SHAPES = {
    "papers100M": Shape(200_000, 50_000, homophily=0.3, signal=2.0),
    "ogbn-arxiv": Shape(80_000, 20_000, homophily=0.65, signal=1.5),
    "reddit": Shape(30_000, 10_000, homophily=0.2, signal=2.5),
    "amazon": Shape(200_000, 50_000, homophily=0.15, signal=4.0),
}
OTHER_NAMES = {"ogbn-arxiv": ("ogbn-arxiv", "arxiv-standin"), "papers100M": ("ogbn-papers100M",)}
SMALL = ("cora", "citeseer", "pubmed", "amazon-computers")  # loaded even if they have to be downloaded


@dataclass(frozen=True)
class Subject:
    """``name``: the paper's; ``source``: what is opened; ``ran_on``: what that is, in words."""

    name: str
    source: str
    ran_on: str
    is_original: bool

    @property
    def title(self) -> str:
        return self.name if self.is_original else f"{self.name} (stand-in)"


def is_here(name: str, context: Context) -> bool:
    """Whether a data set is on this machine."""
    dataset = lookup(name)
    return dataset is not None and dataset.available(context.data_dir) is not None


def find_subject(name: str, context: Context) -> Subject:
    """The data set itself, or the nearest thing to it on this machine."""
    for known in OTHER_NAMES.get(name, (name,)):
        if name in SMALL or is_here(known, context):
            if known == "arxiv-standin":
                ran_on = f"{name}: the graph, labels and parts of ogbn-arxiv with other features (arxiv-standin)"
                return Subject(name, known, ran_on, is_original=False)
            return Subject(name, known, f"{name}: the data set itself", is_original=True)
    return _standin(name, context)


def _standin(name: str, context: Context) -> Subject:
    shape = SHAPES[name]
    nodes = shape.quick_nodes if context.quick else shape.nodes
    there, edges, features, classes = facts("datasets")["rows"][name]
    degree = 2 * edges / there
    folder = context.output / "graphs" / f"{name}-{nodes}-{context.seed}"
    if not is_store(folder):
        graph = synthetic.dcsbm(
            nodes, degree, classes, shape.homophily, features, signal=shape.signal, seed=context.seed
        )
        write_store(graph.replace(name=f"{name}-standin", splits=_parts(nodes, context.seed)), folder)
    ran_on = (
        f"{name}: a synthetic stand-in of {nodes:,} nodes in place of {there:,}, with its {classes} classes, "
        f"{features} features and about its average degree of {degree:.0f}"
    )
    return Subject(name, str(folder), ran_on, is_original=False)


def _parts(nodes: int, seed: int) -> dict[str, Any]:
    """The official parts of a stand-in."""
    order = np.random.default_rng([seed, 3]).permutation(nodes)
    cuts = np.cumsum([round(share * nodes) for share in PARTS.values()])[:-1]
    return {part: np.sort(ids) for part, ids in zip(PARTS, np.split(order, cuts), strict=True)}


# ---------------------------------------------------------------------- settings


# Of NIGCN without a preset: the same for all graphs, so that nothing is chosen on a stand-in. One network, as in the
# paper: nothing that the library adds to the method has a part in the paper's tables.
NETWORK = {
    "layers": 2, "dropout": 0.5, "lr": 0.01, "feature_norm": "none", "epochs": 1000, "patience": 60, "teach": False,
}  # fmt: skip
CONVENTION: Convention = "reference"  # of lengths: that of the published program, for which the paper chose tau


def chosen_settings(subject: Subject, methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What replaces the presets. On a synthetic graph all train without weight decay, as the paper does on Amazon.

    NIGCN without a preset diffuses with the paper's hyper-parameters.
    """
    is_synthetic = lookup(subject.source) is None
    settings: dict[str, dict[str, Any]] = {name: {"weight_decay": 0.0} for name in methods if is_synthetic}
    if "NIGCN" in methods and not preset("NIGCN", subject.source):
        decay = {"weight_decay": reported("head", subject.name, "weight_decay")}
        settings["NIGCN"] = {**nigcn_settings(subject.name), **decay, **settings.get("NIGCN", {})}
    return settings


def nigcn_settings(name: str) -> dict[str, Any]:
    """NIGCN without a preset: one network for all graphs, and the paper's diffusion for a data set."""
    return {**NETWORK, **hyperparameters(name), "diffusion": DiffusionConfig(convention=CONVENTION)}


def hyperparameters(name: str) -> dict[str, Any]:
    """The paper's omega, rho, tau and epsilon for a data set."""
    return {column: reported("hyperparameters", name, column) for column in facts("hyperparameters")["columns"]}


# ---------------------------------------------------------------------- splits


def open_subject(subject: Subject, context: Context) -> Graph:
    return load(subject.source, context.data_dir)


def labels_of(graph: Graph) -> AnyArray:
    if graph.labels is None:
        raise InputError(f"{graph.name}: has no labels; expected a graph whose labels are known")
    return graph.labels


def splits_of(subject: Subject, graph: Graph, context: Context, inductive: bool = False) -> tuple[list[Split], str]:
    """As many splits as the user asked for, and where they come from."""
    count = context.num_splits
    path = _split_file(subject.source, context)
    if path is not None:
        found = read_split_file(path, graph.num_nodes)
        if len(found) < count:
            raise InputError(
                f"{path}: holds {len(found)} splits, expected at least {count}; pass --splits {len(found)}"
            )
        return found[:count], f"the first {count} splits of {path.name} in {path.parent}"
    sizes = f"{PER_CLASS} per class to train, {VAL} to validate, {TEST:,} to test"
    if inductive:
        return part_splits(graph, count, context.seed), f"{count} random splits within the official parts: {sizes}"
    return random_splits(labels_of(graph), count, PER_CLASS, VAL, TEST, context.seed), f"{count} random splits: {sizes}"


def _split_file(source: str, context: Context) -> Path | None:
    """``NAME.npz`` in the given folder of splits, else in ``splits`` in the folders of data."""
    if lookup(source) is None:
        return None
    roots = (context.data_dir, os.environ.get("NODEWISE_DATA"))
    folders = (
        [context.splits_dir] if context.splits_dir else [Path(root).expanduser() / "splits" for root in roots if root]
    )
    return next((path for folder in folders if (path := folder / f"{source}.npz").is_file()), None)


def part_splits(graph: Graph, count: int, seed: int, train: int | None = None) -> list[Split]:
    """Splits for inductive learning: each part is drawn from the official one.

    Training takes 20 nodes per class (all of a smaller class), or ``train`` random nodes of any class.
    """
    labels, parts = labels_of(graph), graph.splits
    if any(part not in parts for part in PARTS):
        raise InputError(f"{graph.name}: has no official parts; inductive splits are drawn from train, val and test")
    pools = [parts["train"][labels[parts["train"]] == label] for label in graph.present_labels]
    takes = [min(PER_CLASS, pool.size) for pool in pools]
    if train is not None:
        pools, takes = [parts["train"]], [train]
    pools += [parts["val"], parts["test"]]
    takes += [min(VAL, parts["val"].size), min(TEST, parts["test"].size)]
    made = []
    for i in range(count):
        random = np.random.default_rng([seed, i])
        drawn = [np.sort(random.choice(pool, take, replace=False)) for pool, take in zip(pools, takes, strict=True)]
        made.append(Split(np.sort(np.concatenate(drawn[:-2])), *drawn[-2:]))
    return made
