"""Files of edges, features and labels -> Graph: what the files say is what the graph holds."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from files import parquet, write
from nodewise import InputError, NodewiseWarning
from nodewise.importing import import_graph
from nodewise.importing.ids import SeenNodes
from nodewise.store import open_store, write_store

pytestmark = pytest.mark.filterwarnings("error::nodewise.NodewiseWarning")
FILES = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def pairs(graph) -> set[tuple[str, str]]:
    """The edges by the names of their ends, each in both directions, loops left out."""
    coo = graph.to_scipy().tocoo()
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    return {(names[u], names[v]) for u, v in zip(coo.row, coo.col, strict=True) if u != v}


def both_ways(*edges: tuple[object, object]) -> set[tuple[str, str]]:
    return {(str(u), str(v)) for u, v in edges if u != v} | {(str(v), str(u)) for u, v in edges if u != v}


# ---------------------------------------------------------------------- edges


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.csv", "0,1\n1,3\n"),
        ("edges.csv", "0,1\r\n1,3\r\n"),
        ("edges.csv", "0,1\n\n1,3"),
        ("edges.csv", "\ufeff0,1\n1,3\n"),
        ("edges.csv", " 0, 1\n1 ,3\n"),
        ("edges.csv", '"0","1"\n"1","3"\n'),
        ("edges.csv", "0.0,1.0\n1.0,3.0\n"),
        ("edges.csv", "+0,1\n1,3\n"),
        ("edges.csv", "source,target\n0,1\n1,3\n"),
        ("edges.csv", "anything,else\n0,1\n1,3\n"),
        ("edges.csv.gz", "0,1\n1,3\n"),
        ("edges.tsv", "0\t1\n1\t3\n"),
        ("edges.tsv.gz", "u\tv\n0\t1\n1\t3\n"),
        ("edges.txt", "0\t1\n1\t3\n"),
        ("edges.txt", "# Nodes: 4\n# FromNodeId\tToNodeId\n0\t1\n1\t3\n"),
        ("EDGES.CSV", "0,1\n1,3\n"),
        ("edges.csv", "kind,src,dst\nx,0,1\ny,1,3\n"),
        ("edges.csv", "to,from,kind\n1,0,x\n3,1,y\n"),
        ("edges.csv", "Source , TARGET\n0,1\n1,3\n"),
        ("edges.csv", "0,1,cites\n1,3,likes\n"),
    ],
)
def test_every_kind_of_text_gives_the_same_graph(name, content):
    graph = import_graph(write(name, content))
    assert graph.num_nodes == 4
    assert pairs(graph) == both_ways((0, 1), (1, 3))
    assert graph.node_names is None
    assert graph.edge_weight is None
    assert graph.name.lower() == "edges"


def test_a_gzip_file_of_several_parts_is_read_whole():
    Path("edges.csv.gz").write_bytes(gzip.compress(b"0,1\n") + gzip.compress(b"1,3\n"))
    assert pairs(import_graph("edges.csv.gz")) == both_ways((0, 1), (1, 3))


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint64(), pa.float64(), pa.decimal128(20, 0)])
def test_parquet_ids_of_every_numeric_type_are_whole_numbers(kind):
    parquet("edges.parquet", a=pa.array([0, 1]).cast(kind), b=pa.array([1, 3]).cast(kind))
    graph = import_graph("edges.parquet")
    assert pairs(graph) == both_ways((0, 1), (1, 3))
    assert graph.node_names is None


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.binary()])
def test_parquet_ids_of_every_text_type_are_names(kind):
    values = [pa.array(side).cast(kind) if kind != pa.binary() else pa.array(side, kind) for side in (["x"], ["y"])]
    pq.write_table(pa.table({"a": values[0], "b": values[1]}), "edges.parquet")
    assert pairs(import_graph("edges.parquet")) == both_ways(("x", "y"))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64])
def test_numpy_files_hold_edges_as_two_rows(dtype):
    ends = np.array([[0, 1], [1, 3]], dtype)
    np.save("edges.npy", ends)
    np.savez("edges.npz", edge_index=ends)
    assert pairs(import_graph("edges.npy")) == pairs(import_graph("edges.npz")) == both_ways((0, 1), (1, 3))


def test_a_sparse_matrix_tells_the_number_of_nodes_and_the_weights():
    sp.save_npz("plain.npz", sp.csr_matrix(([1, 1], ([0, 1], [1, 3])), (6, 6)))
    sp.save_npz("weighted.npz", sp.coo_matrix(([0.5, 2.0], ([0, 1], [1, 3])), (6, 6)))
    plain, weighted = import_graph("plain.npz"), import_graph("weighted.npz")
    assert plain.num_nodes == weighted.num_nodes == 6
    assert pairs(plain) == pairs(weighted) == both_ways((0, 1), (1, 3))
    assert plain.edge_weight is None
    assert weighted.to_scipy()[3, 1] == 2.0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("edges.csv", "source,target,weight\n0,1,0.5\n1,2,3\n"),
        ("edges.csv", "w,u,v\n0.5,0,1\n3,1,2\n"),
        ("edges.csv", "0,1,0.5\n1,2,3\n"),
        ("edges.csv", "0,1, 5e-1\n1,2,+3\n"),
        ("edges.tsv", "src\tdst\tkind\tWeight\n0\t1\tx\t0.5\n1\t2\ty\t3\n"),
    ],
)
def test_weights_come_from_a_column_of_that_name_or_a_third_of_numbers(name, content):
    matrix = import_graph(write(name, content)).to_scipy()
    assert matrix[0, 1] == matrix[1, 0] == 0.5
    assert matrix[1, 2] == 3


def test_a_third_column_of_another_name_is_taken_as_weight_with_a_warning():
    write("edges.csv", "source,target,year\n0,1,1999\n")
    with pytest.warns(NodewiseWarning, match="column 'year' is taken as the weight"):
        graph = import_graph("edges.csv")
    assert graph.to_scipy()[0, 1] == 1999


def test_weights_in_an_npz_file_are_used():
    np.savez("edges.npz", edge_index=np.array([[0], [1]]), edge_weight=np.array([2.5], np.float32))
    assert import_graph("edges.npz").to_scipy()[1, 0] == 2.5


def test_a_first_line_of_names_is_a_header_unless_told_otherwise():
    write("edges.csv", "alice,bob\ncarol,dave\n")
    with pytest.warns(NodewiseWarning, match=r"the first line \(alice, bob\) is taken as names of columns"):
        assert pairs(import_graph("edges.csv")) == both_ways(("carol", "dave"))
    assert pairs(import_graph("edges.csv", header=True)) == both_ways(("carol", "dave"))
    assert pairs(import_graph("edges.csv", header=False)) == both_ways(("alice", "bob"), ("carol", "dave"))


def test_a_first_line_of_numbers_is_a_row_unless_told_otherwise():
    write("edges.csv", "0,1\n1,2\n")
    assert pairs(import_graph("edges.csv", header=True)) == both_ways((1, 2))


def test_a_header_whose_words_occur_as_nodes_is_warned_about():
    for rows in ("alice,carol\n", "bob,carol\ncarol,alice\n"):  # in its own column, or in the other
        write("edges.csv", "alice,bob\n" + rows)
        with pytest.raises(InputError, match=r"'(alice|bob)' occurs as a value.*--no-header"):
            import_graph("edges.csv")


def test_empty_lines_before_a_header_change_nothing():
    for header in (None, True):
        assert pairs(import_graph(write("edges.csv", "\n\nsource,target\na,b\nb,c\n"), header=header)) == both_ways(
            ("a", "b"), ("b", "c")
        )


def test_names_that_were_hardly_meant_so_are_warned_about():
    spaced = write("spaced.csv", "source,target\nalice, bob\nbob, carol\n")
    with pytest.warns(NodewiseWarning, match="spaces at their ends"):
        assert import_graph(spaced).num_nodes == 4
    quoted = write("quoted.tsv", 'source\ttarget\n"alpha\tx\nb\tc\n"beta\ty\nf\tg\n')
    with pytest.warns(NodewiseWarning, match="line breaks in them"):
        import_graph(quoted)


@pytest.mark.parametrize("first", ["", "index", "edge_id", "id"])
def test_a_leading_index_is_not_an_end(first):
    write("edges.csv", f"{first},citing,cited\n0,smith,jones\n1,jones,lee\n")
    with pytest.raises(InputError, match="none of them is called source or target"):
        import_graph("edges.csv")


@pytest.mark.parametrize("header", ["node,neighbor,weight", "name,friend,weight"])
def test_a_first_column_of_nodes_is_an_end(header):
    graph = import_graph(write("edges.csv", f"{header}\nsmith,jones,2\njones,lee,3\n"))
    assert pairs(graph) == both_ways(("smith", "jones"), ("jones", "lee"))
    assert graph.edge_weight is not None


def test_a_first_line_with_one_number_is_a_row():
    write("edges.csv", "user,17\nuser2,18\n")
    assert pairs(import_graph("edges.csv")) == both_ways(("user", 17), ("user2", 18))


# ---------------------------------------------------------------------- ids


def test_names_are_numbered_as_they_first_appear_in_the_edges():
    graph = import_graph(write("edges.csv", "source,target\nd,b\na,d\nb,c\n"))
    assert list(graph.node_names) == ["d", "b", "a", "c"]


def test_names_follow_the_labels_first_and_the_features_before_all():
    write("edges.csv", "source,target\nd,b\na,d\n")
    write("labels.csv", "node,label\nb,x\na,y\n")
    write("features.csv", "node,f\nc,1\nd,2\nb,3\na,4\n")
    assert list(import_graph("edges.csv", labels="labels.csv").node_names) == ["b", "a", "d"]
    graph = import_graph("edges.csv", "features.csv", "labels.csv")
    assert list(graph.node_names) == ["c", "d", "b", "a"]
    assert graph.features[:, 0].tolist() == [1, 2, 3, 4]
    assert [graph.label_names[i] if i >= 0 else None for i in graph.labels] == [None, None, "x", "y"]


def test_integers_with_gaps_can_be_names():
    graph = import_graph(write("edges.csv", "1000000007,5\n5,70\n"), ids="names")
    assert list(graph.node_names) == ["1000000007", "5", "70"]
    assert pairs(graph) == both_ways((1000000007, 5), (5, 70))


def test_as_names_leading_zeros_are_kept():
    write("edges.csv", "source,target\n007,7\n")
    assert list(import_graph("edges.csv", ids="names").node_names) == ["007", "7"]
    write("features.csv", "node,f\nx,1\n007,2\n7,3\n")
    assert pairs(import_graph("edges.csv", "features.csv")) == both_ways(("007", "7"))


def test_one_file_of_names_makes_the_ids_in_all_files_names():
    write("edges.csv", "5,6\n")
    parquet("features.parquet", node=["6", "x", "5"], f=[1.0, 2.0, 3.0])
    graph = import_graph("edges.csv", "features.parquet")
    assert list(graph.node_names) == ["6", "x", "5"]
    assert pairs(graph) == both_ways((5, 6))


def test_a_name_far_down_makes_a_column_of_numbers_names():
    rows = [f"{i},{i + 1}" for i in range(5000)] + ["A-77,3"]
    graph = import_graph(write("edges.csv", "\n".join(rows)))
    assert graph.num_nodes == 5002
    assert ("A-77", "3") in pairs(graph)


def test_names_that_mean_nothing_elsewhere_are_ordinary_names():
    write("edges.csv", "source,target\nNA,null\nnan,NA\nTrue,2020-01-01\n")
    expected = both_ways(("NA", "null"), ("nan", "NA"), ("True", "2020-01-01"))
    assert pairs(import_graph("edges.csv")) == expected


def test_integers_that_leave_most_nodes_without_an_edge_are_warned_about():
    write("edges.csv", "10,20\n20,30\n")
    with pytest.warns(NodewiseWarning, match=r"numbers from 0 to 30, so 28 of 31 nodes have no edge; .* --ids names"):
        assert import_graph("edges.csv", ids="integers").num_nodes == 31
    write("labels.csv", "node,label\n0,a\n1,a\n2,b\n3,b\n")
    with pytest.warns(NodewiseWarning, match="so 24 of 31 nodes"):
        assert import_graph("edges.csv", labels="labels.csv").num_nodes == 31


def test_gaps_are_told_before_rows_are_written_for_them(monkeypatch):
    monkeypatch.setattr("nodewise.importing.building.merge_runs", _interrupt)
    write("edges.csv", "0,100000000\n")
    with pytest.warns(NodewiseWarning, match="99,999,999 of 100,000,001"), pytest.raises(KeyboardInterrupt):
        import_graph("edges.csv", ids="integers")


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("largest", "names"), [(29, None), (30, ["10", "20", "30"])])
def test_ids_of_which_fewer_than_one_in_ten_occurs_are_names(largest, names, caplog):
    write("edges.csv", f"10,20\n20,{largest}\n")
    with caplog.at_level("INFO", "nodewise"), warnings.catch_warnings():
        warnings.simplefilter("ignore", NodewiseWarning)
        graph = import_graph("edges.csv")
    assert (graph.node_names and list(graph.node_names)) == names
    said = "only 3 of the ids from 0 to 30 occur, so they are taken as names; .* pass --ids integers"
    assert bool(re.search(said, caplog.text)) == (names is not None)


def test_sparse_ids_in_a_column_of_features_are_names():
    write("edges.csv", "100,200\n")
    write("x.csv", "node,f\n200,2\n100,1\n")
    graph = import_graph("edges.csv", "x.csv")
    assert list(graph.node_names) == ["200", "100"]
    with pytest.raises(InputError, match="node 0 has no row"):
        import_graph("edges.csv", "x.csv", ids="integers")


def test_features_in_the_order_of_ids_keep_sparse_ids_numbers():
    write("edges.csv", "0,39\n")
    np.save("x.npy", np.eye(40))
    assert import_graph("edges.csv", "x.npy").node_names is None


def test_features_in_the_order_of_ids_keep_ids_with_leading_zeros_numbers():
    write("edges.csv", "000,001\n001,002\n")
    np.save("x.npy", np.eye(3))
    assert pairs(import_graph("edges.csv", "x.npy")) == both_ways((0, 1), (1, 2))


def test_ids_beyond_the_largest_number_of_a_node_are_names():
    write("edges.csv", "1000000000000000007,5\n")
    assert list(import_graph("edges.csv").node_names) == ["1000000000000000007", "5"]


def test_nodes_with_only_a_loop_occur():
    write("edges.csv", "".join(f"{i},{i}\n" for i in range(40)))
    assert import_graph("edges.csv").num_nodes == 40
    assert import_graph("edges.csv").node_names is None


@pytest.mark.parametrize("edges", ["000,001\n001,002\n", "0,1\n1,02\n"])
def test_ids_with_leading_zeros_are_names(edges, caplog):
    write("edges.csv", edges)
    expected = list(dict.fromkeys(edges.replace("\n", ",").strip(",").split(",")))
    with caplog.at_level("INFO", "nodewise"):
        assert list(import_graph("edges.csv").node_names) == expected
    assert "ids have leading zeros and are taken as names; if 007 is 7, pass --ids integers" in caplog.text
    assert import_graph("edges.csv", ids="integers").node_names is None
    parquet("edges.parquet", u=["0", "01"], v=["1", "2"])
    assert list(import_graph("edges.parquet").node_names) == ["0", "1", "01", "2"]
    assert import_graph("edges.parquet", ids="integers").num_nodes == 3


@settings(deadline=None)
@given(parts=st.lists(st.lists(st.integers(0, 10**6), max_size=50), max_size=5))
def test_seen_nodes_are_a_set(parts):
    seen, oracle = SeenNodes(), set()
    for part in parts:
        seen.add(np.array(part, np.int64))
        oracle.update(part)
    assert seen.count == len(oracle)
    probes = np.array([0, 5, 10**7, *(node + 1 for node in oracle), *oracle], np.int64)
    assert seen.has(probes).tolist() == [int(node) in oracle for node in probes]
    assert seen.first_missing() == next(i for i in range(10**6 + 2) if i not in oracle)


def test_semicolons_separate_fields_in_all_files():
    write("edges.csv", "from;to\na,1;b\nb;c\n")  # a comma is part of a name then
    write("x.csv", "node;f;g\na,1;1;2\nb;3;4\nc;5;6\n")
    write("y.txt", "node;label\nb;red\n")
    graph = import_graph("edges.csv", "x.csv", "y.txt")
    assert pairs(graph) == both_ways(("a,1", "b"), ("b", "c"))
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert graph.labels.tolist() == [-1, 0, -1]


# ---------------------------------------------------------------------- features


@pytest.mark.parametrize("text", ["f,node\n5,2\n4,1\n3,0\n", "Node ID,f\n2,5\n1,4\n0,3\n"])
def test_the_column_of_nodes_is_found_where_it_stands(text):
    graph = import_graph(write("edges.csv", "0,1\n1,2\n"), write("x.csv", text))
    assert graph.features.ravel().tolist() == [3, 4, 5]


@pytest.mark.parametrize("text", ["paper_id,f\n12,.5\n11,.3\n10,.1\n", "2,.5\n1,.3\n0,.1\n"])
def test_a_first_feature_that_looks_like_an_id_is_warned_about(text):
    write("edges.csv", "0,1\n1,2\n")
    with pytest.warns(NodewiseWarning, match="is taken as a feature"):
        assert import_graph("edges.csv", write("x.csv", text)).num_features == 2


@pytest.fixture
def edges():
    return write("edges.csv", "0,1\n1,2\n")


X = np.array([[1, 0], [0.5, -2], [0, 3]], np.float32)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "1,0\n0.5,-2\n0,3\n"),
        ("x.csv", "a,b\n1,0\n0.5,-2\n0,3\n"),
        ("x.csv", "node,a,b\n2,0,3\n0,1,0\n1,.5,-2e0\n"),
        ("x.csv", "ID,a,b\n1,0.5,-2\n2,0,3\n0,1,0\n"),
        ("x.csv", ",0,1\n0,1,0\n1,0.5,-2\n2,0,3\n"),
        ("x.tsv.gz", "name\ta\tb\n2\t0\t3\n0\t1\t0\n1\t0.5\t-2\n"),
    ],
)
def test_features_from_text_reach_their_nodes(edges, name, content):
    graph = import_graph(edges, write(name, content))
    assert np.array_equal(graph.features, X)
    assert graph.features.dtype == np.float32


def test_features_from_parquet_reach_their_nodes(edges):
    parquet("x.parquet", node=[2, 0, 1], a=pa.array([0, 1, 0.5], pa.float32()), b=pa.array([3, 0, -2], pa.int8()))
    assert np.array_equal(import_graph(edges, "x.parquet").features, X)
    parquet("y.parquet", a=X[:, 0], b=X[:, 1].astype(np.float64))
    assert np.array_equal(import_graph(edges, "y.parquet").features, X)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_from_numpy_files_are_rows_in_the_order_of_ids(edges, dtype):
    np.save("x.npy", X.astype(dtype))
    np.savez("x.npz", x=X.astype(dtype))
    for name in ("x.npy", "x.npz"):
        graph = import_graph(edges, name)
        assert np.array_equal(graph.features, X)
        assert graph.features.dtype == (np.float16 if dtype == np.float16 else np.float32)


def test_sparse_features_stay_sparse(edges):
    matrix = sp.csr_matrix(X)
    sp.save_npz("scipy.npz", matrix)
    parts = {"x_data": matrix.data, "x_indices": matrix.indices, "x_indptr": matrix.indptr, "x_shape": matrix.shape}
    np.savez("parts.npz", **parts)
    for name in ("scipy.npz", "parts.npz"):
        graph = import_graph(edges, name)
        assert sp.issparse(graph.features)
        assert np.array_equal(graph.features.toarray(), X)


def test_features_without_a_header_can_begin_with_names():
    write("edges.csv", "u,v\nA-1,B-2\n")
    graph = import_graph("edges.csv", write("x.csv", "B-2,1,2\nA-1,3,4\n"))
    assert list(graph.node_names) == ["B-2", "A-1"]
    assert graph.features.tolist() == [[1, 2], [3, 4]]


def test_nodes_without_an_edge_are_known_from_the_features():
    np.save("x.npy", np.ones((5, 2), np.float32))
    assert import_graph(write("edges.csv", "0,1\n"), "x.npy").num_nodes == 5


@pytest.mark.parametrize("sparse", [False, True])
def test_added_nodes_get_rows_of_zeros_and_no_label(sparse):
    write("edges.csv", "0,1\n1,4\n")
    if sparse:
        sp.save_npz("x.npz", sp.csr_matrix(X))
    else:
        np.savez("x.npz", x=X)
    np.save("y.npy", np.array([1, 0, 1]))
    graph = import_graph("edges.csv", "x.npz", "y.npy", add_missing_nodes=True)
    rows = graph.features.toarray() if sparse else graph.features
    assert np.array_equal(rows, np.vstack([X, np.zeros((2, 2))]))
    assert graph.labels.tolist() == [1, 0, 1, -1, -1]


def test_added_nodes_with_names_come_after_the_others():
    write("edges.csv", "source,target\nz,a\nb,y\n")
    write("x.csv", "node,f\nb,1\na,2\n")
    graph = import_graph("edges.csv", "x.csv", add_missing_nodes=True)
    assert list(graph.node_names) == ["b", "a", "z", "y"]
    assert graph.features[:, 0].tolist() == [1, 2, 0, 0]


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "content",
    ["node,label\n2,7\n0,0\n", "2,7\n0,0\n1,\n", "label,node\n7,2\n0,0\n-1,1\n", "id,y\n2,7.0\n0,0.0\n1,\n2,7\n"],
)
def test_whole_number_labels_are_kept(edges, content):
    graph = import_graph(edges, labels=write("y.csv", content))
    assert graph.labels.tolist() == [0, -1, 7]
    assert graph.label_names is None


@pytest.mark.parametrize("content", ["node,label\n2,spam\n0,ham\n1,\n", "2,spam\n0,ham\n", "0,ham\n1,\n2,spam\n"])
def test_named_labels_are_numbered_in_order(edges, content):
    graph = import_graph(edges, labels=write("y.csv", content))
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.label_names == ["ham", "spam"]


def test_labels_from_parquet_can_be_missing(edges):
    parquet("named.parquet", node=[2, 1, 0], label=["b", None, "a"])
    parquet("whole.parquet", node=[2, 1, 0], label=[4.0, None, 2.0])
    assert import_graph(edges, labels="named.parquet").labels.tolist() == [0, -1, 1]
    assert import_graph(edges, labels="whole.parquet").labels.tolist() == [2, -1, 4]


def test_label_arrays_go_by_the_order_of_nodes(edges):
    np.save("y.npy", np.array([3, -1, 0], np.int8))
    np.savez("column.npz", y=np.array([[3], [-1], [0]]))
    assert import_graph(edges, labels="y.npy").labels.tolist() == [3, -1, 0]
    assert import_graph(edges, labels="column.npz").labels.tolist() == [3, -1, 0]
    np.savez("multi.npz", y=np.array([[0, 1], [1, 1], [0, 0]]))
    graph = import_graph(edges, labels="multi.npz")
    assert graph.multilabel
    assert graph.labels.tolist() == [[0, 1], [1, 1], [0, 0]]


def test_a_label_array_goes_by_the_order_of_named_features():
    write("edges.csv", "source,target\na,b\n")
    write("x.csv", "node,f\nb,1\na,2\n")
    np.save("y.npy", np.array([5, 6]))
    graph = import_graph("edges.csv", "x.csv", "y.npy")
    assert dict(zip(graph.node_names, graph.labels.tolist(), strict=True)) == {"b": 5, "a": 6}


def test_no_edges_are_enough_where_nodes_are_known():
    np.save("x.npy", X)
    for name, content in (("edges.csv", "source,target\n"), ("short.csv", "source,target")):
        graph = import_graph(write(name, content), "x.npy")
        assert (graph.num_nodes, graph.num_edges) == (3, 0)
    np.save("edges.npy", np.zeros((2, 0), np.int64))
    assert import_graph("edges.npy", "x.npy").num_edges == 0
    write("named.csv", "node,f\na,1\n")
    assert list(import_graph("edges.csv", "named.csv").node_names) == ["a"]


# ---------------------------------------------------------------------- round trips


@FILES
@given(
    edges=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=30),
    header=st.booleans(),
    suffix=st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz"]),
)
def test_whole_number_edges_come_back_from_text(edges, header, suffix):
    comma = "," if ".csv" in suffix else "\t"
    lines = [f"from{comma}to"] * header + [f"{u}{comma}{v}" for u, v in edges]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NodewiseWarning)  # gaps
        graph = import_graph(write(f"edges{suffix}", "\n".join(lines) + "\n"), ids="integers")
    assert graph.num_nodes == max(max(edge) for edge in edges) + 1
    assert pairs(graph) == both_ways(*edges)


NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.sampled_from(
    ['"', '""', ",", "a,b", 'say "hi"', "'", "é", "漢字", "\U0001f600", " ", "#", "\t", "0", "007", "1.5", "-1", "\n"]
)


@FILES
@given(edges=st.lists(st.tuples(NAME, NAME), min_size=1, max_size=30), suffix=st.sampled_from([".csv", ".tsv"]))
def test_named_edges_come_back_from_text(edges, suffix):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter="," if suffix == ".csv" else "\t")
    writer.writerows([("source", "target"), *edges])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NodewiseWarning)
        graph = import_graph(write(f"edges{suffix}", buffer.getvalue()), ids="names")
    assert list(graph.node_names) == list(dict.fromkeys(name for edge in edges for name in edge))
    assert pairs(graph) == both_ways(*edges)


@pytest.mark.parametrize("unknown", ["nan", "NaN", "NA", "-1", ""])
@pytest.mark.parametrize("known", [("0", "1"), ("spam", "ham")])
def test_what_stands_for_an_unknown_label_is_no_class(unknown, known):
    write("edges.csv", "0,1\n1,2\n")
    write("y.csv", f"node,label\n0,{known[1]}\n1,{unknown}\n2,{known[0]}\n")
    doubtful = unknown.lower() in ("nan", "na") and known[0] == "spam"  # among names it may be one
    with pytest.warns(NodewiseWarning, match=f"1 labels are '{unknown}'") if doubtful else nullcontext():
        graph = import_graph("edges.csv", labels="y.csv")
    assert (graph.labels == -1).tolist() == [False, True, False]
    assert graph.present_labels.tolist() == [0, 1]


@pytest.mark.parametrize("place", ["_delta_log/0.checkpoint.parquet", ".cache/x.parquet"])
def test_what_is_beside_a_table_is_not_of_it(tmp_path, place):
    (tmp_path / place).parent.mkdir()
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"version": [1]}), tmp_path / place)
    assert pairs(import_graph(tmp_path)) == both_ways((0, 1))


def test_parquet_in_a_folder_and_below_it_is_refused(tmp_path):
    for place in ("a.parquet", "below/b.parquet"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / place)
    with pytest.raises(InputError, match="put them all into one folder"):
        import_graph(tmp_path)


def test_what_was_imported_can_be_stored_and_opened():
    write("edges.csv", "source,target\na,b\nb,c\n")
    write("x.csv", "node,f\nc,1\nb,2\na,3\n")
    graph = import_graph("edges.csv", "x.csv", write("y.csv", "node,label\na,spam\nb,ham\n"), name="mail")
    write_store(graph, "store")
    again = open_store("store")
    assert (again.name, list(again.node_names), again.label_names) == ("mail", ["c", "b", "a"], ["ham", "spam"])
    assert pairs(again) == both_ways(("a", "b"), ("b", "c"))
    assert again.labels.tolist() == [-1, 0, 1]


def test_an_unknown_kind_of_ids_is_refused():
    with pytest.raises(InputError, match="expected one of 'auto', 'integers', 'names'"):
        import_graph(write("edges.csv", "0,1\n"), ids="strings")


# ---------------------------------------------------------------------- names of features


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.csv", "node,age,Größe\n0,1,2\n1,3,4\n", ["age", "Größe"]),
        ("x.tsv", "age\tnode\tsize\n1\t0\t2\n3\t1\t4\n", ["age", "size"]),
        ("x.csv", "age,size\n1,2\n3,4\n", ["age", "size"]),
        ("x.csv", "1,2\n3,4\n", None),
    ],
)
def test_headers_of_text_files_name_the_features(name, content, expected):
    write("edges.csv", "0,1\n")
    write(name, content)
    graph = import_graph("edges.csv", name)
    assert graph.feature_names == expected
    assert graph.features.tolist() == [[1, 2], [3, 4]]


def test_columns_of_parquet_name_the_features():
    write("edges.csv", "0,1\n")
    parquet("x.parquet", size=[2.0, 4.0], node=[0, 1], age=[1.0, 3.0])
    assert import_graph("edges.csv", "x.parquet").feature_names == ["size", "age"]


def test_arrays_name_no_features():
    write("edges.csv", "0,1\n")
    np.save("x.npy", np.ones((2, 3), np.float32))
    assert import_graph("edges.csv", "x.npy").feature_names is None


def test_two_columns_of_one_name_are_read_without_names():
    write("edges.csv", "0,1\n")
    write("x.csv", "node,a,b,a\n0,1,2,3\n1,4,5,6\n")
    with pytest.warns(NodewiseWarning, match=r"x\.csv: two columns are named 'a'"):
        graph = import_graph("edges.csv", "x.csv")
    assert graph.feature_names is None
    assert graph.features.tolist() == [[1, 2, 3], [4, 5, 6]]
