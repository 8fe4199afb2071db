"""What an experiment runs on: a data set of the paper where it is on this machine, else a stand-in, and which splits.

A stand-in is a synthetic graph with the classes, features and average degree of the original and fewer nodes. How
strong its features and communities are is not known of the originals (but for ogbn-arxiv, whose graph is at hand) and
was set so that scores lie between chance and 100%. So the order of methods on a stand-in is no evidence for or against
any of them, the less so as none but NIGCN has settings of the original there, and no sentence ranks them.
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
from nodewise.lab.paper.context import Context
from nodewise.lab.paper.published import facts, reported
from nodewise.lab.rivals import settings as preset
from nodewise.store import is_store, write_store

PER_CLASS, VAL, TEST = 20, 500, 1000  # the paper's protocol
PARTS = {"train": 0.66, "val": 0.1, "test": 0.24}  # of a stand-in's nodes, as of Reddit's


@dataclass(frozen=True)
class Shape:
    """A stand-in: its nodes, and how clearly communities and features show the classes."""

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
SMALL = ("cora", "citeseer", "pubmed", "amazon-computers")  # loaded wherever they come from


@dataclass(frozen=True)
class Subject:
    """``name`` is the paper's, ``source`` what is opened, ``ran_on`` says in words what that is."""

    name: str
    source: str
    ran_on: str
    is_original: bool


def find_subject(name: str, context: Context) -> Subject:
    """The data set itself, or the nearest thing to it on this machine."""
    for known in OTHER_NAMES.get(name, (name,)):
        dataset = lookup(known)
        if dataset is not None and (name in SMALL or dataset.available(context.data_dir) is not None):
            ran_on = f"{name}: the data set itself"
            if known == "arxiv-standin":
                ran_on = f"{name}: the graph, labels and parts of ogbn-arxiv with other features (arxiv-standin)"
            return Subject(name, known, ran_on, known != "arxiv-standin")
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


# NIGCN's, where it has no preset: the same for all, so that nothing is chosen on a stand-in. One network, as in the
# paper: nothing that the library adds to it has a part in the paper's tables.
NETWORK = {
    "layers": 2, "dropout": 0.5, "lr": 0.01, "feature_norm": "none", "epochs": 1000, "patience": 60, "teach": False,
}  # fmt: skip
CONVENTION: Convention = "reference"  # of lengths: the published program's, to which the paper's tau belongs


def chosen_settings(subject: Subject, methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What takes the place of presets. On a synthetic graph all train without weight decay, as the paper's on Amazon.

    NIGCN diffuses by the paper's hyper-parameters wherever it has no preset.
    """
    is_synthetic = lookup(subject.source) is None
    settings: dict[str, dict[str, Any]] = {name: {"weight_decay": 0.0} for name in methods if is_synthetic}
    if "NIGCN" in methods and not preset("NIGCN", subject.source):
        decay = {"weight_decay": reported("head", subject.name, "weight_decay")}
        settings["NIGCN"] = {**nigcn_settings(subject.name), **decay, **settings.get("NIGCN", {})}
    return settings


def nigcn_settings(name: str) -> dict[str, Any]:
    """NIGCN without a preset: the network of all, and the paper's diffusion of a data set."""
    return {**NETWORK, **hyperparameters(name), "diffusion": DiffusionConfig(convention=CONVENTION)}


def hyperparameters(name: str) -> dict[str, Any]:
    """The paper's omega, rho, tau and epsilon of a data set."""
    return {column: reported("hyperparameters", name, column) for column in facts("hyperparameters")["columns"]}


# ---------------------------------------------------------------------- splits


def open_subject(subject: Subject, context: Context) -> Graph:
    return load(subject.source, context.data_dir)


def labels_of(graph: Graph) -> AnyArray:
    if graph.labels is None:
        raise InputError(f"{graph.name}: has no labels; expected a graph whose labels are known")
    return graph.labels


def splits_of(subject: Subject, graph: Graph, context: Context, inductive: bool = False) -> tuple[list[Split], str]:
    """As many splits as asked for, and where they come from."""
    count = context.num_splits
    path = _split_file(subject.source, context)
    if path is not None:
        found = read_split_file(path, graph.num_nodes)
        if len(found) < count:
            raise InputError(
                f"{path}: holds {len(found)} splits, and {count} are asked for; pass --splits {len(found)}"
            )
        return found[:count], f"the first {count} splits of {path.name} in {path.parent}"
    sizes = f"{PER_CLASS} a class to train, {VAL} to validate, {TEST:,} to test"
    if inductive:
        return part_splits(graph, count, context.seed), f"{count} random splits within the official parts: {sizes}"
    return random_splits(labels_of(graph), count, PER_CLASS, VAL, TEST, context.seed), f"{count} random splits: {sizes}"


def _split_file(source: str, context: Context) -> Path | None:
    """``NAME.npz`` where splits are kept: the folder named, else ``splits`` in the folders of data."""
    if lookup(source) is None:
        return None
    if context.splits_dir is not None:
        folders = [context.splits_dir]
    else:
        roots = (context.data_dir, os.environ.get("NODEWISE_DATA"))
        folders = [Path(root).expanduser() / "splits" for root in roots if root]
    return next((path for folder in folders if (path := folder / f"{source}.npz").is_file()), None)


def part_splits(graph: Graph, count: int, seed: int, train: int | None = None) -> list[Split]:
    """Splits for inductive learning: each part is drawn within the official one.

    Training takes 20 nodes of each class (all of a smaller one), or ``train`` nodes at random whatever their class.
    """
    labels, parts = labels_of(graph), graph.splits
    if any(part not in parts for part in PARTS):
        raise InputError(f"{graph.name}: has no official parts; inductive splits are drawn in train, val and test")
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
