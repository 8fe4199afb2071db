"""``explain(model, graph, node)``, the entry point: checks, takes the prediction apart, and lists the largest parts."""

from __future__ import annotations

import difflib
from pathlib import Path

import numpy as np

from nodewise._util.errors import InputError
from nodewise._util.types import DoubleArray, FloatArray, IntArray
from nodewise.explaining.explanation import (
    Explanation,
    FeatureShare,
    Flip,
    LabelShare,
    Neighbour,
    Rest,
)
from nodewise.explaining.flip import find_flip, predicted_columns
from nodewise.explaining.labelled import SMALL, as_pair, named, ridge_shares, similar_nodes
from nodewise.explaining.neighbourhood import edges_among, hops_from
from nodewise.explaining.parts import Summed, by_feature, by_neighbour, linear_around, sum_around
from nodewise.graph import Graph
from nodewise.graph.checks import UNKNOWN
from nodewise.learn.nigcn import NIGCN
from nodewise.learn.rows import DiffusedRows
from nodewise.learn.task import check_graph, check_whole, featured, names_of, random_nodes

DRAWN = 60  # neighbours in the picture


def explain(
    model: str | Path | NIGCN, graph: Graph, node: int | str, class_: str | int | None = None, top: int = 20
) -> Explanation:
    """Why ``model`` (or the one saved at a path) gives ``node``, an id or a name, the label that it does.

    ``class_``: the class to explain, by default the predicted one. ``top``: how many neighbours and features to list.
    The parts sum to the logit. Nothing is approximated but the weights of neighbours, where the engine samples them.

    >>> import nodewise as nw
    >>> g = nw.synthetic.dcsbm(500, avg_degree=10, classes=3, features=16, seed=0)
    >>> m = nw.NIGCN(seed=0).fit(g, train=range(60), val=range(60, 120))
    >>> why = nw.explain(m, g, 300, top=3)
    >>> parts = [v.contribution for v in why.neighbours] + [why.rest.contribution, why.bias]
    >>> abs(sum(parts) - why.logit) < 1e-4
    True
    """
    if isinstance(model, str | Path):
        model = NIGCN.load(model)
    if not isinstance(model, NIGCN):
        raise InputError(f"model: a {type(model).__name__}; expected a nodewise.NIGCN, or the folder of a saved one")
    model._check_fitted()
    check_graph(graph)
    if graph.base is not graph:
        raise InputError("graph: has new nodes laid over it; explain a node of the graph itself, or append them to it")
    check_whole("top", top)
    place, graph = _node_id(graph, node), featured(graph)
    own_maker = model.maker_on(graph).settled(graph, np.array([place]))
    sampled_instead = own_maker.params.engine == "exact" and graph.num_nodes > SMALL
    maker = own_maker.changed(engine="stratified") if sampled_instead else own_maker

    summed = sum_around(maker, graph, place)
    proba = model.proba_of_rows(summed.row[None])
    classes = [str(label) for label in model.classes_]
    column = int(proba[0].argmax()) if class_ is None else _class_column(classes, str(class_))
    ranked = np.argsort(-proba[0], kind="stable").tolist()
    second = None if model.multilabel_ else next((other for other in ranked if other != column), None)
    linear = linear_around(model, summed.row, column, second)
    added = by_neighbour(maker, graph, place, summed, linear)

    order = np.argsort(-np.abs(added[:, 0]), kind="stable")
    centre = int(np.searchsorted(summed.nodes, place))
    picture = [centre, *order[order != centre][:DRAWN].tolist()]
    listed = order[:top].tolist()
    wanted = np.unique([*picture, *listed])
    found = dict(zip(wanted.tolist(), _neighbours(graph, place, summed, added, wanted), strict=True))
    features, others = _features(maker, graph, by_feature(maker, graph, summed, linear), top)
    logit, bias = as_pair(linear.values), as_pair(linear.biases)
    columns = [column] if second is None else [column, second]
    return Explanation(
        **vars(named(graph, np.array([place]))[0]),
        graph=graph.name,
        probabilities={classes[i]: float(proba[0, i]) for i in ranked},
        predicted=_predicted(model, classes, proba),
        class_=classes[column],
        runner_up=None if second is None else classes[second],
        logit=logit[0],
        bias=bias[0],
        margin=logit[1],
        bias_margin=bias[1],
        neighbours=[found[i] for i in listed],
        rest=Rest(order.size - len(listed), *as_pair(added[order[top:]].sum(0))),
        features=features,
        rest_of_features=others,
        reached=_reached(graph, place, summed),
        similar=similar_nodes(model, maker, graph, place, summed.row),
        ridge=None if sampled_instead else ridge_shares(model, maker, graph, summed.row, columns, top),
        flip=_flip(model, maker, graph, place, summed, added[:, -1], column, proba),
        engine=maker.params.engine,
        sampled_instead=sampled_instead,
        drawn=[found[i] for i in picture],
        edges=edges_among(graph, summed.nodes[picture]),
    )


