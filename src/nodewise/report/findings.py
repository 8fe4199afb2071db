"""The numbers of a report: the graph, its labels, the score and where it is lost, and nodes to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nodewise._util.errors import InputError
from nodewise._util.progress import Progress, silent
from nodewise._util.types import AnyArray, BoolArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.components import component_sizes
from nodewise.learn import ridge
from nodewise.learn.calibrate import answers, best_scale, calibration_error
from nodewise.learn.evaluate import by_class
from nodewise.learn.metrics import macro_f1, micro_f1, micro_f1_interval, wilson_interval
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.search import shift_of
from nodewise.learn.task import drawn
from nodewise.learn.teach import class_targets
from nodewise.report.describe import edge_homophily, homophily_counts, label_matrix

LISTED = 15  # nodes in each list
MOST_PREDICTED = 100_000  # unlabelled nodes that are looked at, drawn at random
MOST_LEFT_OUT = 3000  # labelled nodes that are left out in turn, drawn at random
INFLUENTIAL = 0.1  # the share of nodes with the most neighbours, among which to label next
BINS = 10
DEGREES = (0, 1, 2, 4, 8, 16, 32, 64)  # where bins of numbers of neighbours begin
HALF = 0.5
FARTHEST = 4  # hops to the nearest label that are told apart


@dataclass(frozen=True)
class Share:
    """A share of ``count`` nodes, with its 95% interval (Wilson)."""

    name: str
    value: float
    low: float
    high: float
    count: int
    expected: float | None = None


@dataclass(frozen=True)
class ListedNode:
    """A node in a list: its name, its label if it has one, what the model says, and how sure it is."""

    node: str
    neighbours: int
    label: str | None
    predicted: str
    probability: float


@dataclass(frozen=True)
class Findings:
    """All that a report shows. ``scored_on``: in words, the nodes that the scores are from."""

    name: str
    graph: dict[str, Any]
    labels: list[dict[str, Any]]
    scored_on: str
    micro_f1: Share | None
    macro_f1: float | None
    calibration_error: float | None
    calibration: list[Share]
    classes: list[dict[str, Any]]
    confusion: list[list[int]]
    by_degree: list[Share]
    by_distance: list[Share]
    mistakes: list[ListedNode]
    to_label: list[ListedNode]
    doubtful: list[ListedNode]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Scored:
    """Labelled nodes that the model did not learn from: what it says, what it decides, and what is true.

    ``said``, ``truth``: columns of the model or, where nodes have several labels, 0/1 matrices.
    """

    nodes: IntArray
    proba: FloatArray
    said: AnyArray
    truth: AnyArray

    def share(self, name: str, rows: Any = slice(None)) -> Share:
        """Micro-F1 of some of the nodes, and its interval; of single labels that is the share that is right."""
        truth, said = self.truth[rows], self.said[rows]
        low, high = micro_f1_interval(truth, said)
        return Share(name, micro_f1(truth, said), low, high, int(truth.shape[0]))


def find(model: NIGCN, graph: Graph, progress: Progress = silent) -> Findings:
    """Look at ``graph`` and at what ``model`` makes of it."""
    model._check_fitted()
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels, so there is nothing to report; import it with --labels")
    model._classes.check_kind(graph)
    names, truth = [str(label) for label in model.classes_], _truth(model, graph)
    progress("predictions", 0, None)
    scored, words = _scored(model, graph, truth)
    to_label = _to_label(model, graph, names)
    progress("labels left out in turn", 0, None)
    doubtful = _doubtful(model, graph, names, truth)
    progress("graph", 0, None)
    some = scored.nodes.size > 0
    classes, confusion = by_class(np.arange(len(names)), names, scored.truth, scored.said)
    return Findings(
        graph.name,
        _graph_facts(graph, truth),
        _label_facts(graph, model, names, truth),
        words,
        scored.share("micro-F1") if some else None,
        macro_f1(scored.truth, scored.said) if some else None,
        calibration_error(scored.proba, scored.truth) if some else None,
        _calibration(*answers(scored.proba, scored.truth)),
        [asdict(one) for one in classes],
        confusion or [],
        _by_degree(graph, scored),
        _by_distance(graph, scored, truth),
        _contradicted(graph, names, scored.nodes, scored.proba, scored.truth),
        to_label,
        doubtful,
    )


def _truth(model: NIGCN, graph: Graph) -> sp.csr_matrix:
    """The labels of all nodes as a 0/1 matrix with the model's columns; labels that it does not know are left out."""
    labels = label_matrix(graph)
    columns = model.columns_of(graph, graph.present_labels)
    known = np.flatnonzero(columns >= 0)
    placing = (np.ones(known.size, np.int32), (known, columns[known]))
    return sp.csr_matrix(labels @ sp.csr_matrix(placing, (columns.size, model.classes_.size)))


