"""Planetoid's files: every row at its node, and no file that runs code."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise._util.errors import StoreError
from nodewise.datasets import load
from nodewise.formats.planetoid import PARTS, _unpickle, read_planetoid
from nodewise.formats.split_file import read_split_file
from nodewise.graph import Graph

# Nodes, undirected edges without loops and repeats, features, classes: as the literature has them.
LITERATURE = {
    "cora": (2_708, 5_278, 1_433, 7),
    "citeseer": (3_327, 4_552, 3_703, 6),
    "pubmed": (19_717, 44_324, 500, 3),
}


def read(tiny: Any) -> Graph:
    return read_planetoid(tiny.files, tiny.name)


def test_every_node_gets_the_features_of_its_own_row(tiny: Any) -> None:
    """Row i of tx belongs to line i of test.index, which is not sorted; a node with no row has no features."""
    assert np.array_equal(read(tiny).features.toarray(), tiny.features)


def test_every_node_gets_the_label_of_its_own_row(tiny: Any) -> None:
    assert read(tiny).labels is not None
    assert np.array_equal(read(tiny).labels, tiny.labels)


def test_features_stay_sparse_float32(tiny: Any) -> None:
    features = read(tiny).features
    assert isinstance(features, sp.csr_matrix)
    assert features.dtype == np.float32


def test_the_ring_keeps_its_edges_without_loops_and_repeats(tiny: Any) -> None:
    dense = read(tiny).to_scipy().toarray()
    expected = np.eye(8)
    for u, v in tiny.ring:
        expected[u, v] = expected[v, u] = 1
    assert np.array_equal(dense, expected)


def test_the_official_split_is_the_first_nodes_the_next_and_the_sorted_test_index(tiny: Any) -> None:
    splits = read(tiny).splits
    assert {part: nodes.tolist() for part, nodes in splits.items()} == {
        "train": [0, 1],
        "val": [2, 3],
        "test": [4, 6, 7],
    }


# ---------------------------------------------------------------------- files that are not what they should be


class Payload:
    """Unpickled without care, this makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({str(self.marker)!r}, 'w').close()",)


@pytest.mark.parametrize("part", ["allx", "ally", "graph"])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tiny: Any, tmp_path: Path, part: str) -> None:
    marker = tmp_path / "ran"
    tiny.write(part, Payload(marker))
    with pytest.raises(StoreError, match=rf"ind\.tiny\.{part}.*builtins\.exec"):
        read(tiny)
    assert not marker.exists()
    pickle.loads(tiny.path(part).read_bytes())
    assert marker.exists(), "the payload must be able to run, or this test shows nothing"


@pytest.mark.parametrize("module", ["os", "subprocess", "numpy", "collections", "scipy.sparse._csr"])
def test_a_global_that_no_original_needs_is_refused_by_name(tiny: Any, module: str) -> None:
    """Even from the modules that originals do use."""
    tiny.path("y").write_bytes(f"c{module}\nsystem\n(S'true'\ntR.".encode())
    with pytest.raises(StoreError, match=rf"ind\.tiny\.y: asks for {module}\.system"):
        read(tiny)


def test_a_number_in_a_pickle_is_no_promise_of_as_many_objects(tiny: Any) -> None:
    """LONG_BINPUT keeps an object under a number; pickle's C code makes room for all numbers up to it."""
    tiny.path("y").write_bytes(b"\x80\x02]r" + (1 << 24).to_bytes(4, "little") + b".")
    tracemalloc.start()
    with pytest.raises(StoreError, match=r"ind\.tiny\.y"):
        read(tiny)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


