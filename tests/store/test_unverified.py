"""A store that is too large to be verified when it is opened: damage is an error of the store, or was not touched."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from written import rewrite_manifest

import nodewise as nw
from models import PLAIN
from nodewise import Graph, StoreError
from nodewise.graph.features import Quantized
from nodewise.store import open_store, reading, write_store
from nodewise.store.manifest import StoredFile
from nodewise.store.names import read_names

ENGINES = ("walks", "stratified", "exact")
NODES = 300
TARGETS = np.arange(0, NODES, 3)


def graph(kind: str) -> Graph:
    rng = np.random.default_rng(3)
    edges = rng.integers(0, NODES, (2, 900))
    dense = rng.random((NODES, 6)).astype(np.float32)
    features = {"sparse": sp.random(NODES, 9, 0.3, "csr", np.float32, rng), "int8": Quantized.of(dense)}.get(
        kind, dense
    )
    weights = rng.random(900) + 0.1 if kind == "weighted" else None
    labels = rng.integers(0, 3, NODES)
    splits = {"train": np.arange(40), "val": np.arange(40, 60), "test": np.arange(60, 90)}
    made = Graph.from_edges(edges, NODES, dense, labels, edge_weight=weights, splits=splits)
    return made if kind == "dense" else made.replace(features=features)


@pytest.fixture(autouse=True)
def _large(monkeypatch):
    monkeypatch.setattr(reading, "VERIFY_UP_TO", 0)


@pytest.fixture
def store(tmp_path):
    def write(kind: str) -> Path:
        write_store(graph(kind), tmp_path / kind)
        return tmp_path / kind

    return write


def harm(folder: Path, name: str, places: slice | int, value: float) -> None:
    array = np.load(folder / name, mmap_mode="r+")
    array.reshape(-1)[places] = value
    array.flush()


def rows(folder: Path, engine: str, norm: str = "none") -> np.ndarray:
    g = open_store(folder)
    return nw.diffuse(g, TARGETS, engine=engine, epsilon=0.2, seed=1).apply(g.features, norm)


DAMAGE = [
    ("dense", "indices.npy", 5000),
    ("dense", "indices.npy", 2**32 - 1),
    ("dense", "indptr.npy", 2**62),
    ("dense", "indptr.npy", -(2**62)),
    ("dense", "features.npy", np.nan),
    ("dense", "features.npy", np.inf),
    ("weighted", "indices.npy", 5000),
    ("weighted", "indptr.npy", 2**62),
    ("weighted", "weights.npy", np.nan),
    ("weighted", "weights.npy", -1),
    ("sparse", "features_indices.npy", 2**31 - 1),
    ("sparse", "features_indices.npy", -5),
    ("sparse", "features_indptr.npy", 2**31 - 1),
    ("sparse", "features_indptr.npy", -(2**31)),
    ("sparse", "features_data.npy", np.nan),
    ("int8", "feature_steps.npy", np.inf),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kind", "name", "value"), DAMAGE)
def test_damage_everywhere_is_an_error_of_the_store(store, kind, name, value, engine):
    folder = store(kind)
    harm(folder, name, slice(3, -1, 3), value)
    with pytest.raises(StoreError, match=r"\.npy: .*the store is damaged"):
        rows(folder, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kind", "name", "value"), DAMAGE)
def test_damage_in_one_place_is_an_error_or_was_not_touched(store, kind, name, value, engine):
    folder = store(kind)
    expected = rows(folder, engine)
    for place in (7, 8, 9):
        harm(folder, name, place, value)
        try:
            found = rows(folder, engine)
        except StoreError:
            continue
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_features_that_are_no_numbers_are_noticed_when_rows_are_scaled(store, norm):
    folder = store("dense")
    harm(folder, "features.npy", slice(0, None, 50), np.nan)
    with pytest.raises(StoreError, match=r"features\.npy: .*not finite"):
        rows(folder, "walks", norm)


def test_opening_reads_no_values_and_walks_check_none_that_they_do_not_touch(store):
    """Nodes beyond the first half are not reached from the first two, which are joined to each other alone."""
    folder = store("dense")
    g = Graph.from_edges(np.array([[0, *range(2, NODES - 1)], [1, *range(3, NODES)]]), NODES)
    write_store(g, folder, overwrite=True)
    expected = nw.diffuse(open_store(folder), [0, 1], engine="walks", length=4).matrix
    harm(folder, "indices.npy", slice(NODES, None), 5000)
    g = open_store(folder)
    assert (nw.diffuse(g, [0, 1], engine="walks", length=4).matrix != expected).nnz == 0
    with pytest.raises(StoreError, match=r"indices\.npy: holds impossible values, expected numbers from 0 to 299"):
        _ = g.indices


@pytest.mark.parametrize(
    ("kind", "name", "value", "use"),
    [
        ("dense", "indices.npy", 5000, lambda g: g.to_scipy()),
        ("dense", "indices.npy", 5000, lambda g: g.subgraph(range(50))),
        ("dense", "indptr.npy", 5000, lambda g: g.degrees),
        ("dense", "indptr.npy", 5000, lambda g: nw.diffusion_lengths(g, range(NODES), 1.0)),
        ("dense", "labels.npy", -7, lambda g: g.labels),
        ("dense", "labels.npy", 3, lambda g: g.replace(name="other").labels),
        ("dense", "splits/train.npy", NODES, lambda g: g.splits),
        ("dense", "splits/train.npy", -1, lambda g: g.splits),
        ("weighted", "weights.npy", 0, lambda g: g.degrees),
        ("sparse", "features_indices.npy", 9, lambda g: g.features[:5]),
        ("sparse", "features_indptr.npy", 10**6, lambda g: g.features.sum()),
        ("dense", "indices.npy", 5000, lambda g: g.extended([[NODES], [3]], np.ones((1, 6))).indices),
        ("dense", "labels.npy", 5000, lambda g: g.extended([[NODES], [3]], np.ones((1, 6))).labels),
    ],
)
def test_whoever_reads_an_array_gets_one_that_was_checked(store, kind, name, value, use):
    folder = store(kind)
    harm(folder, name, slice(9, -1, 4), value)
    g = open_store(folder)
    for _ in range(2):  # an error is not taken for a check that was passed
        with pytest.raises(StoreError, match=rf"(indices|indptr|{name}).*the store is damaged"):
            use(g)


@pytest.fixture(scope="module")
def model():
    return nw.NIGCN(**PLAIN, seed=0, engine="walks").fit(graph("dense"), train=range(40), val=range(40, 60))


@pytest.mark.parametrize(("name", "value"), [("indices.npy", 5000), ("indptr.npy", 2**40), ("features.npy", np.nan)])
def test_a_model_does_not_predict_on_a_damaged_store(store, model, name, value):
    folder = store("dense")
    harm(folder, name, slice(3, -1, 2), value)
    for use in (model.predict_proba, lambda g: nw.explain(model, g, 5)):
        with pytest.raises(StoreError, match="the store is damaged"):
            use(open_store(folder))


@pytest.mark.parametrize(("name", "value"), [("features.npy", np.nan), ("labels.npy", 77), ("splits/val.npy", -3)])
def test_a_model_does_not_learn_from_a_damaged_store(store, name, value):
    folder = store("dense")
    harm(folder, name, slice(3, -1, 2), value)
    g = open_store(folder)
    with pytest.raises(StoreError, match="the store is damaged"):
        nw.NIGCN(**PLAIN, seed=0).fit(g, train=g.splits["train"], val=g.splits["val"])


@pytest.mark.parametrize("command", ["info", "verify", "predict", "report"])
def test_a_command_on_a_damaged_store_says_so_in_one_line(store, model, run, tmp_path, command):
    folder = store("dense")
    harm(folder, "indices.npy", slice(3, -1, 2), 5000)
    output = {"predict": ["--output", tmp_path / "labels.csv"], "report": ["--output", tmp_path / "page.html"]}
    if command in output:
        model.save(tmp_path / "model")
    code, _, err = run(command, *([tmp_path / "model"] if command in output else []), folder, *output.get(command, []))
    assert code == 2
    assert "indices.npy" in err
    assert "the store is damaged" in err
    assert [line.startswith("nodewise: ") for line in err.strip().splitlines()][-1]
    assert "Traceback" not in err


def test_nothing_is_added_to_a_store_whose_values_are_forged(store, run, tmp_path):
    """Checksums fit here, so that only the values tell."""
    folder = store("dense")
    harm(folder, "indices.npy", slice(3, -1, 2), 5000)
    digest = hashlib.sha256((folder / "indices.npy").read_bytes()).hexdigest()
    rewrite_manifest(folder, lambda content: content["files"]["indices.npy"].update(sha256=[digest]))
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    code, _, err = run("append", folder, "--edges", tmp_path / "edges.csv", "--output", tmp_path / "new")
    assert (code, (tmp_path / "new").exists()) == (2, False)
    assert "indices.npy: holds impossible values" in err


def test_a_file_that_is_truncated_between_two_pieces_of_work_is_an_error_not_the_end(tmp_path):
    """To touch a page that is missing ends the process, so this runs in one of its own."""
    write_store(Graph.from_edges(np.array([[0], [1]]), 20_000, np.ones((20_000, 50), np.float32)), tmp_path / "s")
    script = f"""
