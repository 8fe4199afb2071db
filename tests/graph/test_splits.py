"""Splits: drawn in the paper's protocol, read from files, official."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodewise._util.errors import InputError
from nodewise.formats.split_file import read_split_file
from nodewise.graph import Graph
from nodewise.graph.splits import Split, digest_of_splits, official_split, random_splits


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


# ---------------------------------------------------------------------- drawn


def _warned(takes, per_class):
    """A warning is due if some classes are too small, but not all."""
    rare = [take < per_class for take in takes.values()]
    return pytest.warns(UserWarning, match="the smallest") if any(rare) and not all(rare) else nullcontext()


@given(
    labels=st.lists(st.integers(-1, 3), min_size=1, max_size=60),
    per_class=st.integers(1, 4),
    val=st.integers(0, 8),
    test=st.integers(0, 8),
    seed=st.integers(0, 2**63),
)
def test_any_split_has_the_counts_asked_for_and_no_node_twice(labels, per_class, val, test, seed):
    array = np.array(labels)
    sizes = {label: labels.count(label) for label in set(labels) - {-1}}
    takes = {label: per_class if size >= per_class else max(1, size // 2) for label, size in sizes.items()}
    enough = sum(takes.values()) + val + test <= sum(sizes.values())
    assume(sizes)
    if max(sizes.values()) < per_class or not enough:
        with pytest.raises(InputError, match=r"[Ll]ower per_class"), _warned(takes, per_class):
            random_splits(array, 2, per_class, val, test, seed)
        return
    with _warned(takes, per_class):
        splits = random_splits(array, 2, per_class, val, test, seed)
    for split in splits:
        together = np.concatenate(split)
        assert np.unique(together).size == together.size
        assert np.all(array[together] >= 0)
        assert {label: int((array[split.train] == label).sum()) for label in sizes} == takes
        assert (split.val.size, split.test.size) == (val, test)
        assert all(part.dtype == np.int64 for part in split)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 5))
@settings(max_examples=25)
def test_a_split_depends_on_the_seed_and_its_number_alone(seed, count):
    """More splits can be drawn later without changing the first."""
    labels = np.arange(200) % 4
    few = random_splits(labels, count, per_class=3, val=20, test=30, seed=seed)
    more = random_splits(labels, 6, per_class=3, val=20, test=30, seed=seed)
    assert all(same(a, b) for a, b in zip(few, more[:count], strict=True))


def test_other_seeds_and_other_numbers_give_other_splits():
    """200 of 1,000 nodes drawn twice alike has a chance below 10^-200."""
    labels = np.arange(1000) % 2
    first, second = random_splits(labels, 2, per_class=100, val=10, test=10, seed=0)
    (other,) = random_splits(labels, 1, per_class=100, val=10, test=10, seed=1)
    assert not np.array_equal(first.train, second.train)
    assert not np.array_equal(first.train, other.train)


def test_every_labelled_node_is_drawn_equally_often():
    """3,000 draws of 1 of 10 members: each count is binomial with mean 300 and deviation 16.4, so that more than 100
    away (6 deviations) happens by chance less than once in 10^6 runs."""
    labels = np.repeat([0, 1], 10)
    splits = random_splits(labels, 3000, per_class=1, val=0, test=0)
    counts = np.bincount(np.concatenate([split.train for split in splits]), minlength=20)
    assert np.all(np.abs(counts - 300) < 100)


def test_the_default_is_the_papers_protocol():
    (split,) = random_splits(np.arange(3000) % 7, 1)
    assert [part.size for part in split] == [20 * 7, 500, 1000]


def test_several_labels_per_node_take_per_class_times_labels_training_nodes():
    labels = np.zeros((100, 3), np.int8)
    labels[10:, 0] = 1
    (split,) = random_splits(labels, 1, per_class=5, val=30, test=45)
    together = np.concatenate(split)
    assert split.train.size == 15
    assert np.array_equal(np.sort(together), np.arange(10, 100)), "15 + 30 + 45 are all the 90 nodes with a label"


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        (np.repeat([0, 1], [9, 12]), {}, r"all 2 classes have fewer than per_class=20 nodes, the largest 12. Lower"),
        (np.repeat([0, 1], 30), {}, r"60 nodes.*40 for training, 500 for validation and 1,000 .*make 1,540.*Lower"),
        (np.ones((60, 4), int), {}, r"60 nodes have a known label, but 80 for training"),
        (np.full(5, -1), {}, "all are -1"),
        (None, {}, "none"),
        (np.array(["a"]), {}, "expected whole numbers"),
        (np.zeros(5, int), {"per_class": 0}, "per_class is 0"),
        (np.zeros(5, int), {"val": -1}, "val is -1"),
        (np.zeros(5, int), {"seed": -1}, "seed is -1"),
        (np.zeros(5, int), {"test": 1.5}, "test is 1.5"),
    ],
)
def test_what_cannot_be_drawn_is_one_error_with_the_numbers(labels, given, message):
    with pytest.raises(InputError, match=message):
        random_splits(labels, 1, **given)


# ---------------------------------------------------------------------- read

GOOD = {"train": [[0, 1], [2, 3]], "val": [[2], [4]], "test": [[5, 6, 7], [0, 1, 7]]}


def write(folder, **arrays):
    path = folder / "splits.npz"
    np.savez(path, **{name: np.array(array) for name, array in arrays.items() if array is not None})
    return path


def test_a_row_of_each_array_is_a_split(tmp_path):
    splits = read_split_file(write(tmp_path, **GOOD), num_nodes=8)
    assert [[part.tolist() for part in split] for split in splits] == [
        [[0, 1], [2], [5, 6, 7]],
        [[2, 3], [4], [0, 1, 7]],
    ]
    assert splits[0].train.dtype == np.int64


def test_plain_lists_are_one_split(tmp_path):
    (split,) = read_split_file(str(write(tmp_path, train=[0, 1], val=[2], test=[3, 4])), num_nodes=5)
    assert [part.tolist() for part in split] == [[0, 1], [2], [3, 4]]


@given(seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_drawn_splits_survive_a_file(tmp_path_factory, seed):
    drawn = random_splits(np.arange(90) % 3, 4, per_class=5, val=10, test=20, seed=seed)
    tables = {part: np.stack([getattr(split, part) for split in drawn]) for part in Split._fields}
    read = read_split_file(write(tmp_path_factory.mktemp("splits"), **tables), num_nodes=90)
    assert all(same(a, b) for a, b in zip(drawn, read, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val": None}, "has no val, only train, test"),
        ({"val": [[2], [8]]}, r"row 1, val: entry 0 is 8; node ids are whole numbers from 0 to 7"),
        ({"val": [[-1], [4]]}, "row 0, val: entry 0 is -1"),
        ({"val": [[2], [7]]}, "row 1: node 7 is in val and in test"),
        ({"train": [[0, 1], [4, 3]]}, "row 1: node 4 is in train and in val"),
        ({"train": [[1, 1], [2, 3]]}, "row 0, train: node 1 is there twice"),
        ({"val": [[2]]}, r"rows differs \(train 2, val 1, test 2\)"),
        ({"val": [[2.0], [4.0]]}, "val has shape .* type float64; expected whole numbers"),
        ({"val": [[[2]], [[4]]]}, r"val has shape \(2, 1, 1\)"),
        (dict.fromkeys(GOOD, np.zeros((0, 2), int)), "have no rows"),
    ],
)
def test_a_wrong_split_file_is_one_error_with_the_file_and_the_cause(tmp_path, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        read_split_file(write(tmp_path, **(GOOD | changes)), num_nodes=8)
    assert "splits.npz: " in str(caught.value)


def test_a_split_file_that_is_damaged_or_missing_is_one_error(tmp_path):
    with pytest.raises(InputError, match=r"splits\.npz: no such file"):
        read_split_file(tmp_path / "splits.npz", num_nodes=8)
    path = write(tmp_path, **GOOD)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"splits\.npz: is cut off or not an \.npz file"):
        read_split_file(path, num_nodes=8)


# ---------------------------------------------------------------------- official


def test_the_official_split_is_the_graphs_own():
    parts = {"train": np.array([0]), "val": np.array([2]), "test": np.array([1, 3])}
    graph = Graph.from_edges(np.array([[0, 1], [2, 3]]), 4, splits=parts)
    assert [part.tolist() for part in official_split(graph)] == [[0], [2], [1, 3]]


def test_a_graph_without_an_official_split_says_what_is_missing_and_what_to_do():
    graph = Graph.from_edges(np.array([[0], [1]]), splits={"train": np.array([0])}, name="mine")
    with pytest.raises(InputError, match=r"mine: has no official split \(no val, test\).*random_splits"):
        official_split(graph)


def test_splits_that_cut_the_same_nodes_differently_have_different_digests():
    nodes = np.arange(4)
    cuts = [Split(nodes[:a], nodes[a:b], nodes[b:]) for a, b in ((1, 2), (1, 3), (2, 3))]
    assert len({digest_of_splits([split]) for split in cuts}) == len(cuts)
