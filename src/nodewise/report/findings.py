"""The numbers of a report: the graph, its labels, the score and where it is lost, and nodes to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from nodewise._util.errors import InputError
from nodewise._util.progress import Progress, silent
from nodewise._util.types import BoolArray, DoubleArray, FloatArray, IntArray
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.components import component_sizes
from nodewise.learn import ridge
from nodewise.learn.calibrate import best_scale, calibration_error
from nodewise.learn.metrics import macro_f1, wilson_interval
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.search import shift_of
from nodewise.learn.teach import class_targets
from nodewise.report.describe import edge_homophily, homophily_counts

LISTED = 15  # nodes in each list
MOST_PREDICTED = 100_000  # unlabelled nodes that are looked at, drawn at random
MOST_LEFT_OUT = 3000  # labelled nodes that are left out in turn, drawn at random
INFLUENTIAL = 0.1  # the share of nodes with the most neighbours, among which to label next
BINS = 10
DEGREES = (0, 1, 2, 4, 8, 16, 32, 64)  # where bins of numbers of neighbours begin
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


def find(model: NIGCN, graph: Graph, seed: int = 0, progress: Progress = silent) -> Findings:
    """Look at ``graph`` and at what ``model`` makes of it; nodes have one label each."""
    model._check_fitted()
    if model.multilabel_ or graph.multilabel:
        raise InputError("report: expected one label per node; this graph or model has several")
    if graph.labels is None:
        raise InputError(f"{graph.name} has no labels, so there is nothing to report; import it with --labels")
    learned = model.learned_from_
    if learned is not None and (learned.nodes, learned.edges) != (graph.num_nodes, graph.num_edges):
        raise InputError(
            f"{graph.name} has {graph.num_nodes:,} nodes and {graph.num_edges:,} edges; this model was trained on "
            f"{learned.graph}, with {learned.nodes:,} and {learned.edges:,}: its held-out nodes are others. Give the "
            f"graph that it was trained on"
        )
    names = [str(label) for label in model.classes_]
    nodes, proba, truth, words = _scored(model, graph)
    wrong = proba.argmax(1) != truth
    sure = proba.max(1) if nodes.size else np.zeros(0)
    progress("predictions", 0, None)
    to_label = _to_label(model, graph, names, seed)
    progress("labels left out in turn", 0, None)
    doubtful = _doubtful(model, graph, names, seed)
    progress("graph", 0, None)
    worst = np.flatnonzero(wrong)[np.argsort(-sure[wrong], kind="stable")][:LISTED]
    return Findings(
        graph.name,
        _graph_facts(graph),
        _label_facts(graph, model, names),
        words,
        share("micro-F1", ~wrong) if nodes.size else None,
        macro_f1(truth, proba.argmax(1)) if nodes.size else None,
        calibration_error(proba, truth) if nodes.size else None,
        _calibration(sure, ~wrong),
        _by_class(names, truth, proba.argmax(1)),
        _confusion(len(names), truth, proba.argmax(1)),
        _by_degree(graph, nodes, ~wrong),
        _by_distance(graph, nodes, ~wrong),
        _listed(graph, names, nodes[worst], truth[worst], proba[worst]),
        to_label,
        doubtful,
    )


def _scored(model: NIGCN, graph: Graph) -> tuple[IntArray, FloatArray, IntArray, str]:
    """Nodes with known labels from which the model did not learn, their probabilities and true classes, in words."""
    held = model.held_out_
    clean = held.chose_nothing if held.chose_nothing.any() else np.ones(held.nodes.size, bool)
    words = "held-out nodes that had no part in choosing the model"
    if not held.chose_nothing.any():
        words = "validation nodes, which chose the model: the score is somewhat too good"
    fits = held.nodes < graph.num_nodes
    kept = clean & fits
    return held.nodes[kept], held.proba[kept], np.asarray(held.labels[kept], np.int64), words


def _labels(graph: Graph) -> IntArray:
    assert graph.labels is not None  # :func:`find` has checked
    return graph.labels


def share(name: str, right: BoolArray, expected: float | None = None) -> Share:
    """The share of ``right`` and its interval."""
    low, high = wilson_interval(float(right.mean()), right.size)
    return Share(name, float(right.mean()), low, high, int(right.size), expected)


# ---------------------------------------------------------------------- the graph and its labels


def _graph_facts(graph: Graph) -> dict[str, Any]:
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
        "labelled": int((_labels(graph) != UNKNOWN).sum()),
        "homophily": edge_homophily(graph),
    }


def _label_facts(graph: Graph, model: NIGCN, names: list[str]) -> list[dict[str, Any]]:
    """Each class: how many nodes have it, and how many of their labelled neighbours too."""
    present = model.columns_of(graph, graph.present_labels).tolist()
    counts = dict(zip(present, zip(*homophily_counts(graph), strict=True), strict=True))
    columns, facts = model.columns_of(graph, _labels(graph)), []
    for place, name in enumerate(names):
        same, known = counts.get(place, (0, 0))
        nodes = int((columns == place).sum())
        facts.append({"label": name, "nodes": nodes, "homophily": float(same / known) if known else None})
    return facts


# ---------------------------------------------------------------------- where the score is lost


def _calibration(sure: DoubleArray, right: BoolArray) -> list[Share]:
    """How often the model is right among nodes of about the same confidence: bins of equally many nodes."""
    if sure.size == 0:
        return []
    bins = np.array_split(np.argsort(sure, kind="stable"), min(BINS, max(1, sure.size // 10)))
    return [share(f"{sure[b].min():.2f} to {sure[b].max():.2f}", right[b], float(sure[b].mean())) for b in bins]


def _by_class(names: list[str], truth: IntArray, predicted: IntArray) -> list[dict[str, Any]]:
    found = []
    for place, name in enumerate(names):
        hit, said, is_so = ((predicted == place) & (truth == place)).sum(), predicted == place, truth == place
        found.append(
            {
                "label": name,
                "precision": float(hit / said.sum()) if said.any() else None,
                "recall": float(hit / is_so.sum()) if is_so.any() else None,
                "support": int(is_so.sum()),
            }
        )
    return found


def _confusion(classes: int, truth: IntArray, predicted: IntArray) -> list[list[int]]:
    """For each true class (a row) how often each was predicted."""
    return np.bincount(truth * classes + predicted, minlength=classes**2).reshape(classes, classes).tolist()


def _by_degree(graph: Graph, nodes: IntArray, right: BoolArray) -> list[Share]:
    degrees = graph.indptr[nodes + 1] - graph.indptr[nodes] - 1
    bins = np.searchsorted(DEGREES, degrees, side="right") - 1
    names = [f"{low}" if high - low == 1 else f"{low} to {high - 1}" for low, high in pairwise(DEGREES)]
    return _in_bins([*names, f"{DEGREES[-1]} or more"], bins, right)


def _by_distance(graph: Graph, nodes: IntArray, right: BoolArray) -> list[Share]:
    """By hops to the nearest label that was known when the model answered."""
    sources = _labels(graph) != UNKNOWN
    sources[nodes] = False
    bins = np.minimum(hops_from(graph, sources)[nodes], FARTHEST) - 1
    names = ["1 hop", *(f"{hops} hops" for hops in range(2, FARTHEST)), f"{FARTHEST} or more, or none"]
    return _in_bins(names, bins, right)


def _in_bins(names: list[str], bins: IntArray, right: BoolArray) -> list[Share]:
    return [share(name, right[bins == i]) for i, name in enumerate(names) if (bins == i).any()]


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
    graph: Graph, names: list[str], nodes: IntArray, labels: IntArray | None, proba: FloatArray
) -> list[ListedNode]:
    found = []
    for i, node in enumerate(nodes.tolist()):
        said = int(proba[i].argmax())
        name = str(node) if graph.node_names is None else str(graph.node_names[node])
        degree = int(graph.indptr[node + 1] - graph.indptr[node] - 1)
        label = None if labels is None else names[int(labels[i])]
        found.append(ListedNode(name, degree, label, names[said], float(proba[i, said])))
    return found


def _to_label(model: NIGCN, graph: Graph, names: list[str], seed: int) -> list[ListedNode]:
    """The least certain among the unlabelled nodes that reach most others: their labels would teach most."""
    open_ = np.flatnonzero(_labels(graph) == UNKNOWN)
    if open_.size > MOST_PREDICTED:
        open_ = np.sort(np.random.default_rng(seed).choice(open_, MOST_PREDICTED, replace=False))
    if open_.size == 0:
        return []
    degrees = graph.indptr[open_ + 1] - graph.indptr[open_]
    count = min(open_.size, max(10 * LISTED, int(INFLUENTIAL * open_.size)))
    influential = np.sort(open_[np.argsort(-degrees, kind="stable")[:count]])
    proba = model.predict_proba(graph, influential)
    first = np.argsort(proba.max(1), kind="stable")[:LISTED]
    return _listed(graph, names, influential[first], None, proba[first])


def _doubtful(model: NIGCN, graph: Graph, names: list[str], seed: int) -> list[ListedNode]:
    """Labels that a ridge on all other labels contradicts, the surest contradiction first."""
    columns = model.columns_of(graph, _labels(graph))
    known = np.flatnonzero(columns >= 0)
    if known.size > MOST_LEFT_OUT:
        known = np.sort(np.random.default_rng(seed).choice(known, MOST_LEFT_OUT, replace=False))
    if known.size < 2 * len(names):
        return []
    labels = torch.from_numpy(columns[known])
    rows = torch.from_numpy(model.represent(graph, known))
    path = ridge.Path(rows, class_targets(labels, len(names)))
    said = path.left_out(shift_of(model.found_.penalty, known.size))
    scale, _ = best_scale(said, labels, None)
    proba = torch.softmax(said * scale, 1).numpy()
    own = proba[np.arange(known.size), labels.numpy()]
    gap = proba.max(1) - own
    first = np.argsort(-gap, kind="stable")[:LISTED]
    first = first[gap[first] > 0]
    return _listed(graph, names, known[first], labels.numpy()[first], proba[first])
