"""A classifier bound to its graph, in scikit-learn's hands."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, learning_curve

from nodewise import NIGCN, BoundClassifier, InputError
from nodewise.graph import synthetic

FAST = NIGCN(omega=1.0, rho=0.3, feature_norm="none", epochs=20, epsilon=0.05, teach=False, layers=1)


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(500, avg_degree=10, classes=3, homophily=0.9, features=16, signal=2.0, seed=0)


@pytest.fixture(scope="module")
def data(graph):
    nodes = np.random.default_rng(0).permutation(500)[:200]
    return nodes.reshape(-1, 1), np.array(["red", "green", "blue"])[graph.labels[nodes]]


def test_both_are_classifiers_to_scikit_learn(graph):
    assert is_classifier(NIGCN())
    assert is_classifier(BoundClassifier(graph))


def test_cloning_does_not_copy_the_graph(graph):
    assert clone(BoundClassifier(graph, FAST)).graph is graph


def test_labels_come_back_as_they_were_given(graph, data):
    bound = BoundClassifier(graph, FAST).fit(*data)
    assert bound.classes_.tolist() == ["blue", "green", "red"]
    others = np.setdiff1d(np.arange(500), data[0])
    truth = np.array(["red", "green", "blue"])[graph.labels[others]]
    assert np.mean(bound.predict(others) == truth) > 0.85
    assert np.allclose(bound.predict_proba(others).sum(1), 1, atol=1e-5)


def test_labels_of_the_graph_are_not_looked_at(graph, data):
    blind = graph.replace(labels=np.full(500, -1))
    first, second = (BoundClassifier(g, FAST).fit(*data).predict_proba(np.arange(500)) for g in (graph, blind))
    assert np.array_equal(first, second)


def test_scikit_learns_tools_take_it(graph, data):
    bound = BoundClassifier(graph, FAST)
    assert cross_val_score(bound, *data, cv=3).mean() > 0.8
    assert cross_val_predict(bound, *data, cv=3, method="predict_proba").shape == (200, 3)
    found = GridSearchCV(bound, {"estimator__lr": [0.03, 0.1], "validate": [True, False]}, cv=2).fit(*data)
    assert set(found.best_params_) == {"estimator__lr", "validate"}
    _, _, scores = learning_curve(bound, *data, cv=2, train_sizes=[0.5, 1.0])
    assert scores.mean() > 0.8
    calibrated = CalibratedClassifierCV(bound, cv=2).fit(*data)
    assert np.allclose(calibrated.predict_proba(data[0]).sum(1), 1)


def test_bad_input_is_named(graph, data):
    with pytest.raises(InputError, match="X: entry 0 is 5000"):
        BoundClassifier(graph).fit([[5000]], ["red"])
    with pytest.raises(InputError, match="expected one label per node"):
        BoundClassifier(graph).fit([[1], [2]], ["red"])
    with pytest.raises(NotFittedError):
        BoundClassifier(graph).predict([[1]])
