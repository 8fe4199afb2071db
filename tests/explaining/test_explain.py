"""An explanation's parts sum to the model's own logit, and what it says about flips holds when it is done."""

import tracemalloc
from dataclasses import replace
from itertools import combinations

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import NotFittedError

import nodewise as nw
from models import PLAIN
from nodewise import InputError
from nodewise.explaining import explain as explaining
from nodewise.graph.checks import UNKNOWN
from nodewise.graph.features import Quantized, normalize

EVERY = 10_000  # more than there are neighbours or features


def make_graph(seed=1, **changes):
    g = nw.synthetic.dcsbm(300, avg_degree=6, classes=3, features=12, signal=2.0, seed=seed)
    return g.replace(**changes) if changes else g


def fitted(graph, **params):
    return nw.NIGCN(**{**PLAIN, "seed": 0, **params}).fit(graph, train=range(100), val=range(100, 160))


def logits_of(model, graph, node):
    rows = torch.from_numpy(model.represent(graph, [node]))
    with torch.no_grad():
        return (model.networks_(rows)[0] / model.temperature_).numpy()


def check_sums(model, graph, node, class_=None):
    """Neighbours and bias, and features and bias, sum to the logit and to the margin that the model itself gives."""
    found = nw.explain(model, graph, node, class_, top=EVERY)
    logits, classes = logits_of(model, graph, node), [str(label) for label in model.classes_]
    logit, near = logits[classes.index(found.class_)], {"abs": 2e-5 * max(1.0, float(np.abs(logits).max()))}
    assert found.logit == pytest.approx(logit, **near)
    assert found.rest.count == 0
    assert sum(v.contribution for v in found.neighbours) + found.bias == pytest.approx(logit, **near)
    if found.features is not None:
        assert sum(one.contribution for one in found.features) + found.bias == pytest.approx(logit, **near)
    if found.runner_up is not None:
        margin = logit - logits[classes.index(found.runner_up)]
        assert found.margin == pytest.approx(margin, **near)
        assert sum(v.margin for v in found.neighbours) + found.bias_margin == pytest.approx(margin, **near)
    proba = model.predict_proba(graph, [node])[0]
    assert [found.probabilities[name] for name in classes] == pytest.approx(proba, abs=1e-5)
    return found


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
def test_the_parts_sum_to_the_logit_for_every_engine(engine):
    graph = make_graph()
    model = fitted(graph, engine=engine)
    for node in (0, 170, 299):
        assert check_sums(model, graph, node).engine == engine


@pytest.mark.parametrize("feature_norm", ["none", "l1", "l2"])
@pytest.mark.parametrize("row_norm", ["none", "l1", "l2"])
def test_the_parts_sum_to_the_logit_for_every_norm(feature_norm, row_norm):
    graph = make_graph()
    check_sums(fitted(graph, engine="stratified", feature_norm=feature_norm, row_norm=row_norm), graph, 200)


def half(x):
    return x.astype(np.float16)


def wide(x):
    rows = sp.random(x.shape[0], 6000, 0.002, "csr", np.float32, np.random.default_rng(0))
    return sp.hstack([sp.csr_matrix(np.maximum(x, 0)), rows], format="csr")


@pytest.mark.parametrize("engine", ["exact", "stratified"])
@pytest.mark.parametrize("norm", ["none", "l2"])
@pytest.mark.parametrize("kind", [half, Quantized.of, wide], ids=["float16", "int8", "wide sparse"])
def test_the_parts_sum_to_the_logit_for_every_kind_of_features(engine, norm, kind):
    graph = make_graph()
    graph = graph.replace(features=kind(graph.features))
    check_sums(fitted(graph, engine=engine, feature_norm=norm), graph, 200)


@pytest.fixture(scope="module")
def own():
    """A default model, of several members, in which one that sees own features got votes."""
    graph = make_graph()
    for seed in range(20):
        nodes = np.random.default_rng(seed).permutation(300)
        model = nw.NIGCN(seed=seed, epochs=40).fit(graph, train=nodes[:60], val=nodes[60:120])
        if model.row_maker.own and len(model.members_) > 1:
            return graph, model
    raise AssertionError("no such model among 20")


def test_the_parts_sum_to_the_logit_with_several_members_and_own_features(own):
    for node in (5, 250):
        check_sums(own[1], own[0], node)


def test_own_features_are_the_part_of_the_node_itself(own):
    graph, model = own
    found = nw.explain(model, graph, 7, top=EVERY)
    maker = model.maker_on(graph)
    width, row = graph.num_features, model.represent(graph, [7])[0]
    linear = explaining.linear_around(model, row, [str(c) for c in model.classes_].index(found.class_), None)
    beside = linear.slopes[0, width:] @ row[width:]
    summed = explaining.sum_around(maker, graph, 7)
    scale = np.linalg.norm(row[:width]) / np.linalg.norm(summed.total)
    itself = next(v for v in found.neighbours if v.hop == 0)
    inside = scale * itself.weight * linear.slopes[0, :width] @ normalize(graph.features[[7]], maker.feature_norm)[0]
    assert itself.contribution == pytest.approx(inside + beside, abs=1e-4)
    assert abs(beside) > 1e-3


