"""Splits into training, validation and test nodes: drawn at random, official, or given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray, IntArray
from nodewise.graph.checks import UNKNOWN, checked_labels, checked_nodes
from nodewise.graph.graph import Graph

PARTS = ("train", "val", "test")
MOST_HELD_OUT = 10_000  # nodes to validate, and to test, of a user's own graph


class Split(NamedTuple):
    """Three sets of node ids, no node in two of them."""

    train: IntArray
    val: IntArray
    test: IntArray


# ---------------------------------------------------------------------- drawn


def random_splits(
    labels: AnyArray,
    count: int,
    per_class: int = 20,
    val: int = 500,
    test: int = 1000,
    seed: int = 0,
    label_names: Sequence[str] | None = None,
) -> list[Split]:
    """``count`` splits in the paper's protocol: ``per_class`` training nodes of each class, then ``val`` and ``test``.

    Only nodes with a known label are drawn; of a class with fewer than ``per_class``, half of its nodes train, and at
    least one. Split i depends on ``seed`` and i alone, so that more splits can be drawn later. ``label_names`` are for
    messages. Where a node has several labels, training takes ``per_class`` times the number of labels, at random.

    >>> import numpy as np
    >>> [part.size for part in random_splits(np.arange(100) % 2, count=1, per_class=5, val=20, test=30)[0]]
    [10, 20, 30]
    """
    _check_counts(count=count, per_class=per_class, val=val, test=test, seed=seed)
    array = checked_labels(labels, np.shape(labels)[0] if np.ndim(labels) else 0)
    if array is None:
        raise InputError("labels: none; splits are drawn among the nodes whose label is known")
    pools = _training_pools(array, per_class, label_names)
    labelled = np.sort(np.concatenate([pool for pool, _ in pools]))
    _check_enough(labelled.size, sum(take for _, take in pools), val, test)
    return [_draw(pools, labelled, val, test, np.random.default_rng([seed, i])) for i in range(count)]


def held_out_split(labels: AnyArray, seed: int = 0) -> Split:
    """A split of all nodes with a known label: of each class about a fifth to validate, a fifth to test.

    At most :data:`MOST_HELD_OUT` each. A class of one node is for training, the second node of a class is for testing,
    and so on in turn, so that classes of any size work; if all classes are tiny, the validation or test part is empty.
    Where a node has several labels, nodes are drawn whatever their labels.

    >>> import numpy as np
    >>> [part.size for part in held_out_split(np.arange(100) % 2)]
    [60, 20, 20]
    >>> [part.size for part in held_out_split(np.array([0, 1, 1, -1]))]
    [2, 0, 1]
    """
    _check_counts(seed=seed)
    known = np.flatnonzero(labels.any(axis=1) if labels.ndim == 2 else labels != UNKNOWN)
    if known.size == 0:
        raise InputError("labels: none is known; expected some nodes with a label to learn from")
    random = np.random.default_rng([seed, 0])
    nodes = random.permutation(known)
    classes = np.zeros(nodes.size, np.int64) if labels.ndim == 2 else labels[nodes]
    nodes = nodes[np.argsort(classes, kind="stable")]
    classes = np.sort(classes)
    turn = np.array([0, 2, 0, 1, 0])[(np.arange(nodes.size) - np.searchsorted(classes, classes)) % 5]
    train, val, test = (random.permutation(nodes[turn == part]) for part in range(3))
    spare = [part[MOST_HELD_OUT:] for part in (val, test)]
    train, val, test = np.concatenate([train, *spare]), val[:MOST_HELD_OUT], test[:MOST_HELD_OUT]
    return Split(np.sort(train), np.sort(val), np.sort(test))


def _training_pools(labels: AnyArray, per_class: int, names: Sequence[str] | None) -> list[tuple[IntArray, int]]:
    """Sets of nodes, and how many training nodes to draw from each."""
    if labels.ndim == 2:
        return [(np.flatnonzero(labels.any(axis=1)), per_class * labels.shape[1])]
    known = np.flatnonzero(labels != UNKNOWN)
    if known.size == 0:
        raise InputError("labels: all are -1, unknown; splits are drawn among the nodes whose label is known")
    classes, sizes = np.unique(labels[known], return_counts=True)
    rare = int((sizes < per_class).sum())
    if rare == classes.size:
        raise InputError(
            f"labels: all {classes.size:,} classes have fewer than per_class={per_class:,} nodes, the largest "
            f"{sizes.max():,}. Lower per_class (--per-class)"
        )
    if rare:
        least = int(sizes.argmin())
        smallest = classes[least] if names is None else names[classes[least]]
        warn(
            f"{rare:,} of {classes.size:,} classes have fewer than {per_class:,} nodes, the smallest, {smallest}, has "
            f"{sizes[least]:,}: half of the nodes of such a class are for training, and at least one"
        )
    takes = np.where(sizes < per_class, np.maximum(1, sizes // 2), per_class).tolist()
    return [(np.flatnonzero(labels == label), take) for label, take in zip(classes, takes, strict=True)]


def _draw(
    pools: list[tuple[IntArray, int]], labelled: IntArray, val: int, test: int, random: np.random.Generator
) -> Split:
    train = np.concatenate([random.choice(pool, take, replace=False) for pool, take in pools])
    rest = random.choice(np.setdiff1d(labelled, train), val + test, replace=False)
    return Split(np.sort(train), np.sort(rest[:val]), np.sort(rest[val:]))


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        low = 1 if name in ("count", "per_class") else 0
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise InputError(f"{name} is {value!r}; expected a whole number, {low} or more")


def _check_enough(labelled: int, train: int, val: int, test: int) -> None:
    if train + val + test > labelled:
        raise InputError(
            f"labels: {labelled:,} nodes have a known label, but {train:,} for training, {val:,} for validation and "
            f"{test:,} for testing make {train + val + test:,}. Lower per_class, val or test"
        )


# ---------------------------------------------------------------------- given


def tables_of_splits(splits: Sequence[Split]) -> dict[str, IntArray]:
    """A table for each part, a row for each split: what :func:`nodewise.formats.split_file.read_split_file` reads."""
    try:
        return {part: np.array([getattr(split, part) for split in splits], "<i8") for part in PARTS}
    except ValueError as error:
        raise InputError("splits: their sizes differ; expected as many nodes of each part in every split") from error


def digest_of_splits(splits: Sequence[Split]) -> str:
    """A SHA-256 that identifies these splits."""
    digest = hashlib.sha256()
    for part, table in tables_of_splits(splits).items():
        digest.update(f"{part} {table.shape}".encode() + table.tobytes())
    return digest.hexdigest()


def official_split(graph: Graph) -> Split:
    """The split that came with the data set."""
    missing = [part for part in PARTS if part not in graph.splits]
    if missing:
        raise InputError(
            f"{graph.name}: has no official split (no {', '.join(missing)}); expected the parts train, val and test. "
            f"Draw splits (--splits; in Python random_splits), or read them from a file (--split-file)"
        )
    return checked_split(f"{graph.name}: official split", graph.splits, graph.num_nodes)


def checked_split(where: str, parts: Mapping[str, AnyArray], num_nodes: int) -> Split:
    """Three sets of nodes that exist, no node in two of them; else an error that begins with ``where``."""
    split = Split(*(checked_nodes(parts[part], num_nodes, f"{where}, {part}") for part in PARTS))
    if not split.train.size:
        raise InputError(f"{where}: has no training node; expected some nodes to learn from")
    owner = np.full(num_nodes, -1, np.int8)
    for i, (part, nodes) in enumerate(zip(PARTS, split, strict=True)):
        taken = nodes[owner[nodes] >= 0]
        if taken.size:
            other = PARTS[owner[taken[0]]]
            raise InputError(f"{where}: node {taken[0]:,} is in {other} and in {part}; keep each node in one part")
        owner[nodes] = i
        ids, times = np.unique(nodes, return_counts=True)
        if ids.size != nodes.size:
            raise InputError(f"{where}, {part}: node {ids[times > 1][0]:,} is there twice; list each node once")
    return split
