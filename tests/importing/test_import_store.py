"""Files -> a store: every reader in small parts, types of features, budgets, and graphs that readers hand over."""

from __future__ import annotations

import dataclasses
import os
import re
import resource
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from files import parquet, write
from limits import lowered
from nodewise import Graph, InputError, StoreError, open_store
from nodewise._util.memory import too_small
from nodewise.formats import csv as text
from nodewise.formats import edge_files as edges
from nodewise.formats import tables
from nodewise.formats.raw_graph import EdgeStream, FeatureStream, RawGraph
from nodewise.importing import edge_stage, feature_stage, import_raw, import_store, sorting
from nodewise.store import read_manifest, verify_store

RNG = np.random.default_rng(0)
ENDS = RNG.integers(0, 50, (2, 400))
WEIGHTS = RNG.integers(1, 9, 400) / 4  # sums are exact
X = RNG.standard_normal((50, 6)).astype(np.float32)


@pytest.fixture
def small_parts(monkeypatch):
    """All readers give a few rows at a time, runs are short, and ranges of the merge are narrow."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 256)
    monkeypatch.setattr(tables, "PART_ROWS", 7)
    monkeypatch.setattr(edges, "PART_EDGES", 11)
    monkeypatch.setattr(edge_stage, "PART_EDGES", 5)
    monkeypatch.setattr(edge_stage, "_run_size", lambda *_: 64)
    monkeypatch.setattr(feature_stage, "PART_BYTES", 24 * 4)
    monkeypatch.setattr(sorting, "STRIDE", 4)
    monkeypatch.setattr(edge_stage, "room_for", lambda _, __, least, ___: least)


def same(store: str, graph: Graph) -> None:
    """That a store is sound and holds a graph."""
    verify_store(store)
    found = open_store(store)
    assert np.array_equal(found.indptr, graph.indptr)
    assert np.array_equal(found.indices, graph.indices)
    assert (found.edge_weight is None) == (graph.edge_weight is None)
    if graph.edge_weight is not None:
        assert np.array_equal(found.edge_weight, graph.edge_weight)
    if graph.features is not None:
        assert np.array_equal(found.features, graph.features)
    described = read_manifest(store).degrees
    assert described == pytest.approx({"total": graph.total_degree, "least": graph.least_degree})


# ---------------------------------------------------------------------- readers


def csv_rows(separator: str = ",") -> str:
    return "".join(f"{u}{separator}{v}\n" for u, v in ENDS.T)


def folder_of_parquet(files: int = 3) -> str:
    Path("edges").mkdir()
    for number, part in enumerate(np.array_split(np.arange(400), files)):
        parquet(f"edges/part-{number}.parquet", source=ENDS[0, part], target=ENDS[1, part])
    write("edges/_SUCCESS", "")
    return "edges"


def fortran_npy() -> str:
    np.save("f.npy", np.asfortranarray(ENDS))
    return "f.npy"


def saved(save, **arrays) -> str:
    save("e.npz", **arrays)
    return "e.npz"


READERS = {
    "csv": lambda: write("e.csv", "source,target\n" + csv_rows()),
    "tsv.gz": lambda: write("e.tsv.gz", csv_rows("\t")),
    "parquet": lambda: parquet("e.parquet", source=ENDS[0], target=ENDS[1]),
    "folder": folder_of_parquet,
    "npy": lambda: (np.save("e.npy", ENDS.astype(np.int32)), "e.npy")[1],
    "fortran": fortran_npy,
    "npz": lambda: saved(np.savez, edge_index=ENDS),
    "packed npz": lambda: saved(np.savez_compressed, edge_index=ENDS),
    "matrix": lambda: (sp.save_npz("m.npz", sp.coo_matrix((np.ones(400), ENDS), (50, 50)).tocsr() > 0), "m.npz")[1],
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", READERS)
def test_every_reader_streams_the_same_graph(kind):
    import_store(READERS[kind](), "store")
    same("store", Graph.from_edges(ENDS))


@pytest.mark.usefixtures("small_parts")
def test_weights_stream_with_their_edges():
    expected = Graph.from_edges(ENDS, edge_weight=WEIGHTS)
    rows = "".join(f"{u},{v},{w}\n" for (u, v), w in zip(ENDS.T, WEIGHTS, strict=True))
    np.savez("e.npz", edge_index=ENDS, edge_weight=WEIGHTS)
    for path in (write("e.csv", rows), "e.npz", parquet("e.parquet", u=ENDS[0], v=ENDS[1], weight=WEIGHTS)):
        import_store(path, "store", overwrite=True)
        same("store", expected)


@pytest.mark.usefixtures("small_parts")
def test_names_stream_as_they_first_appear():
    names = [f"n{i}" for i in range(50)]
    rows = [(names[u], names[v]) for u, v in ENDS.T]
    import_store(write("e.csv", "source,target\n" + "".join(f"{u},{v}\n" for u, v in rows)), "store")
    graph = open_store("store")
    order = list(dict.fromkeys(name for row in rows for name in row))
    assert list(graph.node_names) == order
    place = {name: i for i, name in enumerate(order)}
    same("store", Graph.from_edges(np.array([(place[u], place[v]) for u, v in rows]).T))


@pytest.mark.usefixtures("small_parts")
def test_a_name_in_the_last_row_makes_all_ids_names():
    import_store(write("e.csv", "007,1\n" + csv_rows() + "x,7\n"), "store")
    names = list(open_store("store").node_names)
    assert names[:2] == ["007", "1"]
    assert {"x", "7"} < set(names)


@pytest.mark.usefixtures("small_parts")
def test_rows_of_later_parts_are_named_by_their_place():
    with pytest.raises(InputError, match=r"e\.csv: column '2' holds -1 in row 401"):
        import_store(write("e.csv", csv_rows() + "3,-1\n"), "store", ids="integers")
    with pytest.raises(InputError, match=r"e\.csv: column '1' holds 'x' in row 401"):
        import_store(write("e.csv", csv_rows() + "x,1\n"), "store", ids="integers")
    with pytest.raises(InputError, match=r"e\.csv: row 401 has 3 columns"):
        import_store(write("e.csv", csv_rows() + "1,2,3\n"), "store")
    ends = ENDS.copy()
    ends[1, 333] = -5
    np.save("e.npy", ends)
    with pytest.raises(InputError, match=r"e\.npy: .* holds -5 in edge 334"):
        import_store("e.npy", "store")
    np.save("x.npy", X[:49])
    first = int(np.flatnonzero((ENDS == 49).any(0))[0])
    with pytest.raises(InputError, match=rf"e\.csv: row {first + 1} names node 49, which is not in x\.npy"):
        import_store(write("e.csv", csv_rows()), "store", "x.npy")


@pytest.mark.usefixtures("small_parts")
def test_rows_of_a_folder_are_named_by_file_and_row():
    folder_of_parquet()
    parquet("edges/part-1.parquet", source=[1, 2], target=[3, -4])
    with pytest.raises(InputError, match=r"edges/part-1\.parquet: column 'target' holds -4 in row 2"):
        import_store("edges", "store", ids="integers")
    parquet("edges/part-2.parquet", source=[1], goal=[3])
    with pytest.raises(InputError, match=r"part-2\.parquet: has the columns source, goal.*same columns"):
        import_store("edges", "store")


def test_a_folder_may_have_more_files_than_a_process_may_open():
    folder_of_parquet(files=80)
    with lowered(resource.RLIMIT_NOFILE, len(os.listdir("/proc/self/fd")) + 40):
        import_store("edges", "store")
    same("store", Graph.from_edges(ENDS))


def test_hidden_files_are_no_part_of_a_folder():
    folder_of_parquet()
    import_store("edges", "one")
    write("edges/._part-0.parquet", "what macOS keeps of a file")
    write("edges/_metadata.parquet", "what Spark says of all")
    import_store("edges", "two")
    same("two", open_store("one"))


def test_reading_takes_time_in_proportion_to_the_columns():
    """When all names were listed for each column, 16 times the columns took 256 times as long."""
    np.save("e.npy", np.array([[0], [1]]))
    seconds = []
    for width in (500, 500, 8_000):  # the first loads kernels
        parquet(f"{width}.parquet", **{f"x{i}": [0.5, i] for i in range(width)})
        started = time.process_time()
        import_store("e.npy", "store", f"{width}.parquet", overwrite=True)
        seconds.append(time.process_time() - started)
    assert seconds[2] < 48 * seconds[1]


@pytest.mark.usefixtures("small_parts")
def test_a_third_column_that_turns_into_numbers_is_refused():
    rows = "".join(f"{u},{v},cites\n" for u, v in ENDS.T)
    import_store(write("e.csv", rows), "store")
    same("store", Graph.from_edges(ENDS))
    with pytest.raises(InputError, match=r"column '3' holds words at first and a number"):
        import_store(write("e.csv", rows + "1,2,3\n"), "other")


@pytest.mark.usefixtures("small_parts")
def test_an_open_quote_longer_than_a_block_is_named():
    with pytest.raises(InputError, match=r"row 11 opens a quote that is never closed"):
        import_store(write("e.csv", "u,v\n" + 10 * "a,b\n" + 'c,"d\n' + 2000 * "e,f\n"), "store")
    with pytest.raises(InputError, match=r"row 11 is longer than"):
        import_store(write("e.csv", "u,v\n" + 10 * "a,b\n" + f'c,"{5000 * "d"}"\n'), "store")


# ---------------------------------------------------------------------- features


def shuffled_features(kind: str, header: str = "node") -> str:
    order = RNG.permutation(50)
    if kind == "csv":
        lines = [f"{i},{','.join(str(float(value)) for value in X[i])}\n" for i in order]
        return write("x.csv", f"{header},a,b,c,d,e,f\n" + "".join(lines))
    return parquet("x.parquet", **{header: order}, **{f"c{j}": X[order, j] for j in range(6)})


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_in_any_order_reach_their_nodes(monkeypatch, kind):
    monkeypatch.setattr("nodewise.importing.from_files.ROWS_AT_A_TIME", 3)
    import_store(write("e.csv", csv_rows()), "store", shuffled_features(kind))
    same("store", Graph.from_edges(ENDS, features=X))


@pytest.mark.usefixtures("small_parts")
def test_repeated_and_missing_rows_are_found_across_parts():
    path = Path(shuffled_features("csv"))
    rows = path.read_text().splitlines()
    path.write_text("\n".join([*rows, rows[3]]))
    node = rows[3].split(",")[0]
    with pytest.raises(InputError, match=rf"rows 3 and 51 are both about node {node}"):
        import_store(write("e.csv", csv_rows()), "store", path)
    path.write_text("\n".join(row for row in rows if not row.startswith("17,")))
    with pytest.raises(InputError, match=r"node 17 has no row, and ids go up to 49"):
        import_store("e.csv", "store", path)
    import_store("e.csv", "store", path, add_missing_nodes=True)
    expected = X.copy()
    expected[17] = 0
    same("store", Graph.from_edges(ENDS, features=expected))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("save", [np.save, lambda path, x: np.save(path, np.asfortranarray(x))])
def test_features_are_stored_in_the_type_asked_for(save):
    save("x.npy", X)
    for dtype, kind in (("float32", np.float32), ("float16", np.float16), (None, np.float32)):
        import_store(write("e.csv", csv_rows()), "store", "x.npy", feature_dtype=dtype, overwrite=True)
        same("store", Graph.from_edges(ENDS, features=X.astype(kind)))
        assert open_store("store").features.dtype == kind


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("sparse", [False, True])
def test_int8_features_are_within_half_a_step(sparse):
    x = np.where(np.abs(X) > 1, X, 0)
    if sparse:
        sp.save_npz("x.npz", sp.csr_matrix(x))
    else:
        np.savez("x.npz", x=x)
    import_store(write("e.csv", csv_rows()), "store", "x.npz", feature_dtype="int8")
    verify_store("store")
    found = open_store("store").features
    assert found.dtype == np.int8
    step = (x.max(0) - x.min(0)) / 255
    # Zero has a code of its own, for which the others may move by half a step.
    assert np.all(np.abs(found[:] - x) <= 1.01 * step)
    assert np.all(found[:][x == 0] == 0)


def test_int8_features_of_added_nodes_are_zero():
    np.save("x.npy", X + 100)
    import_store(write("e.csv", "0,1\n1,55\n"), "store", "x.npy", feature_dtype="int8", add_missing_nodes=True)
    found = open_store("store").features
    assert found.shape == (56, 6)
    assert np.all(found[50:] == 0)


@pytest.mark.usefixtures("small_parts")
def test_numbers_beyond_float16_are_named_by_node_and_column():
    x = X.copy()
    x[33, 4] = -70_000
    np.save("x.npy", x)
    with pytest.raises(InputError, match=r"node 33 has -70000\.0 in column 4, and float16 goes up to 65504"):
        import_store(write("e.csv", csv_rows()), "store", "x.npy", feature_dtype="float16")


def test_an_unknown_type_of_features_is_refused():
    with pytest.raises(InputError, match=r"feature_dtype='float64': expected one of 'float32', 'float16', 'int8'"):
        import_store(write("e.csv", csv_rows()), "store", feature_dtype="float64")


# ---------------------------------------------------------------------- budgets


@pytest.mark.parametrize(("kind", "ids"), [("csv", "auto"), ("npy", "auto"), ("csv", "names")])
def test_a_budget_that_is_too_small_says_what_would_do(kind, ids):
    path = READERS[kind]()
    with pytest.raises(InputError, match=r"^memory 1 MB: sorting edges takes at least .*; pass --memory") as error:
        import_store(path, "store", memory="1MB", ids=ids)
    enough = int(re.search(r"--memory (\d+)MB", str(error.value))[1])
    import_store(path, "store", memory=f"{enough + 20}MB", ids=ids)  # what the process holds may differ a little
    assert open_store("store").num_edges == Graph.from_edges(ENDS).num_edges
    with pytest.raises(InputError, match="expected an amount such as 4GB"):
        import_store(path, "other", memory="plenty")


def test_too_many_runs_for_a_budget_are_merged_in_a_larger_one(monkeypatch):
    write("e.csv", csv_rows())
    with monkeypatch.context() as patch:
        patch.setattr(edge_stage, "_run_size", lambda *_: 4)
        patch.setattr("nodewise.importing.building.check_memory", lambda *_: None)
        patch.setattr(edge_stage, "least_room", lambda *_: 10**13)
        with pytest.raises(StoreError, match=r"merging edges takes at least 10 TB.*With --resume"):
            import_store("e.csv", "store")
    import_store("e.csv", "store", resume=True)
    same("store", Graph.from_edges(ENDS))


def test_edges_sorted_at_a_time_follow_the_memory_of_the_command_that_continues(monkeypatch):
    """With the same memory as before they stay as many, whatever the process holds by now: sums depend on it."""
    edges, work = EdgeStream(lambda _: iter(()), count=10**6), SimpleNamespace(done={})
    work.note = work.done.update
    begun = edge_stage._run_size(edges, work, 8 << 30, None)
    monkeypatch.setattr(edge_stage, "resident_memory", lambda: 1 << 30)
    assert edge_stage._run_size(edges, work, 8 << 30, None) == begun
    for memory in (4 << 30, 2 << 30):
        assert 0 < edge_stage._run_size(edges, work, memory, None) * sorting.RUN_BYTES[False] < memory


class Stopped(BaseException):
    """An interruption."""


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("ids", ["integers", "names"])
def test_an_npz_that_does_not_fit_is_extracted_and_streamed(save, ids, tmp_path, monkeypatch):
    """Edges, weights and features in one file; the cache is used in between and empty in the end."""
    monkeypatch.setenv("NODEWISE_CACHE", str(tmp_path / "cache"))
    save("g.npz", edge_index=ENDS, edge_weight=WEIGHTS, x=X)
    features = "g.npz" if ids == "integers" else None
    import_store("g.npz", "expected", features, ids=ids)
    assert not (tmp_path / "cache").exists()  # they fit

    def too_little(what, memory, *_):
        raise too_small(what, memory, 10**12)

    monkeypatch.setattr("nodewise.formats.npz.room_for", too_little)
    with monkeypatch.context() as patch:

        def stop(*_):
            raise Stopped

        patch.setattr("nodewise.importing.building.merge_runs", stop)
        with pytest.raises(Stopped):
            import_store("g.npz", "store", features, ids=ids)
    extracted = {path.name for path in (tmp_path / "cache").rglob("*.npy")}
    assert extracted == {"edge_index.npy", "edge_weight.npy"} | ({"x.npy"} if features else set())
    import_store("g.npz", "store", features, ids=ids, resume=True)
    assert not list((tmp_path / "cache" / "unpacked").iterdir())
    same("store", open_store("expected"))


def test_a_matrix_that_does_not_fit_says_what_would_do():
    sp.save_npz("m.npz", sp.random(3000, 3000, 0.5, format="csr"), compressed=False)
    with pytest.raises(InputError, match=r"memory 300 MB: reading m\.npz takes at least"):
        import_store("m.npz", "store", memory="300MB")


# ---------------------------------------------------------------------- graphs from other readers


def raw_graph(**known) -> RawGraph:
    """A reader of arrays, as those of data sets are."""

    def edge_parts(rows):
        for first in range(0, 400, rows):
            yield ENDS[:, first : first + rows], WEIGHTS[first : first + rows]

    def feature_parts(rows):
        for first in range(0, 50, rows):
            yield X[first : first + rows]

    return RawGraph(50, EdgeStream(edge_parts, 400, weighted=True), FeatureStream(feature_parts, 6), **known)


@pytest.mark.usefixtures("small_parts")
def test_a_raw_graph_becomes_a_store_with_all_that_is_known():
    labels = RNG.integers(-1, 4, 50)
    splits = {"train": np.arange(10), "test": np.array([40, 30])}
    raw = raw_graph(labels=labels, label_names=["a", "b", "c", "d"], splits=splits, name="raw")
    import_raw(raw, "store", memory=2 * 10**9, provenance={"from": "here"})
    same("store", Graph.from_edges(ENDS, 50, X, edge_weight=WEIGHTS))
    graph, manifest = open_store("store"), read_manifest("store")
    assert np.array_equal(graph.labels, labels)
    assert graph.label_names == ["a", "b", "c", "d"]
    assert {part: nodes.tolist() for part, nodes in graph.splits.items()} == {
        "train": list(range(10)),
        "test": [40, 30],
    }
    assert (manifest.name, manifest.provenance) == ("raw", {"from": "here"})
    assert manifest.counts["classes"] == 4


def test_several_labels_per_node_and_missing_ones():
    raw = raw_graph(labels=np.eye(50, 3, dtype=np.int8))
    import_raw(raw, "store", memory=2 * 10**9)
    assert open_store("store").multilabel
    few = dataclasses.replace(raw, labels=np.array([3, 1]), num_nodes=None)
    import_raw(few, "few", memory=2 * 10**9)
    assert open_store("few").labels.tolist() == [3, 1] + 48 * [-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_nodes": 20}, "20 nodes and 50"),
        ({"labels": np.zeros(51, np.int64)}, "50 nodes and 51 labels"),
        ({"splits": {"train": np.array([50])}}, r"splits\['train'\]"),
        ({"labels": np.full(50, 2), "label_names": ["a", "b"]}, "label_names: 2"),
    ],
)
def test_raw_graphs_that_contradict_themselves_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        import_raw(dataclasses.replace(raw_graph(), **changes), "store", memory=2 * 10**9)
    assert not list(Path().iterdir())


def test_progress_is_reported_stage_by_stage():
    reports = []
    np.save("x.npy", X)
    import_store(write("e.csv", csv_rows()), "store", "x.npy", progress=lambda *stage: reports.append(stage))
    assert list(dict.fromkeys(what for what, _, _ in reports)) == [
        "writing features",
        "reading and sorting edges",
        "merging edges",
    ]
    assert all(0 < done <= total for _, done, total in reports)