def test_columns_in_another_order_give_the_same_explanation_by_name():
    names = [f"word {i}" for i in range(12)]
    graph = make_graph()
    graph = graph.replace(features=graph.features, feature_names=names)
    turned = graph.replace(features=graph.features[:, ::-1].copy(), feature_names=names[::-1])
    model = fitted(graph, engine="stratified")
    first, second = check_sums(model, graph, 200), check_sums(model, turned, 200)
    parts = [{one.name: one.contribution for one in found.features} for found in (first, second)]
    assert parts[0] == pytest.approx(parts[1], abs=1e-5)
    assert [turned.feature_names[one.column] for one in second.features] == [one.name for one in second.features]


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
def test_the_parts_sum_to_the_logit_with_edge_weights(engine):
    plain = make_graph()
    matrix = plain.to_scipy()
    matrix.data = np.random.default_rng(0).uniform(0.2, 4, matrix.nnz)
    graph = nw.Graph.from_scipy(matrix.maximum(matrix.T), plain.features, plain.labels)
    check_sums(fitted(graph, engine=engine), graph, 200)


def test_of_several_labels_one_is_explained_and_there_is_no_runner_up():
    graph = make_graph()
    several = np.stack([graph.labels == 0, graph.labels != 1, np.arange(300) % 2 == 0], 1).astype(np.int8)
    graph = graph.replace(labels=several)
    model = fitted(graph, engine="exact")
    for class_ in "012":
        found = check_sums(model, graph, 200, class_)
        assert (found.class_, found.runner_up, found.margin) == (class_, None, None)
        assert found.predicted == [str(i) for i in np.flatnonzero(model.predict(graph, [200])[0])]


def test_without_features_only_neighbours_are_listed():
    graph = make_graph(features=None)
    found = check_sums(fitted(graph, engine="exact", feature_norm="none"), graph, 200)
    assert found.features is None
    assert found.to_json()["features"] is None


def test_without_bias_networks_have_none():
    graph = make_graph()
    assert check_sums(fitted(graph, bias=False, engine="exact"), graph, 200).bias == 0


def test_hops_are_the_shortest_paths():
    graph = make_graph()
    found = nw.explain(fitted(graph, engine="exact"), graph, 200, top=EVERY)
    steps = networkx.single_source_shortest_path_length(networkx.from_scipy_sparse_array(graph.to_scipy()), 200)
    assert {v.node: v.hop for v in found.neighbours} == {v.node: steps[v.node] for v in found.neighbours}


def test_edges_of_the_picture_are_all_between_its_nodes():
    graph = make_graph()
    found = nw.explain(fitted(graph, engine="exact"), graph, 200)
    nodes = [v.node for v in found.drawn]
    matrix = graph.to_scipy()[nodes][:, nodes]
    assert set(found.edges) == {(a, b) for a, b in zip(*matrix.nonzero(), strict=True) if a < b}
    assert nodes[0] == 200


def test_labels_in_reach_are_counted_by_weight():
    graph = make_graph()
    labels = np.array(graph.labels)
    labels[::2] = UNKNOWN
    model = fitted(graph, engine="exact")
    found = nw.explain(model, graph.replace(labels=labels), 201, top=EVERY)
    total = sum(v.weight for v in found.neighbours)
    for one in found.reached:
        mine = [v.weight for v in found.neighbours if v.labels == [one.label] and v.node != 201]
        assert (one.nodes, one.share) == (len(mine), pytest.approx(sum(mine) / total))


def test_similar_nodes_are_those_of_all_cosines():
    graph = make_graph()
    model = fitted(graph, engine="exact")
    cosines = normalize(model.represent(graph, range(160)), "l2") @ normalize(model.represent(graph, [200]), "l2")[0]
    found = nw.explain(model, graph, 200).similar
    assert [one.node for one in found] == np.argsort(-cosines, kind="stable")[: len(found)].tolist()
    assert [one.similarity for one in found] == pytest.approx(np.sort(cosines)[::-1][: len(found)], abs=1e-5)


def test_similar_nodes_are_left_out_on_another_graph_and_found_by_name():
    graph = make_graph()
    model = fitted(graph)
    assert nw.explain(model, make_graph().subgraph(range(299)), 200).similar is None
    named = graph.replace(node_names=[f"n{i}" for i in range(300)])
    model, moved = fitted(named), named.subgraph(np.arange(300)[::-1])
    assert {one.name for one in nw.explain(model, moved, "n200").similar} <= {f"n{i}" for i in range(160)}


