"""A model on another graph: its columns are found by name, and what does not fit is refused."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from models import PLAIN
from nodewise import NIGCN, Graph, InputError
from nodewise.graph import synthetic
from nodewise.graph.features import Quantized, take_columns
from nodewise.lab import rivals
from nodewise.learn import saved

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
    old = NIGCN.load(tmp_path / "old")
    assert np.array_equal(old.predict_proba(graph, TEST), model.predict_proba(graph, TEST))
