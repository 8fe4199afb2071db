"""Scoring a fitted model on labels it has not learned from: the numbers, and which nodes count."""

import json

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sklearn import metrics

from models import PLAIN
from nodewise import NIGCN, InputError, open_store, write_store
from nodewise._util.errors import NodewiseWarning
from nodewise.graph import synthetic
from nodewise.learn import saved
from nodewise.learn.evaluate import held_out_score, score_model
from nodewise.learn.metrics import micro_f1, micro_f1_interval
from nodewise.report.model import describe_model

NAMES = ["cat", "dog", "bird"]


@pytest.fixture(scope="module")
def graph():
    whole = synthetic.dcsbm(300, avg_degree=8, classes=3, features=8, signal=1.0, seed=0)
    return whole.replace(node_names=[f"n{i}" for i in range(300)], label_names=NAMES)


@pytest.fixture(scope="module")
def model(graph):
    return NIGCN(**PLAIN, engine="exact").fit(graph, train=range(60), val=range(60, 120))


def numbers(labels):
    return np.array([NAMES.index(label) for label in labels])


def test_scores_are_those_of_scikit_learn(graph, model):
    result, rest = score_model(model, graph), np.arange(120, 300)
    truth, said, proba = graph.labels[rest], numbers(model.predict(graph, rest)), model.predict_proba(graph, rest)
    assert (result.nodes, result.left_out) == (180, 120)
    assert result.micro_f1 == pytest.approx(metrics.accuracy_score(truth, said))
    assert result.macro_f1 == pytest.approx(metrics.f1_score(truth, said, average="macro"))
    assert result.log_loss == pytest.approx(metrics.log_loss(truth, proba), rel=1e-5)
    assert result.confusion == metrics.confusion_matrix(truth, said).tolist()
    precision, recall, _, support = metrics.precision_recall_fscore_support(truth, said)
    assert [c.label for c in result.classes] == NAMES
    assert [c.precision for c in result.classes] == pytest.approx(precision)
    assert [c.recall for c in result.classes] == pytest.approx(recall)
    assert [c.support for c in result.classes] == support.tolist()


def test_several_labels_are_scored_as_scikit_learn_does(graph):
    several = np.stack([graph.labels == 0, graph.labels == 1, np.arange(300) % 2], axis=1).astype(np.int8)
    graph = graph.replace(labels=several)
    model = NIGCN(**PLAIN, engine="exact").fit(graph, train=range(100))
    rest = 100 + np.flatnonzero(several[100:].any(axis=1))  # a node without a label is one whose labels are not known
    result = score_model(model, graph)
    said = model.predict(graph, rest)
    assert result.micro_f1 == pytest.approx(metrics.f1_score(several[rest], said, average="micro"))
    recall = metrics.recall_score(several[rest], said, average=None, zero_division=0)
    assert [c.recall for c in result.classes] == pytest.approx(recall)
    assert result.confusion is None


def test_the_interval_of_several_labels_is_as_wide_as_a_bootstrap_says():
    """Nodes, not labels, are drawn: an interval that counted labels would be too narrow."""
    rng = np.random.default_rng(0)
    truth = (rng.random((400, 5)) < 0.4).astype(np.int8)
    said = np.where(rng.random((400, 1)) < 0.2, 1 - truth, truth)  # wrong in all labels of a node at once
    low, high = micro_f1_interval(truth, said)
    drawn = [micro_f1(truth[some], said[some]) for some in rng.integers(0, 400, (2000, 400))]
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))), abs=0.01)


def test_after_a_refit_on_all_labels_nothing_is_left_to_score(graph):
    model = NIGCN(**PLAIN, engine="exact")
    model.fit_predict_proba(graph, np.arange(60), np.arange(60, 120), np.arange(120, 300), refit_asked=True)
    with pytest.raises(InputError, match="learned from all 300 labelled nodes; pass --labels FILE"):
        score_model(model, graph)


def test_nodes_are_known_by_name_in_any_order_and_after_saving(graph, model, tmp_path):
    """In a store that was imported again, node 0 may be another node."""
    model.save(tmp_path / "model")
    order = np.random.default_rng(1).permutation(300)
    write_store(graph.subgraph(order).replace(name="again"), tmp_path / "store")
    result = score_model(NIGCN.load(tmp_path / "model"), open_store(tmp_path / "store"))
    assert (result.nodes, result.left_out) == (180, 120)


def test_classes_are_matched_by_name(graph, model):
    """The other graph numbers its labels differently, and one is new to the model: it counts as wrong."""
    number = np.array([3, 0, 2])
    labels = number[graph.labels]
    labels[200] = 1
    other = graph.replace(labels=labels, label_names=["dog", "newt", "bird", "cat"])
    result, said = score_model(model, other), model.predict(graph, range(120, 300))
    right = numbers(said) == graph.labels[120:]
    right[200 - 120] = False
    assert result.micro_f1 == pytest.approx(right.mean())
    assert [(c.label, c.support) for c in result.classes][3] == ("newt", 1)