class NumbersAsPointers:
    """An array of int32 whose type says that it holds objects."""

    def __init__(self, part: object) -> None:
        self.part = part

    def __reduce__(self) -> tuple[Any, ...]:
        if self.part is np.dtype:
            return np.dtype, ("i4", False, True), (3, "<", None, None, None, -1, -1, 63)
        state = (1, (4, 2), NumbersAsPointers(np.dtype), False, np.eye(4, 2, dtype="<i4").tobytes())
        return np.zeros(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state


def test_numbers_are_never_taken_for_pointers(tiny: Any, monkeypatch: Any) -> None:
    """numpy believes what a pickle says of its types; what goes wrong as an array is freed is only printed."""
    unraised: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", unraised.append)
    tiny.write("ally", NumbersAsPointers(np.ndarray))
    assert _unpickle(tiny.path("ally")).tolist() == np.eye(4, 2).tolist()
    assert not unraised
    with pytest.raises(SystemError):
        pickle.loads(tiny.path("ally").read_bytes())


def test_an_array_of_objects_is_refused(tiny: Any) -> None:
    tiny.write("ally", np.array([[{}, []]] * 4, dtype=object))
    with pytest.raises(StoreError, match=r"ind\.tiny\.ally.*type object"):
        read(tiny)


@pytest.mark.parametrize("part", PARTS[:-1])
def test_a_file_cut_short_anywhere_is_one_error_that_names_it(tiny: Any, part: str) -> None:
    whole = tiny.path(part).read_bytes()
    for length in range(0, len(whole) - 1, 7):
        tiny.path(part).write_bytes(whole[:length])
        with pytest.raises(StoreError, match=rf"ind\.tiny\.{part}: "):
            read(tiny)


def test_a_missing_file_is_named(tiny: Any) -> None:
    tiny.path("tx").unlink()
    with pytest.raises(StoreError, match=r"ind\.tiny\.tx: missing"):
        read(tiny)


@pytest.mark.parametrize(("array", "values"), [("indices", [1_000_000]), ("indptr", [0, 9_999_999, 0, 0, 0])])
def test_numbers_out_of_range_are_found_before_they_are_used(tiny: Any, array: str, values: list[int]) -> None:
    matrix = sp.csr_matrix(tiny.features[: tiny.known])
    getattr(matrix, array)[: len(values)] = values
    tiny.write("allx", matrix)
    with pytest.raises(StoreError, match=r"ind\.tiny\.allx.*parts do not fit"):
        read(tiny)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("allx", np.eye(4), "expected a sparse matrix"),
        ("ally", [1, 2], "expected one-hot rows"),
        ("ally", np.ones((3, 3), np.int32), "has 3 rows; expected 4"),
        ("ty", np.ones((3, 2), np.int32), "has 2 columns; expected 3"),
        ("graph", [[0, 1]], "expected a dictionary"),
        ("graph", {0: ["1"]}, "expected a dictionary"),
        ("graph", {u: [u + 1] for u in range(8)}, "names node 8"),
    ],
)
def test_a_part_of_the_wrong_kind_is_one_error_that_says_what_was_expected(
    tiny: Any, part: str, value: Any, message: str
) -> None:
    tiny.write(part, value)
    with pytest.raises(StoreError, match=message):
        read(tiny)


@pytest.mark.parametrize(
    "text", ["6\n4\n", "6\n4\n4\n", "6\n4\n3\n", "6\n4\n8\n", "6\n4\nseven\n", "6\n4\n" + "9" * 30]
)
def test_a_test_index_that_does_not_fit_is_named(tiny: Any, text: str) -> None:
    """Too short, a repeat, a node of allx, a node that is not in the graph, no number, a number of 30 digits."""
    tiny.path("test.index").write_text(text)
    with pytest.raises(StoreError, match=r"ind\.tiny\.test\.index: "):
        read(tiny)


# ---------------------------------------------------------------------- the originals


@pytest.mark.parametrize("name", LITERATURE)
def test_the_originals_have_the_sizes_of_the_literature(data_dir: Path, name: str) -> None:
    graph = load(name, data_dir)
    assert graph.labels is not None
    classes = np.unique(graph.labels)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, classes.size) == LITERATURE[name]


@pytest.mark.parametrize("name", LITERATURE)
def test_the_fixed_splits_have_twenty_training_nodes_a_class(data_dir: Path, name: str) -> None:
    """A row at a wrong node would break the count. Citeseer's splits hold nodes with no row, counted as class 0."""
    graph = load(name, data_dir)
    splits = read_split_file(data_dir / "splits" / f"{name}.npz", graph.num_nodes)
    assert graph.labels is not None
    assert [np.bincount(graph.labels[split.train]).tolist() for split in splits] == [[20] * LITERATURE[name][3]] * 10


@pytest.mark.parametrize("name", LITERATURE)
def test_the_official_split_has_twenty_500_and_1000(data_dir: Path, name: str) -> None:
    graph = load(name, data_dir)
    assert graph.labels is not None
    assert np.bincount(graph.labels[graph.splits["train"]]).tolist() == [20] * LITERATURE[name][3]
    assert (graph.splits["val"].size, graph.splits["test"].size) == (500, 1000)
    assert np.unique(np.concatenate(list(graph.splits.values()))).size == sum(map(len, graph.splits.values()))


def test_citeseer_has_fifteen_test_range_nodes_without_a_row(data_dir: Path) -> None:
    graph = load("citeseer", data_dir)
    numbers = {int(line) for line in (data_dir / "planetoid" / "ind.citeseer.test.index").read_text().split()}
    missing = [node for node in range(min(numbers), graph.num_nodes) if node not in numbers]
    assert len(missing) == 15
    assert graph.features is not None
    assert graph.features[missing].nnz == 0


@pytest.mark.parametrize("name", LITERATURE)
def test_neighbours_mostly_share_their_label(data_dir: Path, name: str) -> None:
    """Citation graphs have an edge homophily of 0.7 to 0.8; test rows left in file order pull it far below."""
    graph = load(name, data_dir)
    entries = graph.to_scipy().tocoo()
    between = entries.row != entries.col
    assert graph.labels is not None
    assert np.mean(graph.labels[entries.row[between]] == graph.labels[entries.col[between]]) > 0.7