import nodewise as nw
from pathlib import Path
from nodewise.store import open_store
for name in ("indptr", "indices", "features"):
    g = open_store({str(tmp_path / "s")!r}, verify=False)
    file = Path({str(tmp_path / "s")!r}, name + ".npy")
    good = file.read_bytes()
    with file.open("r+b") as stream:
        stream.truncate(4096)
    try:
        nw.diffuse(g, [19_999], engine="walks", length=2).apply(g.features)
    except nw.StoreError as error:
        print(error)
    file.write_bytes(good)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("truncated after it was opened") == 3


def test_a_store_that_is_written_again_under_its_name_leaves_open_ones_alone(store):
    folder = store("dense")
    g = open_store(folder)
    write_store(Graph.from_edges(np.array([[0], [1]])), folder, overwrite=True)
    g.check_files()
    assert np.array_equal(g.indices, graph("dense").indices)


def test_a_small_file_of_names_cannot_stand_for_more_than_the_memory(full):
    """One name of a megabyte for each of 30 nodes would be nothing; for each of a million nodes it is a terabyte."""
    word = pa.array(["x" * 1_000_000])
    many = pa.DictionaryArray.from_arrays(np.zeros(1_000_000, np.int32), word)
    pq.write_table(pa.table({"name": many}), full / "names.parquet", store_schema=False)
    data = (full / "names.parquet").read_bytes()
    assert len(data) < 1_000_000
    file = StoredFile("string", (1_000_000,), len(data), 1 << 30, (hashlib.sha256(data).hexdigest(),))
    with pytest.raises(StoreError, match="names of more bytes than such a file can hold"):
        read_names(full / "names.parquet", file)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_names_that_were_compressed_in_another_way_are_refused(full, kind):
    pq.write_table(pa.table({"name": [f"{i}" for i in range(30)]}), full / "names.parquet", compression=kind)
    data = (full / "names.parquet").read_bytes()
    file = StoredFile("string", (30,), len(data), 1 << 30, (hashlib.sha256(data).hexdigest(),))
    with pytest.raises(StoreError, match=r"names\.parquet: .*compressed or encoded in a way"):
        read_names(full / "names.parquet", file)