def test_labels_come_from_a_file(graph, model, tmp_path):
    """Node n5 trained the model, so it does not count."""
    rows = "".join(f"n{i},{NAMES[graph.labels[i]]}\n" for i in (5, 299, 130, 131))
    (tmp_path / "new.csv").write_text("node,label\n" + rows)
    result = score_model(model, graph.replace(labels=None, label_names=None), tmp_path / "new.csv")
    assert (result.nodes, result.left_out) == (3, 1)
    expected = np.mean(numbers(model.predict(graph, [130, 131, 299])) == graph.labels[[130, 131, 299]])
    assert result.micro_f1 == pytest.approx(expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("node,label\nn1,cat\nn300,dog\n", r"holds 'n300' in row 2; there is no such node in"),
        ("node,label\nn130,1\n", "the classes of the model are names, the labels of the graph numbers"),
        ("node,label\nn130,\n", "no node has a label"),
        ("node,label\nn1,cat\nn1,dog\n", "expected one label per node"),
    ],
)
def test_a_file_of_labels_that_does_not_fit_is_named(graph, model, tmp_path, content, message):
    (tmp_path / "new.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        score_model(model, graph, tmp_path / "new.csv")


def test_ids_out_of_range_and_arrays_of_another_length_are_named(graph, model, tmp_path):
    plain = graph.replace(node_names=None)
    (tmp_path / "new.csv").write_text("node,label\n300,cat\n")
    with pytest.raises(InputError, match=r"holds 300 in row 1; node ids .* from 0 to 299"):
        score_model(model, plain, tmp_path / "new.csv")
    np.save(tmp_path / "new.npy", np.zeros(7, np.int64))
    with pytest.raises(InputError, match="7 labels for the 300 nodes"):
        score_model(model, plain, tmp_path / "new.npy")


def test_graphs_that_cannot_be_scored_are_refused(graph, model):
    with pytest.raises(InputError, match="has no labels to compare with"):
        score_model(model, graph.replace(labels=None))
    with pytest.raises(InputError, match="has several labels per node, the model was trained with one label per node"):
        score_model(model, graph.replace(labels=np.eye(3, dtype=np.int8)[graph.labels]))


def test_ids_of_another_graph_say_nothing_about_what_was_learned(graph):
    plain = graph.replace(node_names=None)
    model = NIGCN(**PLAIN, engine="exact").fit(plain, train=range(60))
    assert score_model(model, plain).nodes == 240
    with pytest.warns(NodewiseWarning, match=r"not the graph that the model learned from .*300 nodes"):
        assert score_model(model, plain.subgraph(range(200))).nodes == 200


def as_saved_before(folder):
    """Take out of a saved model what earlier versions did not keep."""
    tensors = load_file(folder / saved.TENSORS)
    del tensors["learned_from"]
    save_file(tensors, folder / saved.TENSORS)
    config = json.loads((folder / saved.CONFIG).read_text())
    del config["fitted"]["learned_from"]
    config["tensors_sha256"] = saved.hashlib.sha256((folder / saved.TENSORS).read_bytes()).hexdigest()
    config["config_sha256"] = saved._digest(config)
    (folder / saved.CONFIG).write_text(json.dumps(config))


def test_a_model_saved_earlier_is_scored_on_all_labels_with_a_warning(graph, model, tmp_path):
    model.save(tmp_path / "model")
    as_saved_before(tmp_path / "model")
    again = NIGCN.load(tmp_path / "model")
    with pytest.warns(NodewiseWarning, match="saved before nodewise kept the nodes"):
        assert score_model(again, graph).nodes == 300
    about = describe_model(tmp_path / "model")
    assert "learned_from" not in about
    assert about["classes"] == NAMES
    again.save(tmp_path / "model")  # and can be saved again as it is
    assert NIGCN.load(tmp_path / "model").learned_from_ is None


def test_a_description_has_what_the_model_learned_from_and_its_score(graph, model, tmp_path):
    model.save(tmp_path / "model")
    about, judges = describe_model(tmp_path / "model"), np.arange(60, 120)
    counts = {"graph": graph.name, "nodes": 300, "edges": graph.num_edges, "features": 8, "labels": 120}
    assert about["learned_from"] == counts
    assert about["scores"]["micro_f1"] == pytest.approx(model.score(graph, judges))
    assert (about["scores"]["nodes"], about["scores"]["chose_the_model"]) == (60, True)
    assert sum(about["votes"].values()) == pytest.approx(1)
    assert about["files"]["model.safetensors"] == (tmp_path / "model" / "model.safetensors").stat().st_size


def test_without_validation_nodes_there_is_no_held_out_score(graph):
    assert held_out_score(NIGCN(**PLAIN, engine="exact").fit(graph, train=range(60))) is None