# ---------------------------------------------------------------------- flips


def answer_without(model, graph, node, removed):
    """The model's probabilities once these neighbours have no weight: the sum made anew, as a dense product."""
    maker = model.maker_on(graph)
    weights = explaining.sum_around(maker, graph, node)
    kept = ~np.isin(weights.nodes, removed)
    rows = normalize(graph.features[weights.nodes[kept]], maker.feature_norm)
    row = normalize((weights.weights[kept] @ rows)[None].astype(np.float32), maker.row_norm)
    return model.proba_of_rows(row)[0]


@pytest.mark.parametrize("row_norm", ["none", "l2"])
def test_a_flip_flips_and_one_neighbour_less_does_not(row_norm):
    graph = make_graph()
    model, flips = fitted(graph, engine="exact", row_norm=row_norm), 0
    for node in range(200, 230):
        found = nw.explain(model, graph, node)
        if found.flip is None:
            continue
        flips += 1
        after = answer_without(model, graph, node, found.flip.nodes)
        assert found.flip.predicted == [str(model.classes_[after.argmax()])] != found.predicted
        assert found.flip.probability == pytest.approx(found_probability(model, found, after), abs=1e-4)
        before = answer_without(model, graph, node, found.flip.nodes[:-1])
        assert [str(model.classes_[before.argmax()])] == found.predicted
    assert flips > 5


def found_probability(model, found, proba):
    return proba[[str(label) for label in model.classes_].index(found.class_)]


def test_a_flip_is_the_smallest_of_all_sets_where_the_network_is_linear():
    """Two classes, one linear layer, rows not scaled: then the margin is a sum over neighbours. All sets are tried."""
    edges = np.array([(0, i) for i in range(1, 10)] + [(10, i) for i in range(11, 40)]).T
    rng, flips = np.random.default_rng(0), 0
    labels = rng.integers(0, 2, 40)
    features = (rng.normal(size=(40, 6)) + 1.5 * labels[:, None]).astype(np.float32)
    graph = nw.Graph.from_edges(edges, 40, features, labels)
    params = {**PLAIN, "engine": "exact", "row_norm": "none", "feature_norm": "none", "layers": 1, "seed": 0}
    model = nw.NIGCN(**params).fit(graph, train=range(10, 40))
    for node in range(10):
        found = nw.explain(model, graph, node)
        sets = (s for size in range(1, 10) for s in combinations([v for v in range(10) if v != node], size))
        said = found.predicted[0]
        first = next((s for s in sets if str(answer_without(model, graph, node, s).argmax()) != said), None)
        assert (first is None) == (found.flip is None)
        if first is not None:
            flips += 1
            assert len(found.flip.nodes) == len(first)
    assert flips


def test_another_class_is_explained_by_what_keeps_it_from_being_the_answer():
    graph = make_graph()
    model = fitted(graph, engine="exact")
    found = [nw.explain(model, graph, node, str(other)) for node in range(200, 215) for other in range(3)]
    kept = [one for one in found if one.class_ not in one.predicted]
    assert all(one.margin < 0 and one.runner_up == one.predicted[0] for one in kept)
    flipped = [one for one in kept if one.flip]
    assert flipped
    for one in flipped:
        assert one.flip.predicted == [one.class_]
        assert answer_without(model, graph, one.node, one.flip.nodes).argmax() == int(one.class_)


def test_one_label_of_several_flips_too():
    graph = make_graph()
    several = np.stack([graph.labels == 0, graph.labels != 1], 1).astype(np.int8)
    graph = graph.replace(labels=several)
    model = fitted(graph, engine="exact")
    found = [nw.explain(model, graph, node, "1") for node in range(200, 240)]
    flipped = [one for one in found if one.flip]
    assert flipped
    for one in flipped:
        said = model.labels_of_proba(answer_without(model, graph, one.node, one.flip.nodes)[None])[0]
        assert one.flip.predicted == [str(i) for i in np.flatnonzero(said)]
        assert ("1" in one.predicted) != ("1" in one.flip.predicted)


# ---------------------------------------------------------------------- large graphs, and what is refused


def hub_graph():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 5200)
    features = (rng.normal(size=(5200, 6)) + 3 * np.eye(6)[labels]).astype(np.float32)
    edges = np.concatenate([np.stack([np.zeros(5000, int), np.arange(1, 5001)]), rng.integers(5000, 5200, (2, 300))], 1)
    return nw.Graph.from_edges(edges, 5200, features, labels, name="hub")