def test_long_names_among_many_come_back(tmp_path):
    names = [f"{i}" for i in range(2_000)] + ["y" * 100_000]
    write_store(Graph.from_edges(np.array([[0], [1]]), len(names), node_names=names), tmp_path / "s")
    assert list(open_store(tmp_path / "s").node_names) == names


@pytest.mark.parametrize(("name", "value"), [("features.npy", np.nan), ("features.npy", 1e30)])
def test_features_that_no_graph_can_have_are_noticed_though_checksums_fit(full, name, value):
    harm(full, name, 5, value)
    digest = hashlib.sha256((full / name).read_bytes()).hexdigest()
    rewrite_manifest(full, lambda content: content["files"][name].update(sha256=[digest]))
    with pytest.raises(StoreError, match=rf"{name}: holds impossible values"):
        open_store(full, verify=True)


@pytest.mark.parametrize(
    ("value", "says"), [(1e-45, "a node has a degree below 1e-16"), (3e38, "a node has a higher degree than manifest")]
)
@pytest.mark.parametrize("engine", ENGINES)
def test_weights_that_make_degrees_impossible_are_noticed_though_checksums_fit(store, engine, value, says):
    folder = store("weighted")
    harm(folder, "weights.npy", slice(None), value)
    digest = hashlib.sha256((folder / "weights.npy").read_bytes()).hexdigest()
    rewrite_manifest(folder, lambda content: content["files"]["weights.npy"].update(sha256=[digest]))
    open_store(folder, verify=True)
    with pytest.raises(StoreError, match=rf"weights\.npy: {says}"):
        rows(folder, engine)


def test_a_subgraph_of_nodes_without_their_loops_is_refused(tmp_path):
    """Values are possible here, so only what is made of them tells: walks from a node without neighbours go nowhere."""
    write_store(Graph.from_edges(np.array([[0, 1, 2], [1, 2, 3]])), tmp_path / "s")
    indices = np.load(tmp_path / "s" / "indices.npy")
    harm(tmp_path / "s", "indices.npy", int(np.flatnonzero(indices == 0)[0]), 3)
    with pytest.raises(StoreError, match="points outside the graph"):
        open_store(tmp_path / "s", verify=False).subgraph([0, 2])


def test_a_label_that_the_manifest_does_not_list_is_noticed(full):
    rewrite_manifest(full, lambda content: content["present_labels"].pop())
    with pytest.raises(StoreError, match=r"labels\.npy: holds labels that the manifest does not list"):
        _ = open_store(full).labels