def _scored(model: NIGCN, graph: Graph, truth: sp.csr_matrix) -> tuple[Scored, str]:
    """Nodes with known labels from which the model did not learn, and in words which these are."""
    labelled, learned, held = np.flatnonzero(np.diff(truth.indptr)), model.learned_from_, model.held_out_
    fresh = labelled if learned is None else labelled[~learned.includes(graph, labelled)]
    if learned is not None and fresh.size:
        fresh = fresh[drawn(fresh.size, MOST_PREDICTED, 0)]
        nodes, proba, words = fresh, model.predict_proba(graph, fresh), "labelled nodes that it did not learn from"
    else:
        if learned is not None and (learned.nodes, learned.edges) != (graph.num_nodes, graph.num_edges):
            raise InputError(
                f"{graph.name} has {graph.num_nodes:,} nodes, {graph.num_edges:,} edges and no label that is new to "
                f"the model, which learned from {learned.graph}, with {learned.nodes:,} and {learned.edges:,}; give "
                f"that graph, or one with more labels"
            )
        kept = held.cleanest & (held.nodes < graph.num_nodes)
        nodes, proba = held.nodes[kept], held.proba[kept]
        words = "held-out nodes that had no part in choosing the model"
        if not held.chose_nothing.any():
            words = "validation nodes, which chose the model: the score is somewhat too good"
    said = model.labels_of_proba(proba) if model.multilabel_ else proba.argmax(1)
    return Scored(nodes, proba, said, _as_scored(truth[nodes], model.multilabel_)), words


def _as_scored(truth: sp.csr_matrix, several: bool) -> AnyArray:
    """Labels as scores take them: columns or, where nodes have several, a 0/1 matrix."""
    matrix: AnyArray = truth.toarray()
    return matrix if several else matrix.argmax(1)


# ---------------------------------------------------------------------- the graph and its labels


def _graph_facts(graph: Graph, truth: sp.csr_matrix) -> dict[str, Any]:
    degrees = np.diff(graph.indptr) - 1
    sizes = component_sizes(graph.indptr, graph.indices)
    edges = [0, *(1 << np.arange(0, int(max(1, degrees.max())).bit_length() + 1))]
    counts = np.histogram(degrees, edges)[0]
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "mean_neighbours": float(degrees.mean()),
        "without_neighbours": int((degrees == 0).sum()),
        "components": int(sizes.size),
        "largest_component": int(sizes.max()),
        "neighbours": [(int(edges[i]), int(edges[i + 1]) - 1, int(n)) for i, n in enumerate(counts)],
        "labelled": int((np.diff(truth.indptr) > 0).sum()),
        "labels": int(truth.nnz),
        "homophily": edge_homophily(graph),
    }


def _label_facts(graph: Graph, model: NIGCN, names: list[str], truth: sp.csr_matrix) -> list[dict[str, Any]]:
    """Each class: how many nodes have it, and how many of their labelled neighbours too."""
    present = model.columns_of(graph, graph.present_labels).tolist()
    counts = dict(zip(present, zip(*homophily_counts(graph), strict=True), strict=True))
    nodes, facts = np.asarray(truth.sum(0)).ravel().tolist(), []
    for place, name in enumerate(names):
        same, known = counts.get(place, (0, 0))
        facts.append({"label": name, "nodes": nodes[place], "homophily": float(same / known) if known else None})
    return facts


# ---------------------------------------------------------------------- where the score is lost


