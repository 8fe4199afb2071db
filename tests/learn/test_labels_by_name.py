"""Models that take nodes by name, and give labels by name."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, log_loss
from sklearn.model_selection import cross_val_score

from models import PLAIN
from nodewise import NIGCN, BoundClassifier, InputError, diffuse, diffusion_lengths
from nodewise.graph import synthetic
from nodewise.graph.splits import Split
from nodewise.learn.evaluate import evaluate

CLASSES = np.array(["dog", "cat", "bird"], object)
TRAIN, VAL, TEST = np.arange(60), np.arange(60, 200), np.arange(200, 300)


@pytest.fixture(scope="module")
def graph():
    whole = synthetic.dcsbm(300, avg_degree=8, classes=3, features=8, signal=1.0, seed=0)
    return whole.replace(node_names=[f"n{i}" for i in range(300)], labels=CLASSES[whole.labels])


@pytest.fixture(scope="module")
def model(graph):
    return NIGCN(**PLAIN, engine="exact").fit(graph, train=names(TRAIN), val=names(VAL))


def names(nodes):
    return [f"n{i}" for i in nodes]


def true_words(graph, nodes):
    return np.array(graph.label_names, object)[graph.labels[nodes]]


def test_fit_takes_names(graph, model):
    by_id = NIGCN(**PLAIN, engine="exact").fit(graph, TRAIN, VAL)
    assert np.array_equal(by_id.predict_proba(graph, TEST), model.predict_proba(graph, TEST))


def test_every_answer_takes_names(graph, model):
    some, ids = names([250, 7]), [250, 7]
    for method in ("predict", "predict_proba", "represent", "score"):
        assert np.array_equal(getattr(model, method)(graph, some), getattr(model, method)(graph, ids)), method
    by_name = model.predict_set(graph, some, calibrate=names(TEST))
    assert np.array_equal(by_name, model.predict_set(graph, ids, calibrate=TEST))
    assert np.array_equal(diffuse(graph, some).matrix.toarray(), diffuse(graph, ids).matrix.toarray())
    assert np.array_equal(diffusion_lengths(graph, some, 1.0), diffusion_lengths(graph, ids, 1.0))


def test_inductive_training_and_splits_take_names(graph):
    plain, every = NIGCN(**PLAIN, engine="exact"), (names(TRAIN), names(VAL), names(TEST))
    how = dict(inductive=True, part=names(range(200)))
    by_name = plain.fit_predict_proba(graph, *every, **how)
    assert np.array_equal(by_name, plain.fit_predict_proba(graph, TRAIN, VAL, TEST, inductive=True, part=range(200)))
    found = evaluate(plain, graph, [Split(*every)])
    assert found.test_f1 == evaluate(plain, graph, [Split(TRAIN, VAL, TEST)]).test_f1


def test_nodes_that_are_wrong_are_named_as_they_were_given(graph, model):
    with pytest.raises(InputError, match=r"train: entry 1 is 'N17', and there is no such node.* Did you mean 'n17'"):
        NIGCN().fit(graph, ["n1", "N17"])
    with pytest.raises(InputError, match="val: node 'n3' is in train too"):
        NIGCN().fit(graph, ["n3", "n4"], ["n3"])
    unknown = graph.replace(labels=[None, *true_words(graph, range(1, 300))])
    with pytest.raises(InputError, match="the label of node 'n0' is not known"):
        model.score(unknown, ["n0"])


# ---------------------------------------------------------------------- labels


def test_labels_come_back_by_name(graph, model, tmp_path):
    """Scikit-learn's scores take them as they are: columns of probabilities are in the order of ``classes_``."""
    assert model.classes_.tolist() == ["bird", "cat", "dog"]
    proba, said, truth = model.predict_proba(graph, TEST), model.predict(graph, TEST), true_words(graph, TEST)
    assert said.tolist() == [model.classes_[row.argmax()] for row in proba]
    assert {type(label) for label in said.tolist()} == {str}
    assert accuracy_score(truth, said) == pytest.approx(model.score(graph, TEST))
    assert accuracy_score(truth, said) > 0.6
    assert log_loss(truth, proba, labels=model.classes_) < np.log(3)
    model.save(tmp_path / "model")
    assert np.array_equal(NIGCN.load(tmp_path / "model").predict(graph, TEST), said)
    assert model.predict(graph, []).tolist() == []


def test_labels_without_names_are_numbers(graph):
    plain = NIGCN(**PLAIN, engine="exact").fit(graph.replace(label_names=None), TRAIN)
    assert plain.classes_.tolist() == [0, 1, 2]
    assert plain.predict(graph, TEST).dtype == np.int64


def test_several_labels_stay_a_matrix_whose_columns_have_names(graph):
    several = np.stack([graph.labels == 0, graph.labels == 1, np.arange(300) % 2], axis=1)
    graph = graph.replace(labels=several, label_names=["cat", "dog", "animal"])
    model = NIGCN(**PLAIN, engine="exact").fit(graph, TRAIN)
    said = model.predict(graph, TEST)
    assert model.classes_.tolist() == ["cat", "dog", "animal"]
    assert set(said.ravel().tolist()) <= {0, 1}
    other = graph.replace(labels=np.c_[several[:, ::-1], several[:, :1]], label_names=["animal", "dog", "cat", "newt"])
    truth = np.c_[several, several[:, :1]][TEST]
    expected = f1_score(truth, np.c_[said, np.zeros(TEST.size, int)], average="micro")
    assert model.score(other, TEST) == pytest.approx(expected)


def test_scores_match_labels_by_name(graph, model):
    """The other graph numbers its labels differently, and has one that the model does not know, which is wrong."""
    words = true_words(graph, range(300))
    other = graph.replace(labels=words.tolist(), label_names=["dog", "newt", "cat", "bird"])
    assert model.score(other, TEST) == model.score(graph, TEST)
    assert np.array_equal(model.predict_set(other, TEST, calibrate=VAL), model.predict_set(graph, TEST, calibrate=VAL))
    right = np.flatnonzero(model.predict(graph) == words)
    words[right[0]] = "newt"
    assert model.score(graph.replace(labels=words), right[:4]) == 0.75
    with pytest.raises(InputError, match=f"calibrate: the model does not know the label of node 'n{right[0]}'"):
        model.predict_set(graph.replace(labels=words), TEST, calibrate=right)


def test_labels_that_cannot_be_matched_are_refused(graph, model):
    with pytest.raises(InputError, match="classes of the model are names, the labels of the graph numbers"):
        model.score(graph.replace(label_names=None), TEST)
    several = graph.replace(labels=np.eye(3, dtype=int)[graph.labels])
    with pytest.raises(InputError, match="several labels per node, the model was trained with one label per node"):
        model.score(several, TEST)


def test_a_bound_classifier_takes_names_and_gives_the_labels_it_was_given(graph):
    bound = BoundClassifier(graph, NIGCN(**PLAIN, engine="exact"), validate=False)
    X, y = np.array(names(VAL)).reshape(-1, 1), true_words(graph, VAL)
    assert cross_val_score(bound, X, y, cv=2).mean() > 0.6
    assert bound.fit(X, y).classes_.tolist() == ["bird", "cat", "dog"]
    assert bound.fit(X, graph.labels[VAL]).classes_.tolist() == [0, 1, 2]
    assert np.array_equal(bound.predict(["n250"]), bound.predict([250]))
