"""What recipe="full" adds, part by part."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nodewise import NIGCN, InputError, NodewiseWarning, synthetic
from nodewise.learn import nigcn, self_tuning, stages, trainer
from nodewise.learn.consistency import CONFIDENT, TEMPERATURE, Consistency, disagreement
from nodewise.learn.head import Head
from nodewise.learn.metrics import macro_f1
from nodewise.learn.nigcn import MOST_DRAWN
from nodewise.learn.recipes import clearly_better
from nodewise.learn.self_training import PseudoLabels, brought_to, confident, shares_of
from nodewise.learn.stages import Learner, Lesson, Stage, Verdict
from nodewise.learn.trainer import balancing_weights, loss_of, score_of

TRAIN, VAL, TEST = np.arange(20), np.arange(20, 120), np.arange(120, 800)
QUICK = {
    "epsilon": 0.05,
    "epochs": 60,
    "patience": 30,
    "engine": "exact",
    "layers": 2,
    "bias": True,
    "weight_decay": 1e-3,
}
OFF = {
    "heads": 1,
    "hop_attention": False,
    "raw_features": False,
    "label_reuse": False,
    "consistency": 0.0,
    "self_training": 0,
    "class_shares": False,
    "correct_and_smooth": False,
}


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(800, avg_degree=6, classes=4, features=24, homophily=0.7, signal=0.6, seed=2)


@pytest.fixture(scope="module")
def full(graph):
    return NIGCN(**QUICK, recipe="full").fit(graph, TRAIN, VAL)


# ---------------------------------------------------------------------- consistency


def test_disagreement_is_the_distance_from_the_sharpened_average():
    rng = np.random.default_rng(0)
    outs = rng.normal(0, 3, (2, 5, 3))
    proba = np.exp(outs) / np.exp(outs).sum(-1, keepdims=True)
    expected = 0.0
    for node in range(5):
        average = proba[:, node].mean(0)
        if average.max() > CONFIDENT:
            sharp = average ** (1 / TEMPERATURE) / np.sum(average ** (1 / TEMPERATURE))
            expected += np.sum((proba[:, node] - sharp) ** 2)
    assert expected > 0
    assert disagreement(torch.from_numpy(outs), False).item() == pytest.approx(expected / 10)


def test_draws_that_agree_and_are_sure_cost_nothing():
    outs = torch.tensor([[[30.0, 0.0], [0.0, 30.0]]] * 2)
    assert disagreement(outs, False).item() == pytest.approx(0, abs=1e-9)
    assert disagreement(torch.tensor([[[30.0, -30.0]]] * 2), True).item() == pytest.approx(0, abs=1e-9)


def test_a_target_teaches_and_does_not_learn():
    outs = torch.tensor([[[2.0, 0.0]], [[1.5, 0.0]]], requires_grad=True)
    disagreement(outs, False).backward()
    assert outs.grad[0, 0, 0] < 0  # each draw moves towards the sharper average
    assert outs.grad[1, 0, 0] < outs.grad[0, 0, 0]


def test_the_loss_of_known_labels_is_that_of_two_draws():
    torch.manual_seed(0)
    head, labels = Head(6, 3, 8, 2, 0.0, True), torch.tensor([0, 1, 2])
    draws = [torch.randn(3, 6) for _ in range(2)]
    with_others = [torch.cat([draw, torch.randn(4, 6)]) for draw in draws]
    expected = (loss_of(head(draws[0]), labels) + loss_of(head(draws[1]), labels)) / 2
    assert Consistency(with_others, labels, 0.0, 0)(head).item() == pytest.approx(expected.item(), abs=1e-6)


# ---------------------------------------------------------------------- self-training


def test_of_every_class_the_surest_are_taken():
    proba = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.45, 0.55]])
    places, labels = confident(proba, 0.5)
    assert places.tolist() == [0, 1, 3]
    assert labels.tolist() == [0, 0, 1]


def test_pseudo_labels_cost_what_labels_cost():
    torch.manual_seed(0)
    head, rows, labels = Head(6, 3, 8, 2, 0.0, True), torch.randn(9, 6), torch.randint(0, 3, (9,))
    assert PseudoLabels(rows, labels, 0)(head).item() == pytest.approx(loss_of(head(rows), labels).item(), abs=1e-6)


# ---------------------------------------------------------------------- classes as common as they are


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(2, 6))
def test_classes_are_brought_to_their_shares_by_one_factor_each(seed, rows, classes):
    rng = np.random.default_rng(seed)
    proba = torch.from_numpy(rng.dirichlet(np.ones(classes), rows)).clamp_min(1e-6)
    proba = proba / proba.sum(1, keepdim=True)
    shares = torch.from_numpy(rng.dirichlet(np.full(classes, 5.0)))
    done = brought_to(proba, shares)
    assert torch.allclose(done.sum(1), torch.ones(rows, dtype=torch.float64))
    assert torch.allclose(done.mean(0), shares, atol=1e-3)
    odds = torch.log(done / proba)  # a row's own scale and a class's factor: differences of columns are the same in all
    assert torch.allclose(odds - odds[:, :1], (odds - odds[:, :1])[:1].expand(rows, classes), atol=1e-6)


def test_shares_right_already_change_nothing():
    proba = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    assert torch.equal(brought_to(proba, proba.mean(0)), proba)


def test_rare_classes_get_fewer_nodes_where_the_network_gives_them_too_many():
    """Three of four nodes lean to class 0 by a little, which one node in four belongs to."""
    proba = torch.tensor([[0.9, 0.1], [0.55, 0.45], [0.52, 0.48], [0.1, 0.9]])
    assert (brought_to(proba, torch.tensor([0.25, 0.75])).argmax(1) == 0).tolist() == [True, False, False, False]


def test_labels_tell_shares_unless_they_were_chosen_class_by_class():
    assert shares_of(torch.tensor([2, 2, 2, 0, 0]), 3).tolist() == pytest.approx([3 / 8, 1 / 8, 4 / 8])
    assert shares_of(torch.arange(9) % 3, 3) is None
    assert shares_of(torch.arange(10) % 3, 3) is None


def test_shares_reach_what_self_training_teaches():
    taught = []

    class Recording(Judge):
        def trained(self, losses):
            taught.extend(make(0).labels.tolist() for make in losses)
            return super().trained(losses)

        def proba(self, networks, rows):
            return torch.tensor([[0.9, 0.1]] * 5 + [[0.55, 0.45]] * 10 + [[0.1, 0.9]] * 5)

    for shares in (None, torch.tensor([0.25, 0.75])):
        lesson = Lesson(Recording(50, 60))
        lesson.teach_itself(torch.zeros(20, 1), 1, False, [shares])
        assert ("class shares" in lesson.kept) == (shares is not None)
    assert [labels.count(0) for labels in taught] == [9, 3]  # six in ten, the surest, of 15 and of 5


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ((50, 60, 70), ["self-training 1", "class shares", "self-training 2"]),
        ((50, 40, 60, 70), ["self-training 1", "self-training 2"]),  # better without shares, and so from then on
        ((50, 40, 30), []),
    ],
)
def test_shares_that_make_it_worse_are_dropped(scores, kept):
    class Learned(Judge):
        def proba(self, networks, rows):
            return torch.eye(2)

    lesson = Lesson(Learned(*scores))
    lesson.teach_itself(torch.eye(2), 2, False, [torch.tensor([0.4, 0.6]), None])
    assert lesson.kept == kept


def test_shares_that_the_recipe_adds_can_be_dropped_where_self_training_is_certain():
    class Learned(Judge):
        def proba(self, networks, rows):
            return torch.eye(2)

    for scores, left in (((90, 10, 80), 80), ((90, 95, 80), 95)):
        lesson = Lesson(Learned(*scores))
        lesson.teach_itself(torch.eye(2), 1, True, [torch.tensor([0.4, 0.6]), None])
        assert [network.right for network in lesson.networks] == [left]


def test_where_no_node_is_unlabelled_what_was_asked_for_is_told_of(graph):
    with pytest.warns(NodewiseWarning, match="self_training: there are no unlabelled nodes"):
        NIGCN(**{**QUICK, "epochs": 5}, self_training=1, unlabelled=0).fit(graph, TRAIN, VAL)


@pytest.mark.parametrize("val", [None, np.concatenate([np.arange(c, 400, 4)[:20] for c in range(4)])])
def test_shares_that_nothing_tells_are_left_out_or_refused(graph, val):
    """Where there is nothing to tell them the recipe does without, and who asked for them by name is told."""
    by_class = graph.replace(labels=np.arange(800) % 4)
    train = np.arange(400, 440)
    model = NIGCN(**{**QUICK, "epochs": 5}, recipe="full").fit(by_class, train, val)
    assert "class shares" not in model.kept_
    with pytest.raises(InputError, match="class_shares=True: validation nodes"):
        NIGCN(**{**QUICK, "epochs": 5}, recipe="full", class_shares=True).fit(by_class, train, val)


def test_shares_without_self_training_are_refused(graph):
    with pytest.raises(InputError, match="self_training=1"):
        NIGCN(**QUICK, class_shares=True).fit(graph, TRAIN, VAL)


# ---------------------------------------------------------------------- who judges


def test_networks_are_judged_by_the_half_that_they_did_not_stop_on():
    """Two networks that know the labels of the half that stopped them, and nothing else, have no label right."""
    labels = torch.tensor([0, 1] * 6)
    rows = torch.eye(12)

    class Knows(torch.nn.Module):
        def __init__(self, places):
            super().__init__()
            self.places = places

        def forward(self, rows):
            said = torch.nn.functional.one_hot(labels[rows.argmax(1)], 2).float()
            return torch.where(torch.isin(rows.argmax(1), self.places)[:, None], said, 1 - said)

    def train(vals, losses):
        return torch.nn.ModuleList([Knows(val[0].argmax(1)) for val in vals]), 0

    def proba(networks, rows):
        return torch.stack([network(rows) for network in networks]).mean(0)

    crossed, alone = (Learner(train, proba, (rows, labels), on) for on in (True, False))
    assert crossed.right(crossed.trained([])[0]).sum() == 0
    assert alone.right(alone.trained([])[0]).sum() == 12


@pytest.mark.parametrize("heads", [2, 3, 5])
def test_networks_that_joined_are_still_judged_by_the_other_half(heads):
    """However many there are a stage: half is what a network knows."""
    labels, rows = torch.arange(40) % 3, torch.arange(40.0)[:, None]

    class Half(torch.nn.Module):
        def __init__(self, places):
            super().__init__()
            self.places = set(places.ravel().tolist())

    def train(vals, losses):
        return torch.nn.ModuleList([Half(vals[i % 2][0]) for i in range(heads)]), 0

    def proba(networks, rows):
        assert all(not network.places & set(rows.ravel().tolist()) for network in networks)
        return torch.zeros(len(rows), 3)

    learner = Learner(train, proba, (rows, labels), True)
    first, second = learner.trained([])[0], learner.trained([])[0]
    assert learner.right(torch.nn.ModuleList([*first, *second])).size == 40


def test_verdicts_count_classes_the_same_where_they_are_to():
    common, rare = np.zeros(90, bool), np.zeros(10, bool)
    before = np.concatenate([~common, rare])  # knows the common class alone
    after = np.concatenate([np.arange(90) >= 12, ~rare])  # and this one the rare one, for some of the common
    labels = np.repeat([0, 1], [90, 10])
    weights = balancing_weights(torch.from_numpy(labels)).numpy()[labels]
    assert not clearly_better(after, before)
    assert clearly_better(after, before, weights=weights)
    assert not clearly_better(before, after, weights=weights)


# ---------------------------------------------------------------------- classes that are rare


def test_balanced_loss_is_the_mean_of_the_classes_means():
    torch.manual_seed(0)
    out, labels = torch.randn(30, 3), torch.tensor([0] * 20 + [1] * 8 + [2] * 2)
    expected = np.mean([loss_of(out[labels == c], labels[labels == c]).item() for c in range(3)])
    right = np.mean([(out[labels == c].argmax(1) == c).double().mean().item() for c in range(3)])
    weights = balancing_weights(labels)
    assert loss_of(out, labels, weights).item() == pytest.approx(expected, abs=1e-6)
    assert score_of(out, labels, weights) == pytest.approx((right, -expected), abs=1e-6)


def test_balanced_labels_that_are_there_count_as_much_as_where_they_are_not():
    torch.manual_seed(0)
    out, labels = torch.randn(40, 2), torch.zeros(40, 2)
    labels[:4, 0] = labels[:30, 1] = 1
    each = torch.nn.functional.binary_cross_entropy_with_logits(out, labels, reduction="none")
    balanced = loss_of(out, labels, balancing_weights(labels)) * 40 * 2
    expected = sum(
        each[labels[:, c] == 0, c].sum() + each[labels[:, c] == 1, c].mean() * (40 - labels[:, c].sum()) for c in (0, 1)
    )
    assert balanced.item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_rare_class_is_found_when_all_count_the_same(graph):
    common = np.flatnonzero(graph.labels != 3)
    rare = np.flatnonzero(graph.labels == 3)
    train, val = np.concatenate([common[:150], rare[:6]]), np.concatenate([common[150:300], rare[6:16]])
    test = np.setdiff1d(np.arange(800), np.concatenate([train, val]))
    found = []
    for weight in (None, "balanced"):
        model = NIGCN(**QUICK, omega=1.0, rho=0.5, tau=1.0, class_weight=weight).fit(graph, train, val)
        predicted = model.predict(graph, test)
        found.append(macro_f1(graph.labels[test], predicted))
    assert found[1] > found[0]


# ---------------------------------------------------------------------- in the estimator


def test_each_part_is_off_in_the_papers_recipe(graph):
    paper = NIGCN(**QUICK).fit(graph, TRAIN, VAL)
    off = NIGCN(**QUICK, recipe="full", **OFF).fit(graph, TRAIN, VAL)
    assert paper.kept_ == off.kept_ == []
    assert np.array_equal(paper.predict_proba(graph, TEST), off.predict_proba(graph, TEST))


def test_the_full_recipe_says_what_it_kept(graph, full):
    paper = NIGCN(**QUICK).fit(graph, TRAIN, VAL)
    assert full.epochs_ > paper.epochs_
    assert set(full.kept_) <= {"hop attention", "raw features", "label reuse", "consistency", "self-training 1",
                               "class shares", "correct and smooth"}  # fmt: skip


class Known(torch.nn.Module):
    """A network of which it is known how many of 100 validation labels it has right."""

    def __init__(self, right):
        super().__init__()
        self.right = right


class Judge:
    """A learner whose networks come with their number of right labels."""

    def __init__(self, *scores):
        self.scores = iter(scores)

    def trained(self, losses):
        return torch.nn.ModuleList([Known(next(self.scores))]), 10

    def right(self, networks):
        return np.arange(100) < np.mean([network.right for network in networks])


@pytest.mark.parametrize(
    ("score", "verdict", "left"),
    [(60, Verdict.BETTER, [60]), (51, Verdict.UNCLEAR, [50, 51]), (40, Verdict.WORSE, [50])],
)
def test_the_better_networks_stay_and_both_where_that_is_not_clear(score, verdict, left):
    lesson = Lesson(Judge(50, score))
    assert lesson.try_with(Stage("it", False), None) is verdict
    assert [network.right for network in lesson.networks] == left
    assert lesson.kept == (["it"] if verdict is not Verdict.WORSE else [])
    assert lesson.epochs == 20


@pytest.mark.parametrize(("score", "left"), [(60, [60]), (51, [51]), (40, [50])])
def test_heirs_take_the_place_of_those_they_learned_from_unless_they_are_worse(score, left):
    lesson = Lesson(Judge(50, score))
    lesson.try_with(Stage("it", False, heirs=True), None)
    assert [network.right for network in lesson.networks] == left


def test_consistency_asked_for_by_name_stays_while_the_network_teaches_itself():
    used = []

    class Recording(Judge):
        def trained(self, losses):
            used.append([type(make(0)).__name__ for make in losses])
            return super().trained(losses)

        def proba(self, networks, rows):
            return torch.eye(4)

    for certain in (True, False):
        lesson = Lesson(Recording(50, 51, 52))
        lesson.agree([torch.eye(4)] * 2, torch.tensor([0, 1]), 1.0, certain)
        lesson.teach_itself(torch.eye(4), 1, certain)
    assert used == [[], ["Consistency"], ["Consistency", "PseudoLabels"], [], ["Consistency"], ["PseudoLabels"]]


def test_what_is_asked_for_by_name_is_done():
    lesson = Lesson(Judge(50, 10))
    assert lesson.try_with(Stage("it", True), None) is Verdict.BETTER
    assert [network.right for network in lesson.networks] == [10]


@pytest.mark.parametrize("part", [{"consistency": 5.0}, {"self_training": 1}])
def test_a_part_alone_can_be_had(graph, part):
    fitted = NIGCN(**QUICK, **part).fit(graph, TRAIN)  # without validation nodes every step is kept
    assert len(fitted.kept_) == 1
    assert fitted.score(graph, TEST) > 0.35  # of four classes


def test_unlabelled_nodes_teach(graph):
    """Their labels are hidden from the model, so what helps is their rows."""
    hidden = np.where(np.isin(np.arange(800), [*TRAIN, *VAL]), graph.labels, -1)
    blind = graph.replace(labels=hidden)
    fitted = NIGCN(**QUICK, recipe="full").fit(blind, TRAIN, VAL)
    seeing = NIGCN(**QUICK, recipe="full").fit(graph, TRAIN, VAL)
    assert np.array_equal(fitted.predict_proba(blind, TEST), seeing.predict_proba(graph, TEST))


def test_inductive_training_takes_unlabelled_nodes_from_its_part_alone(graph):
    part = np.arange(300)
    model = NIGCN(**QUICK, recipe="full")
    chosen = model._unlabelled(graph, [TRAIN, VAL], True, part)
    assert chosen.max() < 300
    assert np.intersect1d(chosen, np.concatenate([TRAIN, VAL])).size == 0


def test_where_classes_are_balanced_so_are_all_choices(graph, monkeypatch):
    """Of row parts, stages and corrections, of hop weights, of the epoch to stop at, and of whether the graph helps."""
    weighed = {"verdicts": [], "stops": [], "hops": []}

    def better(right, before, errors=1.0, weights=None):
        weighed["verdicts"].append(weights)
        return False

    def score(head, rows, weights=None):
        weighed["stops"].append(weights)
        return plain(head, rows, weights)

    def learn(*banks, balanced, **how):
        weighed["hops"].append(balanced or None)
        return plain_learn(*banks, balanced=balanced, **how)

    plain, plain_learn = trainer.score_of_rows, self_tuning.learn_hop_weights
    monkeypatch.setattr(trainer, "score_of_rows", score)
    monkeypatch.setattr(self_tuning, "learn_hop_weights", learn)
    for module in (nigcn, stages):
        monkeypatch.setattr(module, "clearly_better", better)
    for class_weight in ("balanced", None):
        NIGCN(**QUICK, recipe="full", class_weight=class_weight).fit(graph, TRAIN, VAL)
        assert all(weighed.values())
        for asked in weighed.values():
            assert all((weights is None) == (class_weight is None) for weights in asked)
            asked.clear()


def test_inductive_training_draws_walks_in_its_part_alone(graph, monkeypatch):
    seen, plain = [], NIGCN._draws

    def draws(self, graph, nodes):
        seen.append((graph.num_nodes, nodes.max()))
        return plain(self, graph, nodes)

    monkeypatch.setattr(NIGCN, "_draws", draws)
    NIGCN(**QUICK, consistency=1.0).fit(graph, TRAIN, VAL, inductive=True, part=np.arange(300))
    [(nodes, last)] = seen
    assert nodes == 300
    assert last < 300


def test_unlabelled_nodes_come_from_anywhere(graph):
    chosen = NIGCN(recipe="full", unlabelled=100)._unlabelled(graph, [TRAIN, VAL], False, None)
    assert chosen.size == np.unique(chosen).size == 100
    assert chosen.max() > 700  # 100 of 680 all below 700 has a chance of 1e-6 and less
    assert np.intersect1d(chosen, np.concatenate([TRAIN, VAL])).size == 0


def test_a_saved_model_predicts_the_same(graph, full, tmp_path):
    full.save(tmp_path / "model")
    assert np.array_equal(NIGCN.load(tmp_path / "model").predict_proba(graph, TEST), full.predict_proba(graph, TEST))


@pytest.mark.parametrize(
    "wrong",
    [
        {"recipe": "best"},
        {"consistency": -1.0},
        {"self_training": -1},
        {"self_training": 1.5},
        {"unlabelled": -3},
        {"class_weight": "even"},
        {"heads": 0},
    ],
)
def test_a_part_that_cannot_be_is_refused(graph, wrong):
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name}="):
        NIGCN(**wrong).fit(graph, TRAIN, VAL)


@pytest.mark.parametrize("part", [{"self_training": 1}, {"correct_and_smooth": True}])
def test_parts_for_one_label_a_node_are_refused_where_there_are_several(graph, part):
    several = graph.replace(labels=np.stack([graph.labels == c for c in range(4)], 1).astype(np.int8))
    (name,) = part
    with pytest.raises(InputError, match=name):
        NIGCN(**QUICK, **part).fit(several, TRAIN, VAL)
    NIGCN(**{**QUICK, "epochs": 5}, recipe="full").fit(several, TRAIN, VAL)  # what a recipe adds is left out


def test_the_recipe_draws_no_more_walks_than_memory_likes():
    assert NIGCN(recipe="full")._wants_draws(MOST_DRAWN)
    assert not NIGCN(recipe="full")._wants_draws(MOST_DRAWN + 1)
    assert NIGCN(consistency=1.0)._wants_draws(MOST_DRAWN + 1)
    assert not NIGCN()._wants_draws(1)


def test_many_known_labels_are_taken_a_part_at_a_time(monkeypatch):
    seen = []

    class Counts(torch.nn.Module):
        def forward(self, rows):
            seen.append(rows.shape[0])
            return rows[:, :2]

    monkeypatch.setattr("nodewise.learn.consistency.LARGE", 5)
    draws = [torch.rand(20, 2) for _ in range(2)]
    Consistency(draws, torch.arange(12) % 2, 1.0, 0)(Counts())
    assert seen == [5, 5, 8, 8]
