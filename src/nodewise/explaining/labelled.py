"""The labelled nodes behind a prediction: those with similar rows, and what each adds where ridges vote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from nodewise._util.types import DoubleArray, FloatArray, IntArray
from nodewise.explaining.explanation import LabelledShare, NamedNode, Rest, Ridge, SimilarNode
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.features import normalize
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.task import NO_NODES, drawn, names_of

SMALL = 200_000  # nodes of a graph in which exact weights are affordable for one node
SIMILAR, COMPARED, COMPARED_BYTES = 5, 500, 1 << 28  # similar nodes listed; nodes compared, and bytes of their rows
COMPARED_EPSILON = 0.02  # of their rows: enough to tell which are near
EXACT_WORK = 1 << 28  # adjacency entries times features, up to which rows of these nodes are exact


def named(graph: Graph, nodes: IntArray) -> list[NamedNode]:
    """The nodes with their names and known labels."""
    names = [None if graph.node_names is None else str(graph.node_names[node]) for node in nodes.tolist()]
    return [NamedNode(*one) for one in zip(nodes.tolist(), names, known_labels(graph, nodes), strict=True)]


def known_labels(graph: Graph, nodes: IntArray) -> list[list[str]]:
    """The labels that the graph gives each node, in words."""
    if graph.labels is None:
        return [[] for _ in nodes]
    labels = np.asarray(graph.labels[nodes])
    if graph.multilabel:
        return [names_of(graph, np.flatnonzero(row == 1)) for row in labels]
    return [[] if label == UNKNOWN else names_of(graph, np.array([label])) for label in labels]


def as_pair(values: DoubleArray) -> tuple[float, float | None]:
    """What is added to the logit and, where there is a runner-up, to the margin over it."""
    return float(values[0]), float(values[1]) if values.size > 1 else None


def similar_nodes(
    model: NIGCN, maker: DiffusedRows, graph: Graph, node: int, row: FloatArray
) -> list[SimilarNode] | None:
    """Of the nodes that the model learned from, at most :data:`COMPARED`, those with the most similar rows."""
    nodes = _learned_nodes(model, graph)
    nodes = nodes[nodes != node]
    if nodes.size == 0:
        return None
    most = max(1, min(COMPARED, COMPARED_BYTES // (4 * row.size)))
    nodes = nodes[drawn(nodes.size, most, 0)]
    if maker.params.engine != "exact" or _too_large(graph):
        maker = maker.changed(engine="stratified", epsilon=COMPARED_EPSILON)
    cosines = normalize(maker.rows(graph, nodes), "l2") @ normalize(row[None], "l2")[0]
    first = np.argsort(-cosines, kind="stable")[:SIMILAR]
    return [
        SimilarNode(**vars(v), similarity=float(c))
        for v, c in zip(named(graph, nodes[first]), cosines[first], strict=True)
    ]


def _too_large(graph: Graph) -> bool:
    return graph.num_entries * graph.num_features > EXACT_WORK


def _learned_nodes(model: NIGCN, graph: Graph) -> IntArray:
    """The nodes that the model learned from, found without a look at all nodes of a large graph."""
    learned = model.learned_from_
    if learned is None or graph.labels is None or learned.named != (graph.node_names is not None):
        return NO_NODES
    if not learned.named:
        nodes = learned.keys if learned.nodes == graph.num_nodes else NO_NODES
    else:
        held = model.held_out_.nodes
        some = [held[held < graph.num_nodes], *graph.splits.values()]
        nodes = np.arange(graph.num_nodes) if graph.num_nodes <= SMALL else np.unique(np.concatenate(some))
    labels = np.asarray(graph.labels[nodes])
    nodes = nodes[labels.any(1) if graph.multilabel else labels != UNKNOWN]
    return nodes[learned.includes(graph, nodes)] if learned.named else nodes


# ---------------------------------------------------------------------- shares of the ridges


def ridge_shares(
    model: NIGCN, maker: DiffusedRows, graph: Graph, row: FloatArray, columns: list[int], top: int
) -> Ridge | None:
    """What each labelled node adds to the ridges' part of the logit (and of the margin), exactly.

    A ridge answers ``f(z) = sum over labelled i of (z z_i + 1) alpha_i``. ``columns``: the class and the runner-up.
    None where no ridge votes, where the model keeps no alpha, or where their rows are not those of training.
    """
    kept, learned = model.ridge_shares_, model.learned_from_
    if kept is None or learned is None or (maker.params.engine == "exact" and _too_large(graph)):
        return None
    here = graph.num_nodes, graph.num_edges, graph.node_names is not None
    known = here == (learned.nodes, learned.edges, learned.named) and kept.nodes.max(initial=0) < graph.num_nodes
    if not known or not learned.includes(graph, kept.nodes).all() or not any(m.ridge for m in model.members_):
        return None
    diffused = slice(graph.num_features)  # a ridge does not see own features
    rows = replace(maker, own=False).rows(graph, kept.nodes).astype(np.float64)
    alike = rows @ row[diffused].astype(np.float64) + 1
    shares = _with_margin(alike[:, None] * kept.duals / model.temperature_, columns)
    total = _with_margin(_logits_of_ridges(model, row)[None], columns)[0]
    order = np.argsort(-np.abs(shares[:, 0]), kind="stable")
    listed = [
        LabelledShare(**vars(v), contribution=part[0], margin=part[1])
        for v, part in zip(named(graph, kept.nodes[order[:top]]), map(as_pair, shares[order[:top]]), strict=True)
    ]
    votes = sum(vote for vote, member in zip(model.votes_, model.members_, strict=True) if member.ridge)
    rest = Rest(order.size - len(listed), *as_pair(shares[order[top:]].sum(0)))
    return Ridge(votes, *as_pair(total), listed, rest, *as_pair(total - shares.sum(0)))


def _with_margin(values: DoubleArray, columns: list[int]) -> DoubleArray:
    """The values of a class and, where there is a runner-up, their lead over its values."""
    first = values[:, columns[0]]
    return np.stack([first, *(first - values[:, other] for other in columns[1:])], 1)


@torch.no_grad()
def _logits_of_ridges(model: NIGCN, row: FloatArray) -> DoubleArray:
    """The ridges' part of the logits: they are the first members of an ensemble."""
    groups = list(model.networks_.groups)[: sum(member.ridge for member in model.members_)]  # type: ignore[arg-type]
    point = torch.from_numpy(row).to(groups[0].weights[0].device)[None]
    logits = torch.stack([group(point).sum(0) for group in groups]).sum(0)[0] / model.temperature_
    return logits.double().cpu().numpy()