def _calibration(sure: AnyArray, right: AnyArray) -> list[Share]:
    """How often the model is right among answers of about the same confidence: bins of equally many answers."""
    if sure.size == 0:
        return []
    found = []
    for rows in np.array_split(np.argsort(sure, kind="stable"), min(BINS, max(1, sure.size // 10))):
        value = float(right[rows].mean())
        low, high = wilson_interval(value, rows.size)
        name = f"{sure[rows].min():.2f} to {sure[rows].max():.2f}"
        found.append(Share(name, value, low, high, rows.size, float(sure[rows].mean())))
    return found


def _by_degree(graph: Graph, scored: Scored) -> list[Share]:
    degrees = graph.indptr[scored.nodes + 1] - graph.indptr[scored.nodes] - 1
    bins = np.searchsorted(DEGREES, degrees, side="right") - 1
    names = [f"{low}" if high - low == 1 else f"{low} to {high - 1}" for low, high in pairwise(DEGREES)]
    return _in_bins([*names, f"{DEGREES[-1]} or more"], bins, scored)


def _by_distance(graph: Graph, scored: Scored, truth: sp.csr_matrix) -> list[Share]:
    """By hops to the nearest label that was known when the model answered."""
    sources = np.diff(truth.indptr) > 0
    sources[scored.nodes] = False
    bins = np.minimum(hops_from(graph, sources)[scored.nodes], FARTHEST) - 1
    names = ["1 hop", *(f"{hops} hops" for hops in range(2, FARTHEST)), f"{FARTHEST} or more, or none"]
    return _in_bins(names, bins, scored)


def _in_bins(names: list[str], bins: IntArray, scored: Scored) -> list[Share]:
    return [scored.share(name, bins == i) for i, name in enumerate(names) if (bins == i).any()]


def hops_from(graph: Graph, sources: BoolArray, farthest: int = FARTHEST) -> IntArray:
    """For each node the hops to the nearest of ``sources``; ``farthest`` where it is that far or farther."""
    hops = np.where(sources, 0, farthest)
    adjacency = graph.to_scipy()
    reached = sources.astype(np.float64)
    for hop in range(1, farthest):
        reached = adjacency @ (reached > 0)
        hops[(reached > 0) & (hops == farthest)] = hop
    return hops


# ---------------------------------------------------------------------- nodes to look at


def _listed(
    graph: Graph, nodes: IntArray, labels: Sequence[str | None], said: Sequence[str], sure: FloatArray
) -> list[ListedNode]:
    found = []
    for node, label, predicted, probability in zip(nodes.tolist(), labels, said, sure.tolist(), strict=True):
        name = str(node) if graph.node_names is None else str(graph.node_names[node])
        degree = int(graph.indptr[node + 1] - graph.indptr[node] - 1)
        found.append(ListedNode(name, degree, label, predicted, probability))
    return found


def _contradicted(
    graph: Graph, names: list[str], nodes: IntArray, proba: FloatArray, truth: AnyArray
) -> list[ListedNode]:
    """Nodes whose known label is not the most probable, the surest first; of several labels, a node and one of them."""
    if truth.ndim == 1:
        said, sure = proba.argmax(1), proba.max(1, initial=0)
        wrong = np.flatnonzero(said != truth)
        first = wrong[np.argsort(-sure[wrong], kind="stable")][:LISTED]
        labels = [names[place] for place in truth[first]]
        return _listed(graph, nodes[first], labels, [names[place] for place in said[first]], sure[first])
    gap = np.where(truth == 1, 1 - proba, proba)
    first = np.argsort(-gap, axis=None, kind="stable")[:LISTED]
    rows, places = np.unravel_index(first[gap.ravel()[first] > HALF], gap.shape)
    known, said = [], []
    for row, place in zip(rows, places, strict=True):
        words = names[place], f"not {names[place]}"
        known.append(words[1 - truth[row, place]])
        said.append(words[truth[row, place]])
    return _listed(graph, nodes[rows], known, said, gap[rows, places])


def _to_label(model: NIGCN, graph: Graph, names: list[str]) -> list[ListedNode]:
    """The least certain among the unlabelled nodes that reach most others: their labels would teach most."""
    open_ = np.flatnonzero(np.diff(label_matrix(graph).indptr) == 0)
    open_ = open_[drawn(open_.size, MOST_PREDICTED, 0)]
    if open_.size == 0:
        return []
    degrees = graph.indptr[open_ + 1] - graph.indptr[open_]
    count = min(open_.size, max(10 * LISTED, int(INFLUENTIAL * open_.size)))
    influential = np.sort(open_[np.argsort(-degrees, kind="stable")[:count]])
    proba = model.predict_proba(graph, influential)
    certainty = np.abs(proba - HALF).mean(1) if model.multilabel_ else proba.max(1)
    first = np.argsort(certainty, kind="stable")[:LISTED]
    said = [names[place] for place in proba[first].argmax(1)]
    return _listed(graph, influential[first], [None] * first.size, said, proba[first].max(1))


def _doubtful(model: NIGCN, graph: Graph, names: list[str], truth: sp.csr_matrix) -> list[ListedNode]:
    """Labels that a ridge on all other labels contradicts, the surest contradiction first."""
    known = np.flatnonzero(np.diff(truth.indptr))
    known = known[drawn(known.size, MOST_LEFT_OUT, 0)]
    if known.size < 2 * len(names):
        return []
    given = _as_scored(truth[known], model.multilabel_)
    labels = torch.from_numpy(given.astype(np.float32) if model.multilabel_ else given)
    targets = class_targets(labels, len(names))
    said = ridge.Path(torch.from_numpy(model.represent(graph, known)), targets).left_out(
        shift_of(model.found_.penalty, known.size)
    )
    offset = torch.logit(labels.double().mean(0), 1e-6) if model.multilabel_ else torch.zeros(())
    scale, _ = best_scale(said, labels, None, offset)
    logits = offset + said * scale
    proba = (torch.sigmoid(logits) if model.multilabel_ else torch.softmax(logits, 1)).numpy()
    return _contradicted(graph, names, known, proba, given)
