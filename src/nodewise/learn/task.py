"""The task: nodes and labels to learn from, checked, the graph that training sees, and features for graphs without."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.errors import InputError, warn
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.extended import ExtendedGraph
from nodewise.learn.matching import NodeSet
from nodewise.store import Names

NO_NODES = np.zeros(0, np.int64)
RANDOM_COLUMNS = 1024  # of the vectors of nodes that have no features


@dataclass(frozen=True)
class Classes:
    """The classes of the training and validation nodes; no other label is read.

    ``ids``: labels in order, or the columns of a 0/1 matrix where nodes have several labels (``multilabel``).
    """

    ids: IntArray
    multilabel: bool
    names: list[str] | None

    @classmethod
    def of(cls, graph: Graph, train: IntArray, val: IntArray) -> Classes:
        labels = graph.labels
        assert labels is not None  # checked
        names = None if graph.label_names is None else list(graph.label_names)
        if graph.multilabel:
            found, seen = np.arange(labels.shape[1]), np.flatnonzero(labels[train].any(0))
        else:
            found = np.unique(labels[np.concatenate([train, val])]).astype(np.int64)
            seen = np.unique(labels[train])
        classes = cls(found, graph.multilabel, names)
        if found.size == 1:
            warn(
                f"every label to learn from is {classes.labels[0]}, so every node will get it; check the labels and "
                f"the split"
            )
        missing = np.flatnonzero(~np.isin(found, seen))
        if missing.size:
            named = ", ".join(map(str, classes.labels[missing[:5]])) + (", …" if missing.size > 5 else "")
            warn(
                f"{missing.size} of {found.size} classes have no training node and will not be predicted reliably: "
                f"{named}"
            )
        return classes

    @property
    def labels(self) -> AnyArray:
        """What the classes are called: names, or numbers."""
        return self.ids if self.names is None else np.array(self.names, object)[self.ids]

    def columns_of(self, graph: Graph, labels: IntArray) -> IntArray:
        """The columns of labels of ``graph``, which may be another than training saw; -1 for those of no class.

        Labels are matched by name where they have names, and otherwise by number.
        """
        theirs = graph.label_names
        if (theirs is None) != (self.names is None):
            kinds = ("names", "numbers") if theirs is None else ("numbers", "names")
            raise InputError(
                f"{graph.name}: the classes of the model are {kinds[0]}, the labels of the graph {kinds[1]}, so they "
                f"cannot be matched; give the graph the labels that the model was trained with"
            )
        column = {label: place for place, label in enumerate(self.labels.tolist())}
        present, places = np.unique(labels, return_inverse=True)
        names = present.tolist() if theirs is None else [None if i == UNKNOWN else theirs[i] for i in present]
        return np.array([column.get(name, -1) for name in names], np.int64)[places]

    def check_kind(self, graph: Graph) -> None:
        """Raise unless the nodes of ``graph`` have as many labels, one or several, as those of training."""
        if graph.labels is not None and graph.multilabel != self.multilabel:
            kinds = "one label per node", "several labels per node"
            raise InputError(
                f"{graph.name} has {kinds[graph.multilabel]}, the model was trained with {kinds[self.multilabel]}; "
                f"expected the same kind"
            )

    def truth(self, graph: Graph, nodes: IntArray) -> tuple[AnyArray, IntArray, list[str]]:
        """The known labels of ``nodes`` as :attr:`ids`, all ids, and their names; labels of no class come last."""
        assert graph.labels is not None  # checked
        present = graph.present_labels
        column = self.columns_of(graph, present)
        new = column < 0
        column[new] = self.ids.size + np.arange(new.sum())
        ids = np.concatenate([self.ids, self.ids.max() + 1 + np.arange(new.sum())])
        names = [*map(str, self.labels), *names_of(graph, present[new])]
        given = graph.labels[nodes]
        if not graph.multilabel:
            return ids[column[np.searchsorted(present, given)]], ids, names
        truth = np.zeros((nodes.size, ids.size), np.int8)
        truth[:, column] = given
        return truth, ids, names

    def encoded(self, labels: AnyArray) -> torch.Tensor:
        """Labels as the loss takes them: places in ``ids``, or a 0/1 matrix."""
        if self.multilabel:
            return torch.from_numpy(labels.astype(np.float32))
        return torch.from_numpy(np.searchsorted(self.ids, labels).astype(np.int64))

    def proba(self, logits: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(logits) if self.multilabel else torch.softmax(logits, dim=1)

    def decoded(self, proba: FloatArray, threshold: float) -> AnyArray:
        """The most probable label; of several, all above the threshold (and, below 0.5, always the most probable)."""
        if not self.multilabel:
            return np.asarray(self.ids[proba.argmax(1)])
        chosen = proba > threshold
        if threshold < 0.5 and proba.shape[0]:
            chosen[np.arange(proba.shape[0]), proba.argmax(1)] = True
        return chosen.astype(np.int8)


@dataclass(frozen=True)
class Task:
    """Nodes to learn from and nodes to predict (``asked``); ``val`` may be empty.

    ``part``: in inductive training, the nodes whose subgraph training sees.
    """

    graph: Graph
    train: IntArray
    val: IntArray
    asked: IntArray
    part: IntArray | None = None

    @property
    def inductive(self) -> bool:
        return self.part is not None

    @classmethod
    def checked(
        cls, graph: Graph, train: AnyArray, val: AnyArray | None, asked: AnyArray, inductive: bool, part: Any
    ) -> Task:
        """A task from user input; raises an error that says what is wrong."""
        nodes = check_learned(graph, train, val)
        if part is not None and not inductive:
            raise InputError("part: only inductive training has one; pass inductive=True too, or leave it out")
        wanted = graph.nodes(asked)
        inside = training_part(graph, nodes[0], part) if inductive else None
        return cls(graph, nodes[0], nodes[1], wanted, inside)

    def labels(self, nodes: IntArray) -> AnyArray:
        assert self.graph.labels is not None  # checked
        return self.graph.labels[nodes]

    def seen(self, nodes: IntArray) -> tuple[Graph, IntArray]:
        """The graph that training sees, and where ``nodes`` are in it."""
        if self.part is None:
            return self.graph, nodes
        return self.graph.subgraph(self.part), np.searchsorted(self.part, nodes)

    def unlabelled(self, most: int, seed: int, tested: IntArray = NO_NODES) -> IntArray:
        """At most ``most`` nodes that training sees without their labels; ``tested`` are learned from later."""
        count, known = self.graph.num_nodes if self.part is None else self.part.size, [self.train, self.val, tested]
        some = min(count, most + sum(nodes.size for nodes in known))  # enough are left without the known ones
        places = np.random.default_rng(seed).choice(count, some, replace=False)
        nodes = places if self.part is None else self.part[places]
        return nodes[~np.isin(nodes, np.concatenate(known))][:most]


@dataclass(frozen=True)
class LearnedFrom:
    """The graph that a model learned from, and its nodes that trained or chose the model.

    ``keys``: ids or, where nodes have names, hashes of these, which are the same in any copy of the graph.
    ``features``: columns, 0 where random vectors took their place.
    """

    graph: str
    nodes: int
    edges: int
    features: int
    named: bool
    keys: IntArray

    @classmethod
    def of(cls, graph: Graph, *nodes: IntArray) -> LearnedFrom:
        features = 0 if random_nodes(graph) is not None else graph.num_features
        keys = np.unique(_node_keys(graph, np.concatenate(nodes)))
        return cls(graph.name, graph.num_nodes, graph.num_edges, features, graph.node_names is not None, keys)

    def includes(self, graph: Graph, nodes: IntArray) -> BoolArray:
        """Which of ``nodes`` the model learned from; ids of a graph of another size say nothing about that."""
        comparable = self.named if graph.node_names is not None else not self.named and self.nodes == graph.num_nodes
        if not comparable:
            warn(
                f"{graph.name} is not the graph that the model learned from ({self.graph}, {self.nodes:,} nodes), so "
                f"all its labels are used; if it holds nodes of that graph, scores may be too good"
            )
            return np.zeros(nodes.size, bool)
        return np.isin(_node_keys(graph, nodes), self.keys)


def _node_keys(graph: Graph, nodes: IntArray) -> IntArray:
    names = graph.node_names
    if names is None:
        return nodes
    words = names.take(nodes).to_pylist() if isinstance(names, Names) else [names[node] for node in nodes]
    hashes = b"".join(hashlib.blake2b(word.encode(), digest_size=8).digest() for word in words)
    return np.frombuffer(hashes, "<i8").astype(np.int64)


def check_learned(graph: Graph, train: AnyArray, val: AnyArray | None = None) -> tuple[IntArray, IntArray]:
    """The nodes to learn from, training and validation, checked; without validation nodes these are none."""
    check_graph(graph)
    learned = graph.nodes(train, "train")
    if learned.size == 0:
        raise InputError("train: no training node; expected at least one with a known label")
    known_labels(graph, learned, "train")
    if val is None:
        return learned, NO_NODES
    judges = graph.nodes(val, "val")
    if judges.size == 0:
        raise InputError("val: no validation node; leave val out to train without")
    known_labels(graph, judges, "val")
    both = np.intersect1d(learned, judges)
    if both.size:
        raise InputError(
            f"val: node {shown(graph, both[0])} is in train too; validation nodes must not be training nodes"
        )
    return learned, judges


def check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise InputError(
            f"graph: a {type(graph).__name__}; expected a nodewise.Graph, as Graph.from_edges(edge_index, "
            f"features=X, labels=y) makes, and then the training nodes"
        )


def featured(graph: Graph) -> Graph:
    """The graph or, where it has no features, with random vectors in their place: see :func:`random_vectors`.

    Diffused, they tell which nodes are near (Chen et al., "Fast and Accurate Network Embeddings via Very Sparse Random
    Projection", CIKM 2019).
    """
    if graph.features is not None:
        return graph
    if isinstance(graph, ExtendedGraph):
        below = featured(graph.base)  # new nodes have no vector: they are told by their neighbours
        found = graph.over(below, sp.csr_matrix((graph.new_nodes.size, below.num_features), dtype=np.float32))
        found._cache(random_nodes=random_nodes(below))
        return found
    if "featured" not in graph.__dict__:
        keys = name_keys(graph)
        graph._cache(featured=graph.replace(features=random_vectors(graph, keys)))
        graph.__dict__["featured"]._cache(random_nodes=NodeSet.of(graph, keys))
    return cast(Graph, graph.__dict__["featured"])


def random_nodes(graph: Graph) -> NodeSet | None:
    """The nodes to which :func:`featured` gave their features; None where the graph has its own."""
    return graph.__dict__.get("random_nodes")


def name_keys(graph: Graph) -> AnyArray | None:
    """A hash of each node's name."""
    if graph.node_names is None:
        return None
    return np.fromiter((zlib.crc32(str(name).encode()) for name in graph.node_names), np.uint64, graph.num_nodes)


def random_vectors(graph: Graph, keys: AnyArray | None) -> sp.csr_matrix:
    """One number per node; its column, one of :data:`RANDOM_COLUMNS`, and its sign are a hash of the node's name or id.

    The number's size is the root of the node's degree (unless a norm makes all equal): otherwise a node that many
    others reach would be lost among the nodes that share its column. ``keys``: what :func:`name_keys` gives.
    """
    keys = np.arange(graph.num_nodes, dtype=np.uint64) if keys is None else keys
    keys = keys * np.uint64(0x9E3779B97F4A7C15)  # splitmix64: neighbouring ids land anywhere
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    keys ^= keys >> np.uint64(31)
    sign = 1 - 2 * (keys >> np.uint64(63)).astype(np.float32)
    columns = (keys % np.uint64(RANDOM_COLUMNS)).astype(np.int32)
    numbers = sign * np.sqrt(graph.degrees).astype(np.float32)
    return sp.csr_matrix((numbers, columns, np.arange(graph.num_nodes + 1)), shape=(graph.num_nodes, RANDOM_COLUMNS))


def check_features(graph: Graph) -> None:
    if graph.features is None:
        raise InputError(
            f"{graph.name} has no features to diffuse. Give it some, or let each node be its own feature: "
            f"graph.replace(features=scipy.sparse.identity(graph.num_nodes, format='csr'))"
        )
    if graph.num_features == 0:
        raise InputError(f"{graph.name} has features of no columns; expected at least one")


def training_part(graph: Graph, train: IntArray, part: AnyArray | None) -> IntArray:
    """The nodes that inductive training sees: ``part``, or the official ones, or the training nodes alone."""
    if part is None:
        official = graph.splits.get("train", train)
        part = official if np.isin(train, official).all() else train
    inside: IntArray = np.unique(graph.nodes(part, "part"))
    if inside.size == 0:
        raise InputError("part: no node; expected the nodes of the training part, the training nodes among them")
    outside = ~np.isin(train, inside)
    if outside.any():
        raise InputError(
            f"train: node {shown(graph, train[outside][0])} is not in the training part; expected every one there"
        )
    return inside


def known_labels(graph: Graph, nodes: IntArray, what: str) -> AnyArray:
    """The labels of ``nodes``, all of which must be known."""
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels; {what} needs them")
    labels: AnyArray = graph.labels[nodes]
    if labels.ndim == 1 and (unknown := np.flatnonzero(labels == UNKNOWN)).size:
        node = shown(graph, nodes[unknown[0]])
        raise InputError(f"{what}: the label of node {node} is not known; expected labelled nodes")
    return labels


def shown(graph: Graph, node: int) -> str:
    """A node in a message: its name, or its id."""
    return f"{node:,}" if graph.node_names is None else repr(graph.node_names[node])


def names_of(graph: Graph, labels: IntArray) -> list[str]:
    """Labels of ``graph`` in words."""
    return [str(label) if graph.label_names is None else graph.label_names[label] for label in labels.tolist()]


def widened(rows: AnyArray, columns: int) -> AnyArray:
    """A matrix with columns of zeros up to ``columns``: labels that a model does not know are never predicted."""
    return rows if rows.ndim == 1 else np.pad(rows, ((0, 0), (0, columns - rows.shape[1])))


def drawn(count: int, most: int, seed: int) -> Any:
    """Which of ``count`` nodes or rows to take: all or, of more than ``most``, so many drawn at random, in order."""
    if count <= most:
        return slice(None)  # without a copy
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def nodes_or_all(graph: Graph, nodes: AnyArray | None) -> IntArray:
    return np.arange(graph.num_nodes) if nodes is None else graph.nodes(nodes)


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None) -> None:
    """Raise unless ``value`` is a whole number of at least ``least`` and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name}={value!r}: expected a whole number of at least {least}")
    if most is not None and value > most:
        raise InputError(f"{name}={value!r}: expected a whole number of at most {most:,}")
