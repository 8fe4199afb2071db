"""What a row can have besides diffused features: hops apart, raw features, labels in reach, corrections."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from nodewise import NIGCN, Graph, InputError, diffuse, ghd, synthetic
from nodewise.errors import NodewiseWarning
from nodewise.learn.correct_smooth import Mending, best_mending, mended, to_mend_by
from nodewise.learn.head import Head
from nodewise.learn.hop_attention import HopAttention
from nodewise.learn.known import Known, reached, reached_without_own
from nodewise.learn.layout import Layout
from nodewise.learn.recipes import clearly_better

TRAIN, VAL, TEST = np.arange(40), np.arange(40, 140), np.arange(140, 600)
FIXED = dict(omega=1.0, rho=0.3, tau=1.5, epsilon=0.05, layers=2, bias=True, weight_decay=1e-3, epochs=40, patience=20)
HOW = dict(omega=1.0, rho=0.3, tau=1.5, epsilon=0.05)


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(600, avg_degree=6, classes=4, features=12, homophily=0.7, signal=0.6, seed=3)


def onehot(labels, classes=4):
    return np.eye(classes, dtype=np.float32)[labels]


# ---------------------------------------------------------------------- layouts


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize(("raw", "classes", "corrections"), [*itertools.product([False, True], [0, 4], [0, 9])])
def test_parts_lie_side_by_side(hops, raw, classes, corrections):
    layout = Layout(5, hops, raw, classes, corrections)
    ends = [0, *(place.stop for place in layout.spans.values())]
    assert [place.start for place in layout.spans.values()] == ends[:-1]
    assert ends[-1] == layout.width == layout.seen + corrections
    assert layout.spans["diffused"].stop == 5 * hops


def test_each_part_is_finished_in_its_own_way():
    rows = np.arange(1, 13, dtype=np.float32).reshape(1, 12)
    done = Layout(4, raw=True, classes=2, corrections=2).finish(rows, "l2")[0]
    assert np.linalg.norm(done[:4]) == pytest.approx(1)
    assert np.linalg.norm(done[4:8]) == pytest.approx(1)
    assert done[8:10].sum() == pytest.approx(1)
    assert done[10:].tolist() == [11, 12]


# ---------------------------------------------------------------------- what is known in reach


@pytest.mark.parametrize("engine", ["exact", "walks", "stratified"])
def test_known_numbers_are_summed_by_the_weights(graph, engine):
    rng = np.random.default_rng(0)
    known = Known(TRAIN, rng.standard_normal((TRAIN.size, 3)).astype(np.float32))
    found = diffuse(graph, VAL, engine=engine, **HOW)
    expected = found.matrix.toarray()[:, TRAIN] @ known.values
    assert np.allclose(reached(found, known), expected, atol=1e-5)


@pytest.mark.parametrize("group", [7, 1000])
@pytest.mark.parametrize("engine", ["exact", "walks"])
def test_a_target_itself_is_left_out(graph, engine, group):
    known = Known(TRAIN, onehot(graph.labels[TRAIN]))
    walks = {**HOW, "engine": "walks"}
    sums = reached_without_own(diffuse(graph, np.arange(60), engine=engine, **HOW), known, walks, group)
    weights = diffuse(graph, TRAIN, **walks).matrix.toarray()[:, TRAIN]
    assert weights.diagonal().min() > 0
    np.fill_diagonal(weights, 0)
    assert np.allclose(sums[TRAIN], weights @ known.values, atol=1e-6)
    others = diffuse(graph, np.arange(40, 60), engine=engine, **HOW).matrix.toarray()[:, TRAIN]
    assert np.allclose(sums[40:], others @ known.values, atol=1e-5)


# ---------------------------------------------------------------------- label reuse


@pytest.mark.parametrize("engine", ["exact", "walks"])
def test_a_targets_own_label_changes_nothing_in_its_own_input(graph, engine):
    rng = np.random.default_rng(1)
    model = NIGCN(**FIXED, engine=engine, label_reuse=True).fit(graph, TRAIN, VAL)
    rows = model.represent(graph, TRAIN)
    assert rows.shape[1] == graph.num_features + 4
    changed_elsewhere = 0
    for node in rng.choice(TRAIN, 8, replace=False):
        labels = graph.labels.copy()
        labels[node] = (labels[node] + rng.integers(1, 4)) % 4
        shuffled = graph.replace(labels=labels)
        again = NIGCN(**FIXED, engine=engine, label_reuse=True).fit(shuffled, TRAIN, VAL).represent(shuffled, TRAIN)
        assert np.array_equal(rows[node], again[node])
        changed_elsewhere += int((rows != again).any(1).sum())
    assert changed_elsewhere > 8


def test_labels_that_are_not_for_training_are_not_looked_at(graph):
    hidden = np.where(np.isin(np.arange(600), [*TRAIN, *VAL]), graph.labels, -1)
    blind = graph.replace(labels=hidden)
    seeing, not_seeing = (
        NIGCN(**FIXED, label_reuse=True).fit(g, TRAIN, VAL).represent(g, TEST) for g in (graph, blind)
    )
    assert np.array_equal(seeing, not_seeing)


def test_where_features_say_nothing_labels_in_reach_do(graph):
    rng = np.random.default_rng(2)
    noise = graph.replace(features=rng.standard_normal((600, 12)).astype(np.float32))
    train, val, test = np.arange(200), np.arange(200, 300), np.arange(300, 600)
    without, reused = (
        NIGCN(**FIXED, engine="exact", label_reuse=on).fit(noise, train, val).score(noise, test) for on in (False, True)
    )
    assert reused > without + 0.1


def test_inductive_training_reuses_no_labels(graph):
    with pytest.raises(InputError, match="label_reuse"):
        NIGCN(**FIXED, label_reuse=True).fit(graph, TRAIN, VAL, inductive=True)


# ---------------------------------------------------------------------- raw features and hops apart


def test_raw_features_lie_beside(graph):
    model = NIGCN(**FIXED, raw_features=True, engine="exact").fit(graph, TRAIN, VAL)
    rows = model.represent(graph, TEST)
    own = graph.features[TEST] / np.linalg.norm(graph.features[TEST], axis=1, keepdims=True)
    assert np.allclose(rows[:, 12:], own, atol=1e-6)
    assert np.allclose(rows[:, :12], NIGCN(**FIXED, engine="exact").represent(graph, TEST), atol=1e-6)


def test_attention_starts_at_the_ghd(graph):
    shares = ghd(1.0, 0.3, 4)
    bank = diffuse(graph, VAL, length=4, per_hop=True, engine="exact").apply(graph.features)
    torch.manual_seed(0)
    head = Head(12, 4, 8, 2, 0.0, True)
    mixing = HopAttention(head, 12, shares, "l2").eval()
    expected = np.einsum("tlf,l->tf", bank, shares)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    rows = torch.from_numpy(np.ascontiguousarray(bank.transpose(0, 2, 1)).reshape(len(VAL), -1))
    with torch.no_grad():
        assert torch.allclose(mixing(rows), head(torch.from_numpy(expected).float()), atol=1e-5)


def test_hops_that_a_node_does_not_reach_weigh_nothing():
    torch.manual_seed(0)
    head = Head(3, 2, 4, 1, 0.0, True)
    short, long = (HopAttention(head, 3, ghd(1.0, 0.3, hops - 1), "l2").eval() for hops in (2, 4))
    bank = torch.rand(5, 3, 2)
    padded = torch.cat([bank, torch.zeros(5, 3, 2)], 2)
    with torch.no_grad():
        assert torch.allclose(short(bank.reshape(5, -1)), long(padded.reshape(5, -1)), atol=1e-6)


@pytest.mark.parametrize("attentive", [False, True])
def test_attention_can_weigh_hops_node_by_node(attentive):
    """Of half of the nodes hop 0 tells the class, of the other half hop 1, and the other hop is noise."""
    rng = np.random.default_rng(0)
    labels, telling = rng.integers(0, 2, 400), np.arange(400) % 2
    bank = rng.standard_normal((400, 9, 2)).astype(np.float32)
    bank[:, 8, :] = 4 * onehot(telling, 2)  # the hop that tells has a mark
    bank[np.arange(400), 0, telling] = 3 * (2 * labels - 1)
    bank[np.arange(400), 0, 1 - telling] = 3 * (2 * rng.integers(0, 2, 400) - 1)
    rows, labels = torch.from_numpy(bank.reshape(400, -1)), torch.from_numpy(labels)
    torch.manual_seed(0)
    model = HopAttention(Head(9, 2, 8, 1, 0.0, True), 9, np.array([0.5, 0.5]), "none")
    model.query.requires_grad_(attentive)
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], 0.05)
    for _ in range(300):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(rows[:200]), labels[:200]).backward()
        optimizer.step()
    with torch.no_grad():
        right = (model(rows[200:]).argmax(1) == labels[200:]).float().mean()
    assert (right > 0.9) == attentive


# ---------------------------------------------------------------------- correct and smooth


def test_mending_is_what_it_says():
    rng = np.random.default_rng(0)
    weights = rng.random((5, 7)).astype(np.float32)  # of five targets on seven known nodes, the last three unlabelled
    labels, said, guesses = onehot(rng.integers(0, 3, 4), 3), rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), 3)
    proba = rng.dirichlet(np.ones(3), 5).astype(np.float32)
    known = to_mend_by(Known(np.arange(4), labels), said.astype(np.float32), Known(np.arange(4, 7), guesses))
    got = mended(proba, weights @ known.values, Mending(0.5, 0.4))
    for target in range(5):
        w = weights[target]
        residual = sum(w[v] * (labels[v] - said[v]) for v in range(4)) / w[:4].sum()
        better = np.maximum(proba[target] + 0.5 * residual, 0)
        near = sum(w[v] * (labels[v] if v < 4 else guesses[v - 4]) for v in range(7)) / w.sum()
        assert np.allclose(got[target], 0.6 * better / better.sum() + 0.4 * near, atol=1e-5)


def test_a_target_that_reaches_nothing_known_stays_as_it_is():
    proba = np.array([[0.2, 0.8]], np.float32)
    assert np.allclose(mended(proba, np.zeros((1, 5), np.float32), Mending(1.0, 0.8)), proba)


def test_of_equal_mendings_the_least_is_taken():
    proba = np.array([[0.9, 0.1], [0.1, 0.9]], np.float32)
    assert best_mending(proba, np.zeros((2, 5), np.float32), np.array([0, 1])) == Mending(0.0, 0.0)


def test_a_rare_class_counts_as_much_as_a_common_one_where_labels_are_weighed():
    """All neighbours say 0: to smooth gets three common nodes right, and the only one of class 1 wrong."""
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    proba = np.array([[0.45, 0.55]] * 3 + [[0.9, 0.1]] * 4 + [[0.45, 0.55]], np.float32)
    columns = np.tile(np.array([0, 0, 0, 1, 0], np.float32), (8, 1))
    assert best_mending(proba, columns, labels) == Mending(0.0, 0.2)
    weights = np.array([1 / 7] * 7 + [1.0], np.float32)
    assert best_mending(proba, columns, labels, weights) == Mending(0.0, 0.0)


def test_predictions_do_not_depend_on_what_else_is_asked(graph):
    model = NIGCN(**FIXED, engine="exact", correct_and_smooth=True, label_reuse=True).fit(graph, TRAIN, VAL)
    assert model.layout_.corrections == 9
    together = model.predict_proba(graph, TEST)
    alone = np.concatenate([model.predict_proba(graph, [node]) for node in TEST[:20]])
    assert np.allclose(together[:20], alone, atol=1e-5)


def test_where_features_say_nothing_neighbours_labels_mend(graph):
    rng = np.random.default_rng(2)
    noise = graph.replace(features=rng.standard_normal((600, 12)).astype(np.float32))
    train, val, test = np.arange(200), np.arange(200, 300), np.arange(300, 600)
    without, smooth = (
        NIGCN(**FIXED, engine="exact", correct_and_smooth=on).fit(noise, train, val).score(noise, test)
        for on in (False, True)
    )
    assert smooth > without + 0.1


# ---------------------------------------------------------------------- all together

EVERYTHING = dict(hop_attention=True, raw_features=True, label_reuse=True, correct_and_smooth=True)


@pytest.mark.parametrize("parts", [EVERYTHING, *({name: True} for name in EVERYTHING)])
def test_blocks_of_columns_make_the_same_rows(graph, parts):
    model = NIGCN(**FIXED, engine="exact", **parts).fit(graph, TRAIN, VAL)
    blocks = model.blocks(graph, memory="40kB")
    assert len(blocks) > len(model.layout_.spans)
    together = np.hstack([model.represent_block(graph, None, block) for block in blocks])
    assert np.allclose(model.finish_rows(together), model.represent(graph), atol=1e-6)


@pytest.mark.parametrize("engine", ["exact", "walks"])
def test_a_saved_model_knows_what_it_knew(graph, engine, tmp_path):
    model = NIGCN(**FIXED, engine=engine, **EVERYTHING).fit(graph, TRAIN, VAL)
    model.save(tmp_path / "model")
    loaded = NIGCN.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(graph, TEST), model.predict_proba(graph, TEST))
    assert loaded.kept_ == model.kept_


def test_the_validation_score_is_that_of_the_predictions(graph):
    model = NIGCN(**FIXED, engine="exact", **EVERYTHING).fit(graph, TRAIN, VAL)
    assert model.val_f1_ == pytest.approx(model.score(graph, VAL))


def test_asked_in_fit_or_later_gives_the_same(graph):
    model = NIGCN(**FIXED, engine="exact", **EVERYTHING)
    at_once = model.fit_predict_proba(graph, TRAIN, VAL, TEST)
    assert np.allclose(at_once, model.predict_proba(graph, TEST), atol=1e-5)


def test_labels_of_single_nodes_belong_to_their_graph(graph):
    model = NIGCN(**FIXED, label_reuse=True).fit(graph, TRAIN, VAL)
    with pytest.raises(InputError, match="600 nodes"):
        model.predict(graph.subgraph(np.arange(500)))


def test_a_second_fit_forgets_the_first(graph):
    model = NIGCN(**FIXED, **EVERYTHING).fit(graph, TRAIN, VAL)
    fresh = NIGCN(**FIXED).fit(graph, TRAIN, VAL)
    again = model.set_params(**dict.fromkeys(EVERYTHING)).fit(graph, TRAIN, VAL)
    assert np.array_equal(again.predict_proba(graph, TEST), fresh.predict_proba(graph, TEST))
    assert again.layout_ == fresh.layout_ == Layout(12)


# ---------------------------------------------------------------------- does the graph help?


def test_a_graph_that_hurts_is_told_of():
    rng = np.random.default_rng(0)
    clear = synthetic.dcsbm(600, avg_degree=8, classes=4, features=12, homophily=0.7, signal=2.0, seed=3)
    edges = rng.integers(0, 600, (2, 3000))
    opposite = Graph.from_edges(edges[:, clear.labels[edges[0]] != clear.labels[edges[1]]], 600)
    bad = opposite.replace(features=clear.features, labels=clear.labels)
    settings = {
        **FIXED,
        "tau": 3.0,
        "recipe": "full",
        "raw_features": False,
        "hop_attention": False,
        "consistency": 0.0,
    }
    with pytest.warns(NodewiseWarning, match="the graph hurts"):
        NIGCN(**settings).fit(bad, TRAIN, VAL)


def test_one_that_helps_is_not(graph, recwarn):
    NIGCN(epochs=40, patience=20).fit(graph, TRAIN, VAL)
    assert not [w for w in recwarn if "hurts" in str(w.message)]


def test_what_is_clear_is_more_than_a_standard_error():
    before = np.zeros(100, bool)
    after = before.copy()
    after[:10] = True
    assert clearly_better(after, before)
    before[20:27] = True  # 10 gained, 7 lost
    assert not clearly_better(after, before)


def test_sparse_features_have_raw_rows_too(graph):
    sparse = graph.replace(features=sp.csr_matrix(np.maximum(graph.features, 0)))
    model = NIGCN(**FIXED, raw_features=True, engine="exact").fit(sparse, TRAIN, VAL)
    assert model.represent(sparse, TEST).shape == (460, 24)