def _node_id(graph: Graph, node: int | str) -> int:
    if isinstance(node, str) and graph.node_names is None and node.isdecimal() and len(node) < 19:
        node = int(node)  # as the command line gives it
    return int(graph.nodes(np.array([node]), "node")[0])


def _class_column(classes: list[str], name: str) -> int:
    if name not in classes:
        close = difflib.get_close_matches(name, classes, n=1)
        known = f"Did you mean {close[0]!r}?" if close else f"The model knows {', '.join(map(repr, classes[:10]))}"
        raise InputError(f"class_={name!r}: expected a class of the model. {known}")
    return classes.index(name)


def _predicted(model: NIGCN, classes: list[str], proba: FloatArray) -> list[str]:
    return [classes[i] for i in np.flatnonzero(predicted_columns(model, proba)[0])]


# ---------------------------------------------------------------------- nodes and features in words


def _neighbours(graph: Graph, node: int, summed: Summed, added: DoubleArray, places: IntArray) -> list[Neighbour]:
    wanted = np.zeros(summed.nodes.size, bool)
    wanted[places] = True
    hops = hops_from(graph, node, summed.nodes, wanted)[places].tolist()
    weights, parts = summed.weights[places].tolist(), [as_pair(added[place]) for place in places]
    rows = zip(named(graph, summed.nodes[places]), hops, weights, parts, strict=True)
    return [Neighbour(**vars(v), hop=None if hop < 0 else hop, weight=w, contribution=part[0], margin=part[1])
            for v, hop, w, part in rows]  # fmt: skip


def _features(
    maker: DiffusedRows, graph: Graph, added: DoubleArray, top: int
) -> tuple[list[FeatureShare] | None, Rest | None]:
    if random_nodes(graph) is not None:
        return None, None
    order = np.argsort(-np.abs(added[:, 0]), kind="stable")
    order = order[added[order, 0] != 0]
    names = graph.feature_names
    first = [FeatureShare(j, str(j if names is None else names[j]), *as_pair(added[j])) for j in order[:top].tolist()]
    return first, Rest(order.size - len(first), *as_pair(added[order[top:]].sum(0)))


def _reached(graph: Graph, node: int, summed: Summed) -> list[LabelShare]:
    """The labels of the neighbours and their shares of the weight, the largest first."""
    if graph.labels is None:
        return []
    others = summed.nodes != node
    labels, weights = np.asarray(graph.labels[summed.nodes[others]]), summed.weights[others].astype(np.float64)
    if graph.multilabel:
        counts, sums = (labels == 1).sum(0), weights @ (labels == 1)
    else:
        known = labels != UNKNOWN
        counts = np.bincount(labels[known])
        sums = np.bincount(labels[known], weights[known])
    total = summed.weights.sum(dtype=np.float64)
    present = np.flatnonzero(counts)
    present = present[np.argsort(-sums[present], kind="stable")]
    rows = zip(names_of(graph, present), counts[present].tolist(), (sums[present] / total).tolist(), strict=True)
    return [LabelShare(*row) for row in rows]


# ---------------------------------------------------------------------- what would have to go


def _flip(
    model: NIGCN, maker: DiffusedRows, graph: Graph, node: int, summed: Summed, margins: DoubleArray, column: int,
    proba: FloatArray,
) -> Flip | None:  # fmt: skip
    holds = bool(predicted_columns(model, proba)[0, column])
    found = find_flip(model, maker, graph, node, summed, margins, column, holds)
    if found is None:
        return None
    nodes, classes = summed.nodes[found.removed], [str(label) for label in model.classes_]
    names = None if graph.node_names is None else [str(graph.node_names[v]) for v in nodes.tolist()]
    share = float(summed.weights[found.removed].sum() / summed.weights.sum())
    after = found.proba[None]
    return Flip(nodes.tolist(), names, share, _predicted(model, classes, after), float(found.proba[column]))
