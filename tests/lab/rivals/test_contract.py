"""What every method promises, looped over all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from nodewise import InputError, StoreError
from nodewise.graph import synthetic
from nodewise.lab.rivals import METHODS, method, method_name, settings
from nodewise.lab.rivals.matrix import WELL_FILLED

TRAIN, VAL, TEST = np.arange(60), np.arange(60, 160), np.arange(160, 500)
FAST = {"epochs": 60, "patience": 60}
WRONG = {
    "GAT": [{"out_heads": 0}, {"heads": 2.5}],
    "GraphSAGE": [{"fanout": 0}, {"further": 0}],
    "FastGCN": [{"samples": 0}],
    "GraphSAINT": [{"roots": 0}, {"length": 0}, {"coverage": 0}, {"hidden": 1}],
    "ShaDow-GCN": [{"scope": "all"}, {"readout": "sum"}, {"budget": 0}, {"hops": 0}, {"alpha": 1.5}],
    "SGC": [
        {"hops": -1},
        {"lr": 0},
        {"weight_decay": -1},
        {"feature_norm": "l3"},
        {"batch_size": 0},
        {"device": "tpu"},
    ],
    "APPNP": [{"alpha": 0.0}, {"hops": -1}],
    "PPRGo": [{"alpha": 0.0}, {"alpha": 1.0}, {"epsilon": 0.0}, {"top_k": 0}],
    "GDC": [{"kernel": "cold"}, {"alpha": 1.0}, {"t": 0.0}, {"top_k": 0}, {"threshold": -1.0}, {"tolerance": 0.0}],
    "GBP": [{"alpha": 0.0}, {"r": 2.0}, {"r_max": 0.0}, {"walks": -1}],
    "AGP": [{"alpha": 0.0}, {"a": 2.0}, {"epsilon": 0.0}, {"hops": -1}, {"t": 0.0}, {"weights": "katz"}],
    "NDLS": [{"epsilon": 0.0}, {"label_epsilon": -1.0}, {"hops": -1}, {"label_hops": 1.5}],
    "GRAND+": [
        *({"propagation": "all"}, {"order": -1}, {"drop_node": 1.0}, {"temperature": 0.0}, {"row_norm": "l3"}),
        *({"augmentations": 0}, {"epsilon": 2.0}, {"consistency": -1.0}),
    ],
}


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(500, avg_degree=10, classes=4, homophily=0.85, features=24, signal=2.0, seed=2)


@pytest.fixture(scope="module", params=METHODS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(name, graph):
    return method(name)(**FAST).fit(graph, TRAIN, VAL)


def test_it_learns(graph, fitted):
    assert fitted.score(graph, TEST) > 0.75  # of four classes
    assert 0.75 < fitted.val_f1_ <= 1


def test_probabilities_sum_to_one_and_predictions_are_their_largest(graph, fitted):
    proba = fitted.predict_proba(graph, TEST)
    assert proba.shape == (TEST.size, 4)
    assert np.allclose(proba.sum(1), 1, atol=1e-5)
    assert np.array_equal(fitted.labels_of_proba(proba), fitted.classes_[proba.argmax(1)])


def test_the_same_seed_gives_the_same_answers_on_any_number_of_threads(name, graph):
    few = {"epochs": 5}
    first, second = (method(name)(**few, seed=3, threads=t).fit(graph, TRAIN, VAL) for t in (1, 2))
    assert np.allclose(first.predict_proba(graph, TEST), second.predict_proba(graph, TEST), atol=1e-4)


def test_a_saved_model_answers_as_before(graph, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    assert np.allclose(loaded.predict_proba(graph, TEST), fitted.predict_proba(graph, TEST), atol=1e-5)
    other = method("NIGCN" if type(fitted).__name__ == "SGC" else "SGC")
    with pytest.raises(StoreError, match=f"holds a {type(fitted).__name__}"):
        other.load(tmp_path / "model")


def test_inductive_training_sees_only_its_part(name, graph):
    part = np.arange(250)
    model = method(name)(**FAST).fit(graph, TRAIN, VAL, inductive=True, part=part)
    assert model.score(graph, TEST) > 0.6
    far = np.array([[i, j] for i in range(260, 400) for j in (i + 50, i + 90)]).T  # edges outside the part
    rewired = graph.replace(**_with_edges(graph, far))
    alone = (method(name)(epochs=3).fit(g, TRAIN, inductive=True, part=part) for g in (graph, rewired))
    one, two = ([p.detach().numpy() for p in m.networks_.parameters()] for m in alone)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(one, two, strict=True))


def _with_edges(graph, edges):
    matrix = sp.csr_matrix((np.ones(graph.indices.size), graph.indices, graph.indptr), shape=[graph.num_nodes] * 2)
    more = type(graph).from_scipy(((matrix + sp.coo_matrix((np.ones(edges.shape[1]), edges), matrix.shape)) > 0) * 1.0)
    return {"indptr": more.indptr, "indices": more.indices}


def test_sparse_features_give_what_dense_ones_give(name, graph):
    few = {"epochs": 5, "dropout": 0.0}
    graph = graph.replace(features=graph.features * (np.abs(graph.features) > 1.7))  # a tenth filled: stays sparse
    dense = method(name)(**few).fit(graph, TRAIN, VAL).predict_proba(graph, TEST)
    sparse = graph.replace(features=sp.csr_matrix(graph.features))
    assert sparse.features.nnz < WELL_FILLED * graph.features.size
    assert np.allclose(method(name)(**few).fit(sparse, TRAIN, VAL).predict_proba(sparse, TEST), dense, atol=2e-2)


def test_labels_need_not_be_consecutive(name, graph):
    odd = graph.replace(labels=graph.labels * 10 + 3)
    model = method(name)(epochs=3).fit(odd, TRAIN, VAL)
    assert model.classes_.tolist() == [3, 13, 23, 33]
    assert set(model.predict(odd, TEST)) <= {3, 13, 23, 33}


def test_it_is_a_scikit_learn_estimator(name, fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "networks_")
    assert copy.set_params(seed=7).seed == 7
    assert name.replace("-", "").replace("+", "Plus") == type(fitted).__name__


def test_bad_input_is_refused_by_name(name, graph):
    cls = method(name)
    with pytest.raises(NotFittedError, match="not fitted"):
        cls().predict(graph)
    with pytest.raises(InputError, match="is in train too"):
        cls().fit(graph, TRAIN, TRAIN)
    with pytest.raises(InputError, match="dropout"):
        cls(dropout=1.5).fit(graph, TRAIN, VAL)
    for wrong in WRONG.get(name, []):
        with pytest.raises(InputError, match=rf"^{next(iter(wrong))}="):
            cls(**wrong).fit(graph, TRAIN, VAL)
    if name != "NIGCN":  # which gives nodes without features random vectors
        with pytest.raises(InputError, match="no features"):
            cls().fit(graph.replace(features=None), TRAIN, VAL)


def test_every_parameter_with_a_range_is_checked(name):
    """A subclass that changes a default must repeat the type, or its values would no longer be checked."""
    if name != "NIGCN":
        free = {"bias", "memory", "threads"}  # any truth value; checked where they are used
        for parameter in method(name)().get_params().keys() - free:
            with pytest.raises(InputError, match=f"^{parameter}="):
                method(name)(**{parameter: "nonsense"}).check_params()


def test_presets_are_parameters_of_the_method(name):
    for dataset in ("cora", "citeseer", "pubmed", "a graph of one's own"):
        method(name)(**settings(name, dataset))


def test_names_are_found_in_any_spelling():
    assert method_name("grand+") == "GRAND+"
    with pytest.raises(InputError, match="no such method; there are GCN"):
        method_name("gnc")
