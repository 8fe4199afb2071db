"""Graphs and labels that a user may well have: each does something sensible, and says so."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise import NIGCN, Graph, NodewiseWarning, load, write_store
from nodewise.graph import synthetic
from nodewise.graph.splits import held_out_split
from nodewise.learn.task import RANDOM_COLUMNS, featured


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(400, avg_degree=10, classes=3, homophily=0.9, features=12, signal=2.0, seed=4)


def trained(run, graph, tmp_path, *options):
    write_store(graph, tmp_path / "store")
    return run("train", tmp_path / "store", "-o", tmp_path / "model", "--epochs", "20", *options)


def with_labels(graph, labels):
    known = np.full(graph.num_nodes, -1)
    known[: len(labels)] = labels
    return graph.replace(labels=known)


def test_a_class_of_one_node_trains_and_is_not_tested(run, graph, tmp_path):
    labels = graph.labels.copy()
    labels[7] = 9
    code, out, err = trained(run, graph.replace(labels=labels), tmp_path)
    assert code == 0, err
    assert "test micro-F1" in out
    assert "classes without test nodes: 9\n" in out
    assert 9 in NIGCN.load(tmp_path / "model").classes_


def test_two_labelled_nodes_give_a_model_and_no_score(run, graph, tmp_path):
    code, out, err = trained(run, with_labels(graph, [0, 1]), tmp_path)
    assert code == 0, err
    assert "2 training, 0 validation and 0 test nodes" in out
    assert "no test nodes, so no score" in out
    assert set(NIGCN.load(tmp_path / "model").predict(graph)) <= {0, 1}


def test_more_classes_than_most_have_labels_still_trains(run, graph, tmp_path):
    code, out, err = trained(run, with_labels(graph, np.arange(8)), tmp_path)
    assert code == 0, err
    assert "no test nodes" in out


def test_one_class_is_a_warning(run, graph, tmp_path):
    code, _, err = trained(run, with_labels(graph, np.zeros(50, int)), tmp_path)
    assert code == 0, err
    assert "every label to learn from is 0" in err


def test_a_single_label_gives_a_model_and_no_warning_but_ours(run, graph, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code, _, err = trained(run, with_labels(graph, [1]), tmp_path)
    assert code == 0, err
    assert "every label to learn from is 1" in err
    assert not caught
    assert set(NIGCN.load(tmp_path / "model").predict(graph)) == {1}


def test_more_classes_than_fit_into_memory_are_refused_before_the_work(run, tmp_path):
    """Ten copies of the answers for 9 penalties, 1,000 nodes and 1,000 classes, 8 bytes each."""
    graph = synthetic.dcsbm(1000, avg_degree=4, classes=2, features=3, seed=0).replace(labels=np.arange(1000))
    code, _, err = trained(run, graph, tmp_path, "--memory", "400MB")
    assert code == 2
    assert "learning to tell 1,000 classes apart takes at least 720 MB; pass --memory 720MB" in err
    assert not (tmp_path / "model").exists()


def test_features_that_are_all_zero_give_equal_chances(graph):
    nothing = graph.replace(features=np.zeros((400, 5), np.float32))
    model = NIGCN(epochs=10).fit(nothing, range(60), range(60, 160))
    proba = model.predict_proba(nothing, range(160, 400))
    assert np.isfinite(proba).all()
    assert np.allclose(proba, proba[0], atol=1e-5)


def test_a_time_budget_of_a_second_is_kept_to_or_warned_about(run, graph, tmp_path):
    code, out, err = trained(run, graph, tmp_path, "--time-budget", "1")
    assert code == 0, err
    assert "test micro-F1" in out


def test_a_graph_of_edges_and_labels_alone_is_learned_from(run, graph, tmp_path):
    code, _, err = trained(run, graph.replace(features=None), tmp_path)
    assert code == 0, err
    assert "the graph has no features: a random vector per node is used instead" in err
    assert run("predict", tmp_path / "model", tmp_path / "store", "-o", tmp_path / "labels.csv")[0] == 0
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 401


# ---------------------------------------------------------------------- no features


def test_random_vectors_do_not_depend_on_the_order_of_named_nodes():
    edges = np.array([[0, 1, 2], [1, 2, 3]])
    names = ["ann", "bob", "cid", "dee"]
    one = featured(Graph.from_edges(edges, node_names=names)).features.toarray()
    two = featured(Graph.from_edges(3 - edges, node_names=names[::-1])).features.toarray()
    assert np.array_equal(one, two[::-1])


def test_random_vectors_are_one_number_each_spread_over_the_columns():
    """Of 100,000 a column holds 98 on average; by Chernoff and a union bound none has 50 or 170 but 1 time in 10^4."""
    graph = Graph.from_edges(np.zeros((2, 0), np.int64), num_nodes=100_000)
    vectors = featured(graph).features
    assert vectors.nnz == 100_000
    counts = np.bincount(vectors.indices, minlength=RANDOM_COLUMNS)
    assert counts.min() > 50
    assert counts.max() < 170
    assert abs(vectors.data.mean()) < 0.02  # six standard errors: as many signs of either kind


def test_nearness_alone_finds_classes_nearly_as_well_as_the_identity_matrix():
    graph = synthetic.dcsbm(1500, avg_degree=12, classes=4, homophily=0.9, seed=5).replace(features=None)
    place = graph.replace(features=sp.identity(1500, format="csr", dtype=np.float32))
    scores = [NIGCN().fit(g, range(200), range(200, 350)).score(g, range(350, 1500)) for g in (graph, place)]
    assert scores[0] > max(0.8, scores[1] - 0.05)


def test_a_graph_is_given_its_vectors_once():
    graph = Graph.from_edges(np.array([[0, 1], [1, 2]]))
    assert featured(graph) is featured(graph)
    assert featured(featured(graph)) is featured(graph)


def test_blogcatalog_without_features_and_several_labels(data_dir):
    """The threshold needs no number of labels; a third of the way to what the identity matrix reaches in minutes."""
    graph = load("blogcatalog-multilabel", data_dir)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    model = NIGCN(epochs=20).fit(graph, order[:1000], order[1000:1250])
    assert model.score(graph, order[-1000:]) > 0.2
    assert model.predict(graph, order[-100:]).any(1).all()


# ---------------------------------------------------------------------- held-out splits


@pytest.mark.parametrize("seed", range(3))
def test_held_out_parts_are_disjoint_and_cover_all_labels(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 12, rng.integers(5, 400))
    split = held_out_split(labels, seed)
    together = np.concatenate(split)
    assert np.array_equal(np.sort(together), np.flatnonzero(labels >= 0))
    for label in np.unique(labels[labels >= 0]):
        sizes = [int((labels[part] == label).sum()) for part in split]
        assert sizes[0] >= max(sizes[1:])
        assert abs(sizes[1] - sum(sizes) / 5) <= 1


def test_no_more_are_held_out_than_a_score_needs(monkeypatch):
    monkeypatch.setattr("nodewise.graph.splits.MOST_HELD_OUT", 10)
    split = held_out_split(np.zeros(200, int))
    assert [part.size for part in split] == [180, 10, 10]


def test_unknown_labels_alone_are_refused(run, graph, tmp_path):
    code, _, err = trained(run, graph.replace(labels=np.full(400, -1)), tmp_path)
    assert code == 2
    assert "none is known" in err


def test_warnings_name_classes_without_training_nodes(graph):
    labels = graph.labels.copy()
    labels[200] = 5
    with pytest.warns(NodewiseWarning, match="1 of 4 classes have no training node"):
        NIGCN(epochs=4).fit(graph.replace(labels=labels), range(60), range(150, 250))