@pytest.mark.parametrize("engine", ["exact", "stratified"])
def test_a_node_with_5000_neighbours_is_explained_whole(engine):
    graph = hub_graph()
    model = fitted(graph, engine=engine, epsilon=0.01)
    check_sums(model, graph, 0)
    found = nw.explain(model, graph, 0, top=15)
    assert len(found.neighbours) == 15
    assert len(found.drawn) == explaining.DRAWN + 1
    assert found.rest.count > 4900
    total = sum(v.contribution for v in found.neighbours) + found.rest.contribution + found.bias
    assert total == pytest.approx(found.logit, abs=1e-3)
    assert nw.explain(model, graph, 0, top=15) == found


def test_a_node_with_more_neighbours_than_walks_visit_is_explained():
    graph = hub_graph()
    found = check_sums(fitted(graph, engine="stratified", epsilon=0.05), graph, 0)
    assert 64 < len(found.neighbours) < 5000
    assert {v.hop for v in found.neighbours} == {0, 1}


def test_a_node_that_is_only_laid_over_the_graph_is_refused():
    graph = make_graph()
    with pytest.raises(InputError, match="new nodes laid over it"):
        nw.explain(fitted(graph), graph.extended([[300], [1]], graph.features[:1]), 300)


def test_exact_models_of_large_graphs_are_explained_by_sampled_weights(monkeypatch):
    graph = make_graph()
    model = fitted(graph, engine="exact", epsilon=0.01)
    plain = nw.explain(model, graph, 200)
    monkeypatch.setattr(explaining, "SMALL", 299)
    found = nw.explain(model, graph, 200)
    assert (plain.sampled_instead, plain.engine) == (False, "exact")
    assert (found.sampled_instead, found.engine) == (True, "stratified")
    assert found.probabilities == pytest.approx(plain.probabilities, abs=0.05)
    assert found == nw.explain(model, graph, 200)


def test_nothing_as_long_as_the_graph_is_made():
    """A ring of two million nodes: less than a byte per node is allocated, and an array of flags would take as much."""
    small = make_graph()
    model = fitted(small.replace(features=small.features[:, :2]), engine="exact")
    count = 2_000_000
    ring = np.stack([np.arange(count), np.roll(np.arange(count), 1)])
    features = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    large = nw.Graph.from_edges(ring, count, features, np.arange(count) % 3)
    nw.explain(model, large, 5)  # compiles kernels, and finds the least degree, which a store knows
    tracemalloc.start()
    try:
        found = nw.explain(model, large, 500_000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < count
    assert {v.hop for v in found.neighbours} >= {0, 1, 2, 3}


def test_a_saved_model_and_its_folder_explain_the_same(tmp_path):
    graph = make_graph()
    model = fitted(graph)
    model.save(tmp_path / "model")
    assert nw.explain(tmp_path / "model", graph, 3) == nw.explain(model, graph, 3)


def test_a_node_without_edges_is_explained_by_itself():
    graph = make_graph()
    lonely = nw.Graph.from_edges(np.array([[0], [1]]), 3, graph.features[:3], [0, 1, -1])
    found = check_sums(fitted(graph), lonely, 2)
    assert [v.node for v in found.neighbours] == [2]
    assert found.flip is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"node": "ann1"}, r"node: entry 0 is 'ann1', and there is no such node; .* Did you mean 'anna1'"),
        ({"node": 300}, r"node: entry 0 is 300; node ids are whole numbers from 0 to 299"),
        ({"class_": "Sciense"}, r"class_='Sciense': expected a class of the model. Did you mean 'Science'\?"),
        ({"class_": 7}, r"class_='7': expected a class of the model. The model knows 'Art', 'Golf', 'Science'"),
        ({"top": 0}, r"top=0: expected a whole number of at least 1"),
        ({"model": nw.BoundClassifier}, r"model: a .*; expected a nodewise.NIGCN"),
        ({"graph": "cora"}, r"graph: a str; expected a nodewise.Graph"),
    ],
)
def test_wrong_input_is_named(wrong, message):
    graph = make_graph()
    names = ["Art", "Golf", "Science"]
    graph = graph.replace(labels=[names[i] for i in graph.labels], node_names=[f"anna{i}" for i in range(300)])
    given = {"model": fitted(graph, epochs=2), "graph": graph, "node": "anna3", **wrong}
    with pytest.raises(InputError, match=message):
        nw.explain(**given)


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        nw.explain(nw.NIGCN(), make_graph(), 0)


def test_an_id_as_text_is_an_id_where_nodes_have_no_names():
    graph = make_graph()
    model = fitted(graph, epochs=2)
    assert nw.explain(model, graph, "17") == nw.explain(model, graph, 17)
    with pytest.raises(InputError, match="have no names"):
        nw.explain(model, graph, "bob")


def test_replaced_parts_are_seen_by_equality():
    """Equality compares all numbers, so that the tests above that compare whole explanations mean something."""
    graph = make_graph()
    found = nw.explain(fitted(graph, epochs=2), graph, 17)
    assert found != replace(found, bias=found.bias + 1e-9)
