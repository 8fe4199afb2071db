"""A model on another graph: its columns are found by name, and what does not fit is refused."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from models import PLAIN
from nodewise import NIGCN, Graph, InputError, open_store, write_store
from nodewise.batch import run
from nodewise.graph import synthetic
from nodewise.graph.features import Quantized, take_columns
from nodewise.lab import rivals
from nodewise.learn import saved
from nodewise.learn.task import RANDOM_COLUMNS

TRAIN, VAL, TEST = range(60), range(60, 160), np.arange(160, 600)
NAMES = [f"word {i}" for i in range(24)]
SHUFFLED = np.random.default_rng(1).permutation(24)


@pytest.fixture(scope="module")
def graph():
    plain = synthetic.dcsbm(600, avg_degree=8, classes=3, features=24, signal=2.0, seed=0)
    return plain.replace(features=np.abs(plain.features), feature_names=NAMES)


def shuffled(graph: Graph) -> Graph:
    """The same graph with its columns, and their names, in another order."""
    names = [graph.feature_names[i] for i in SHUFFLED]
    return graph.replace(features=take_columns(graph.features, SHUFFLED), feature_names=names)


@pytest.fixture(scope="module")
def model(graph):
    return NIGCN(seed=0, epochs=20, threads=2).fit(graph, TRAIN, VAL)


# ---------------------------------------------------------------------- features by name


@pytest.mark.parametrize("engine", ["exact", "walks"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "int8"])
def test_columns_in_another_order_give_the_rows_and_predictions_of_the_first_order(graph, engine, kind, tmp_path):
    kinds = {"dense": np.asarray, "sparse": sp.csr_matrix, "int8": Quantized.of}
    graph = graph.replace(features=kinds[kind](graph.features), feature_names=NAMES)
    NIGCN(**{**PLAIN, "epochs": 4}, engine=engine, threads=2).fit(graph, TRAIN, VAL).save(tmp_path / "m")
    model, other = NIGCN.load(tmp_path / "m"), shuffled(graph)
    for rows in (model.represent, model.predict_proba):
        assert np.allclose(rows(other, TEST), rows(graph, TEST), rtol=1e-4, atol=1e-5)
    assert model.score(other, TEST) == pytest.approx(model.score(graph, TEST), abs=0.005)


def test_own_features_beside_the_diffused_ones_are_put_in_order_too(graph, model):
    first, second = (dataclasses.replace(model.maker_on(g), own=True).rows(g, TEST) for g in (graph, shuffled(graph)))
    assert second.shape == (440, 48)
    assert np.allclose(second, first, rtol=1e-4, atol=1e-6)


def test_rows_that_go_through_blocks_of_columns_are_put_in_order_too(graph):
    model = NIGCN(**PLAIN, engine="exact", threads=1).fit(graph, TRAIN, VAL)
    maker = model.maker_on(shuffled(graph))
    tight = dataclasses.replace(maker, params=dataclasses.replace(maker.params, memory=1 << 17))
    assert len(tight.blocks(shuffled(graph)) or ()) > 1
    nodes = np.arange(600)
    assert np.allclose(tight.rows(shuffled(graph), nodes), model.represent(graph, nodes), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["SGC", "GCN"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rivals_find_their_columns_by_name(graph, name, kind):
    graph = graph.replace(features={"dense": np.asarray, "sparse": sp.csr_matrix}[kind](graph.features))
    graph = graph.replace(feature_names=NAMES)
    model = getattr(rivals, name)(epochs=5).fit(graph, TRAIN, VAL)
    assert np.allclose(model.predict_proba(shuffled(graph), TEST), model.predict_proba(graph, TEST), atol=1e-5)


def test_other_names_are_refused_and_the_first_on_each_side_is_named(graph, model):
    other = graph.replace(features=graph.features, feature_names=["age", *NAMES[:20], "size", *NAMES[22:]])
    for call in (model.predict, model.predict_proba, model.represent, model.score, model.predict_set):
        with pytest.raises(InputError, match="2 of 24 differ, the first is 'age' in the graph and 'word 20' in the"):
            call(other, TEST)


def test_without_names_on_one_side_the_number_of_columns_decides(graph, model):
    bare = graph.replace(features=graph.features)
    assert bare.feature_names is None
    assert np.array_equal(model.predict_proba(bare, TEST), model.predict_proba(graph, TEST))
    unnamed = NIGCN(**PLAIN).fit(bare, TRAIN, VAL)
    assert not hasattr(unnamed, "feature_names_in_")
    assert np.array_equal(unnamed.predict(graph, TEST), unnamed.predict(bare, TEST))
    with pytest.raises(InputError, match="has 3 features; this model was trained on 24"):
        model.predict(graph.replace(features=graph.features[:, :3], feature_names=NAMES[:3]), TEST)
    with pytest.raises(InputError, match="has 3 features; this model was trained on 24"):
        model.represent(graph.replace(features=graph.features[:, :3]), TEST)


def test_names_are_saved_and_forgotten_by_the_next_fit(graph, model, tmp_path):
    model.save(tmp_path / "m")
    assert NIGCN.load(tmp_path / "m").feature_names_in_.tolist() == NAMES
    again = NIGCN(**PLAIN).fit(graph, TRAIN, VAL).fit(graph.replace(features=graph.features), TRAIN, VAL)
    assert not hasattr(again, "feature_names_in_")


def test_a_model_saved_without_names_still_opens(graph, model, tmp_path):
    model.save(tmp_path / "m")
    params, fitted, tensors = saved.load(tmp_path / "m", "NIGCN")
    older = {key: value for key, value in fitted.items() if key not in ("feature_names_in", "nodes_in")}
    saved.save(tmp_path / "old", "NIGCN", params, older, tensors)
    NIGCN.load(tmp_path / "old").save(tmp_path / "older")
    old = NIGCN.load(tmp_path / "older")
    assert np.array_equal(old.predict_proba(graph, TEST), model.predict_proba(graph, TEST))


# ---------------------------------------------------------------------- nodes, where there are no features


def without_features(graph: Graph, named: bool) -> Graph:
    names = [f"person {i}" for i in range(graph.num_nodes)] if named else None
    return graph.replace(features=None, node_names=names)


@pytest.fixture(scope="module", params=[True, False], ids=["names", "numbers"])
def featureless(request, graph, tmp_path_factory):
    """A graph without features, and a saved model of it."""
    bare, folder = without_features(graph, request.param), tmp_path_factory.mktemp("nodes") / "m"
    NIGCN(**PLAIN, engine="exact", threads=2).fit(bare, TRAIN, VAL).save(folder)
    return bare, NIGCN.load(folder)


def test_the_same_names_in_another_order_give_each_name_the_same_prediction(graph, tmp_path):
    bare = without_features(graph, named=True)
    model = NIGCN(**PLAIN, engine="exact", threads=2).fit(bare, TRAIN, VAL)
    order = np.random.default_rng(2).permutation(600)
    write_store(bare.subgraph(order), tmp_path / "s")
    moved = open_store(tmp_path / "s")
    assert np.allclose(model.predict_proba(moved), model.predict_proba(bare)[order], rtol=1e-4, atol=1e-5)
    assert np.allclose(model.represent(moved), model.represent(bare)[order], rtol=1e-4, atol=1e-5)


def test_the_graph_itself_is_accepted_with_other_labels(featureless):
    bare, model = featureless
    assert np.array_equal(model.predict(bare.replace(labels=None)), model.predict(bare))


def test_another_number_of_nodes_is_refused(featureless):
    bare, model = featureless
    for call in (model.predict, model.represent, model.predict_proba):
        with pytest.raises(InputError, match="had no features: it has 599 nodes, that of training had 600"):
            call(bare.subgraph(range(599)), [1, 2])


def test_other_nodes_are_refused(featureless):
    bare, model = featureless
    other = bare.subgraph(np.roll(np.arange(600), 1))
    expected = r"other numbers of neighbours.*knows its nodes by number"
    if bare.node_names is not None:
        other = other.replace(node_names=["someone", *other.node_names[1:]])
        expected = r"other names.*knows its nodes by name"
    with pytest.raises(InputError, match=expected):
        model.predict(other, TEST)


def test_names_on_one_side_only_are_refused(featureless):
    bare, model = featureless
    had = "those of training had names" if bare.node_names is not None else "those of training had none"
    with pytest.raises(InputError, match=had):
        model.predict(without_features(bare, named=bare.node_names is None), TEST)


def test_features_on_one_side_only_are_refused_even_if_their_number_fits(graph, featureless):
    bare, model = featureless
    wide = graph.replace(features=np.random.default_rng(0).random((600, RANDOM_COLUMNS)))
    with pytest.raises(InputError, match="has features; this model was trained on a graph with no features"):
        model.predict(wide, TEST)
    with pytest.raises(InputError, match="has no features; this model was trained on a graph with features"):
        NIGCN(**{**PLAIN, "epochs": 1}).fit(wide, TRAIN, VAL).predict(bare, TEST)


def test_a_store_of_other_nodes_is_refused_by_a_job(featureless, tmp_path):
    bare, model = featureless
    model.save(tmp_path / "m")
    write_store(bare, tmp_path / "same")
    write_store(bare.subgraph(range(500)), tmp_path / "part")
    assert run("predict", tmp_path / "m", str(tmp_path / "same"), tmp_path / "same.csv").nodes == 600
    with pytest.raises(InputError, match=r"part does not fit the model in .* it has 500 nodes"):
        run("embed", tmp_path / "m", str(tmp_path / "part"), tmp_path / "rows.parquet")
