"""Rows and training beyond memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nodewise import NIGCN, StoreError
from nodewise.diffusion import exact
from nodewise.graph import checks, synthetic
from nodewise.graph.checks import present_labels
from nodewise.learn import rows, trainer
from nodewise.learn.heads import Heads
from nodewise.learn.rows import DiffusedRows

DIFFUSION = {"omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.1, "feature_norm": "l1"}
FAST = {**DIFFUSION, "layers": 2, "weight_decay": 5e-3, "teach": False, "epochs": 30, "seed": 0}


@pytest.fixture(scope="module")
def graph():
    return synthetic.dcsbm(3000, avg_degree=10, classes=3, features=24, seed=1)


def split(graph):
    return np.arange(0, 600), np.arange(600, 900), np.arange(900, graph.num_nodes)


@pytest.mark.parametrize("engine", ["exact", "walks"])
def test_rows_in_a_file_are_the_rows_in_memory(graph, engine, monkeypatch):
    model = NIGCN(engine=engine, **FAST)
    inside = model.represent(graph)
    monkeypatch.setattr(exact, "MOST_BYTES", 1)  # threads share blocks of columns, as on a large graph
    monkeypatch.setattr(rows, "STEP_BYTES", 1 << 14)
    outside = NIGCN(engine=engine, memory="250kB", **FAST).represent(graph)
    assert isinstance(outside, np.memmap)
    assert np.array_equal(inside, outside)


@pytest.mark.parametrize("engine", ["exact", "walks"])
def test_training_from_a_file_learns_the_same(graph, engine):
    train, val, test = split(graph)
    inside = NIGCN(engine=engine, **FAST).fit(graph, train, val)
    outside = NIGCN(engine=engine, memory="40kB", **FAST).fit(graph, train, val)
    assert np.array_equal(inside.predict_proba(graph, test), outside.predict_proba(graph, test))


def test_blocks_put_together_and_finished_are_the_rows(graph, monkeypatch):
    monkeypatch.setattr(exact, "MOST_BYTES", 1)
    maker = NIGCN(engine="exact", memory=5 * exact.COLUMN_BYTES * graph.num_nodes, **FAST).row_maker
    blocks, everyone = maker.blocks(graph), np.arange(graph.num_nodes)
    assert len(blocks) == 5
    together = np.hstack([maker.represent_block(graph, everyone, block) for block in blocks])
    assert np.array_equal(maker.finish(graph, everyone, together), maker.rows(graph, everyone))
    few = np.array([5, 2, 5])
    assert np.array_equal(maker.finish(graph, few, together[few]), maker.rows(graph, everyone)[few])
    assert len(replace(maker, params=replace(maker.params, memory="2MB")).blocks(graph)) == 1


def test_sampled_rows_are_made_for_any_few_nodes(graph):
    assert NIGCN(engine="walks").row_maker.blocks(graph) is None
    assert (
        NIGCN(engine="exact").row_maker.blocks(graph, np.array([1, 2])) is None
    )  # so few are cheaper than all features


def test_many_targets_go_in_groups_that_fit_the_memory(graph, monkeypatch):
    whole = NIGCN(engine="walks", **FAST).represent(graph, range(100))
    sizes = []
    plain = DiffusedRows.represent
    monkeypatch.setattr(DiffusedRows, "represent", lambda self, g, n: sizes.append(n.size) or plain(self, g, n))
    assert np.array_equal(NIGCN(engine="walks", memory="60kB", **FAST).represent(graph, range(100)), whole)
    assert len(sizes) > 5
    assert sum(sizes) == 100


def test_so_they_do_before_an_engine_is_chosen(graph, monkeypatch):
    whole, sizes, plain = NIGCN(**FAST).represent(graph, range(20)), [], DiffusedRows.represent
    monkeypatch.setattr(DiffusedRows, "represent", lambda self, g, n: sizes.append(n.size) or plain(self, g, n))
    assert NIGCN(**FAST).row_maker.settled(graph, np.arange(20)).params.engine != "exact"
    assert np.array_equal(NIGCN(memory="60kB", **FAST).represent(graph, range(20)), whole)
    assert sum(sizes) == 20
    assert len(sizes) > 1


def test_rows_of_inductive_training_stay_in_their_files(graph, monkeypatch):
    train, val, _ = split(graph)
    made, plain = [], rows.new_rows
    monkeypatch.setattr(rows, "new_rows", lambda *args: made.append(plain(*args)) or made[-1])
    NIGCN(engine="walks", memory="40kB", **FAST).fit(graph, train, val, inductive=True, part=np.arange(900))
    assert [part.shape for part in made] == [(600, 24), (300, 24)]
    assert all(isinstance(part, np.memmap) for part in made)


def test_a_full_disk_says_how_much_the_rows_need(monkeypatch, tmp_path):
    monkeypatch.setattr(rows.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.raises(StoreError, match=r"rows for 1,000,000,000,000 nodes take 512 TB, and .* are free; free some"):
        rows.new_rows(10**12, 128, 0)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- batches


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 40), st.integers(1, 9))
def test_an_epoch_sees_every_row_once(count, size, window, run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "WINDOW", window)
        patch.setattr(trainer, "RUN", min(run, window))
        pairs = torch.arange(count)[:, None].float(), torch.arange(count)
        seen = list(trainer._batches(pairs, size, torch.Generator()))
    assert sorted(int(i) for _, labels in seen for i in labels) == list(range(count))
    assert all(torch.equal(features[:, 0].long(), labels) for features, labels in seen)
    assert all(labels.numel() <= size for _, labels in seen) or len(seen) == 1


def test_streamed_batches_come_in_a_new_order_each_time(monkeypatch):
    monkeypatch.setattr(trainer, "WINDOW", 64)
    monkeypatch.setattr(trainer, "RUN", 4)
    pairs = torch.arange(500)[:, None].float(), torch.arange(500)
    draw = torch.Generator()
    first, second = (torch.cat([labels for _, labels in trainer._batches(pairs, 10, draw)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.corrcoef(torch.stack([first.float(), torch.arange(500.0)]))[0, 1].abs() < 0.3


def test_scores_of_validation_rows_do_not_depend_on_the_parts_they_come_in(monkeypatch):
    torch.manual_seed(0)
    head = Heads(1, 4, 3, 1, 1, 0.0, bias=True)
    pairs = torch.randn(101, 4), torch.randint(0, 3, (101,))
    whole = trainer.scores_of_rows(head, pairs)[0]
    monkeypatch.setattr(trainer, "WINDOW", 7)
    assert trainer.scores_of_rows(head, pairs)[0] == pytest.approx(whole, rel=1e-5)


def test_a_balanced_score_does_not_depend_on_the_window(monkeypatch):
    """Windows of sorted rows hold other classes, which weigh differently."""
    torch.manual_seed(0)
    head = Heads(1, 4, 3, 1, 1, 0.0, bias=True)
    pairs = torch.randn(300, 4), torch.sort(torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), 300, True)).values
    weights = trainer.balancing_weights(pairs[1])
    whole = trainer.scores_of_rows(head, pairs, weights)[0]
    monkeypatch.setattr(trainer, "WINDOW", 70)
    assert trainer.scores_of_rows(head, pairs, weights)[0] == pytest.approx(whole, rel=1e-5)


@given(st.lists(st.integers(-1, 12), max_size=60), st.integers(1, 9))
def test_present_labels_are_those_that_occur(labels, step):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "LABELS_AT_ONCE", step)
        assert present_labels(np.array(labels, np.int64)).tolist() == sorted(set(labels) - {-1})
