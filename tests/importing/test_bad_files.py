"""Files with something wrong in them: one clear InputError that names the file and, where there is one, the row."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from files import parquet, write
from nodewise import InputError
from nodewise.importing import import_graph


def says(*parts: str) -> str:
    """A pattern for a message that begins with a file and goes on with the parts in order."""
    return r"(?s)^" + ".*".join(re.escape(part) for part in parts)


# ---------------------------------------------------------------------- edges in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", says("edges.csv", "empty")),
        ("\n\n", says("edges.csv", "empty")),
        ("source,target\n", says("edges.csv", "the graph is empty")),
        ("source\n0\n1\n", says("edges.csv", "one column (source)", "at least two")),
        ("0 1\n1 2\n", says("edges.csv", "one column", "--delimiter")),
        ("0,1\n1,-2\n", says("edges.csv", "-2", "row 2", "whole numbers from 0")),
        ("0,1\n1,2\n2.5,1\n", says("edges.csv", "2.5", "row 3", "whole numbers")),
        ("2.5,1\n0,1\n", says("edges.csv", "2.5", "row 1", "whole numbers")),
        ("source,target\n0,1\n1e-3,2\n", says("edges.csv", "'source'", "1e-3", "row 2")),
        ("0,1\n1,\n", says("edges.csv", "column '2' holds nothing in row 2")),
        ("0,1\n1,99999999999999999999999\n", says("edges.csv", "99999999999999999999999", "row 2")),
        ("source,target\na,b\n,c\n", says("edges.csv", "'source' holds nothing in row 2", "name of a node")),
        ("0,1\n1,2,3\n", says("edges.csv", "row 2 has 3 columns", "first line has 2")),
        ("source,target\n0,1\n1,2\n3\n", says("edges.csv", "row 3 has 1 column,", "first line has 2")),
        ("0,1,0.5\n1,2,heavy\n", says("edges.csv", "'heavy'", "row 2", "finite number")),
        ("u,v,weight\n0,1,heavy\n", says("edges.csv", "'weight' holds 'heavy' in row 1")),
        ("u,v,weight\n0,1,1\n1,2,\n", says("edges.csv", "'weight' holds nothing in row 2")),
        ("u;v;strength\n0;1;0,5\n1;2;2,25\n", says("edges.csv", "'strength' holds '0,5' in row 1", "decimal point")),
        (
            "u;v;w\n0;1;1.234,5\n1;2;,5\n2;3;1,2E-05\n3;0;5,5%\n",
            says("edges.csv", "'w' holds '1.234,5' in row 1", "decimal point"),
        ),
        ("u,v,weight\n0,1,1\n1,2,0\n", says("edges.csv", "'weight' holds 0.0 in row 2", "above 0")),
        ("u,v,weight\n0,1,-1\n", says("edges.csv", "-1.0 in row 1", "above 0")),
        ("u,v,weight\n0,1,nan\n", says("edges.csv", "nan in row 1", "finite")),
        ("u,v,weight\n0,1,1e999\n", says("edges.csv", "inf in row 1", "finite")),
        ('u,v\na,b\nc,"d\ne,f\ng,h\n', says("edges.csv", "row 2 opens a quote that is never closed")),
    ],
)
def test_bad_edges_are_named_by_file_and_row(content, message):
    with pytest.raises(InputError, match=message):
        import_graph(write("edges.csv", content))


@pytest.mark.parametrize(
    ("edge", "message"),
    [("0,1,1e19", "1e+19 in row 2; expected.*at most 1e+18"), ("1,1,1e-44", "1e-44 in row 2.*a loop")],
)
def test_weights_that_float32_cannot_compute_with_are_named(edge, message):
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        import_graph(write("edges.csv", f"u,v,weight\n0,1,1e-44\n{edge}\n"))


def test_labels_without_a_row_are_refused():
    write("edges.csv", "0,1\n")
    with pytest.raises(InputError, match=says("y.csv", "no row with a label", "node, label", "Leave --labels out")):
        import_graph("edges.csv", labels=write("y.csv", "node,label\n"))


def test_a_bad_row_far_down_is_found():
    rows = [f"{i},{i + 1}" for i in range(20_000)]
    rows[12_344] = "7,-1"
    with pytest.raises(InputError, match=says("edges.csv", "-1 in row 12,345;")):
        import_graph(write("edges.csv", "\n".join(rows)))
    rows[12_344] = "7,8,9"
    with pytest.raises(InputError, match=says("edges.csv", "row 12,345 has 3 columns")):
        import_graph(write("edges.csv", "\n".join(rows)))


@pytest.mark.parametrize("bad", [b"\xff", b"caf\xe9", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_are_named_by_row(bad):
    write("edges.csv", b"source,target\na,b\nc," + bad + b"\nd,e\n")
    with pytest.raises(InputError, match=says("edges.csv", "column 'target'", "row 2", "UTF-8")):
        import_graph("edges.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_text_in_another_encoding_is_refused(encoding):
    with pytest.raises(InputError, match=says("edges.csv", "text in UTF-16", "save it in UTF-8")):
        import_graph(write("edges.csv", "source,target\na,b\n".encode(encoding)))


def test_files_of_another_kind_than_their_name_says_are_named_for_what_they_are():
    Path(parquet("edges.parquet", u=[0], v=[1])).rename("edges.txt")
    with pytest.raises(InputError, match=r"edges\.txt: is a Parquet file; name it \.parquet"):
        import_graph("edges.txt")
    np.save("edges.npy", np.array([[0], [1]], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"edges\.npy: is an array of Python objects.*Save it"):
        import_graph("edges.npy")


@pytest.mark.parametrize("extra", [{"ids": "integers"}, {"labels": "y.npy"}])
def test_an_id_beyond_the_largest_number_of_a_node_is_named(extra):
    write("edges.csv", "0,1\n1,99999999999\n")
    np.save("y.npy", [0, 1])
    with pytest.raises(InputError, match=says("edges.csv", "99999999999", "row 2", "--ids names")):
        import_graph("edges.csv", **extra)


def test_ids_said_to_be_integers_must_be():
    write("edges.csv", "source,target\n0,1\n1,A-77\n")
    with pytest.raises(InputError, match=says("edges.csv", "'A-77'", "row 2", "whole numbers", "--ids names")):
        import_graph("edges.csv", ids="integers")


def test_rows_are_counted_without_comments_and_blank_lines():
    write("edges.txt", "# a\n# b\nu\tv\n0\t1\n\n1\t-5\n")
    with pytest.raises(InputError, match=says("edges.txt", "-5 in row 2")):
        import_graph("edges.txt")
    write("edges.txt", "# a\n# b\nu\tv\n0\t1\n1\t2\t3\n")
    with pytest.raises(InputError, match=says("edges.txt", "row 2 has 3 columns")):
        import_graph("edges.txt")


# ---------------------------------------------------------------------- nodes that do not exist


def test_an_edge_to_a_node_without_features_is_named_as_in_the_design():
    rows = [("a", "b")] * 1203 + [("b", "A-77")]
    parquet("edges.parquet", source=[u for u, _ in rows], target=[v for _, v in rows])
    parquet("nodes.parquet", node=["a", "b"], f=[1.0, 2.0])
    expected = (
        "edges.parquet: row 1,204 names node 'A-77', which is not in nodes.parquet; "
        "pass --add-missing-nodes or fix the file"
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        import_graph("edges.parquet", "nodes.parquet")


def test_an_edge_beyond_the_feature_rows_is_named():
    np.save("x.npy", np.ones((3, 2)))
    write("edges.csv", "0,1\n1,2\n3,0\n")
    with pytest.raises(InputError, match=says("edges.csv: row 3 names node 3, which is not in x.npy")):
        import_graph("edges.csv", "x.npy")
    np.save("edges.npy", np.array([[0, 1], [1, 7]]))
    with pytest.raises(InputError, match=says("edges.npy: edge 2 names node 7, which is not in x.npy")):
        import_graph("edges.npy", "x.npy")


def test_an_edge_beyond_the_label_rows_is_named():
    np.save("y.npy", np.array([0, 1]))
    with pytest.raises(InputError, match=says("edges.csv: row 2 names node 2, which is not in y.npy")):
        import_graph(write("edges.csv", "0,1\n1,2\n"), labels="y.npy")


def test_a_label_of_a_node_without_features_is_named():
    write("edges.csv", "0,1\n")
    np.save("x.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match=says("y.csv: row 2 names node 2, which is not in x.npy")):
        import_graph("edges.csv", "x.npy", write("y.csv", "node,label\n0,1\n2,1\n"))
    write("names.csv", "source,target\na,b\n")
    write("x.csv", "node,f\na,1\nb,2\n")
    with pytest.raises(InputError, match=says("y.csv: row 1 names node 'c', which is not in x.csv")):
        import_graph("names.csv", "x.csv", write("y.csv", "node,label\nc,1\n"))


# ---------------------------------------------------------------------- features


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", says("x.csv", "empty")),
        ("node\n0\n1\n", says("x.csv", "no column of features")),
        ("node,f,g\n0,1,2\n1,nan,2\n", says("x.csv", "column 'f' holds nan in row 2", "finite")),
        ("node,f,g\n0,1,2\n1,1,-inf\n", says("x.csv", "column 'g' holds -inf in row 2")),
        ("node,f,g\n0,1,2\n1,,2\n", says("x.csv", "column 'f' holds nothing in row 2")),
        ("node,f,g\n0,1,red\n1,1,2\n", says("x.csv", "column 'g' holds 'red' in row 1")),
        ("node,f,g\n0,1,2\n1,1e99,2\n", says("x.csv", "column 'f' holds inf in row 2")),
        ("1,2\n3,x\n", says("x.csv", "column '2' holds 'x' in row 2")),
        ("nan,2\n3,4\n", says("x.csv", "column '1' holds nan in row 1")),
        ("node,f\n0,1\n2,1\n", says("x.csv", "node 1 has no row")),
        ("node,f\n1,1\n2,1\n", says("x.csv", "node 0 has no row")),
        ("node,f\n0,1\n1,2\n0,3\n", says("x.csv", "rows 1 and 3", "both about node 0")),
        ("node,f\n0,1\n-1,2\n", says("x.csv", "column 'node' holds -1 in row 2")),
        ("node,f\n0,1\n1.5,2\n", says("x.csv", "column 'node'", "1.5", "row 2")),
        ("node,f\n0,1\n,2\n", says("x.csv", "column 'node' holds nothing in row 2")),
        ("node,f\n0,1\n1,2,3\n", says("x.csv", "row 2 has 3 columns", "first line has 2")),
    ],
)
def test_bad_features_in_text_are_named_by_file_and_row(content, message):
    with pytest.raises(InputError, match=message):
        import_graph(write("edges.csv", "0,1\n"), write("x.csv", content))


def test_a_named_node_with_two_rows_is_named():
    write("edges.csv", "u,v\na,b\n")
    with pytest.raises(InputError, match=says("x.csv", "rows 2 and 3", "both about node 'b'")):
        import_graph("edges.csv", write("x.csv", "node,f\na,1\nb,2\nb,3\n"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_features_in_arrays_are_named_by_file_row_and_column(value):
    x = np.ones((4, 3), np.float32)
    x[2, 1] = value
    np.save("x.npy", x)
    np.savez("x.npz", x=x)
    sp.save_npz("sparse.npz", sp.csr_matrix(x))
    for name in ("x.npy", "x.npz", "sparse.npz"):
        with pytest.raises(InputError, match=says(name, "node 2", str(value), "column 1")):
            import_graph(write("edges.csv", "0,1\n"), name)


def test_a_missing_value_in_parquet_is_named():
    parquet("x.parquet", node=[0, 1], f=[1.0, None])
    with pytest.raises(InputError, match=says("x.parquet", "column 'f' holds nothing in row 2")):
        import_graph(write("edges.csv", "0,1\n"), "x.parquet")


@pytest.mark.parametrize("column", [[[1.0], [2.0]], [{"a": 1}, {"a": 2}]], ids=["list", "struct"])
def test_features_that_are_no_numbers_are_named_by_column_and_type(column):
    parquet("x.parquet", node=[0, 1], f=column)
    with pytest.raises(InputError, match=says("x.parquet", "column 'f' is of type")):
        import_graph(write("edges.csv", "0,1\n"), "x.parquet")


@pytest.mark.parametrize("array", [np.ones(3), np.ones((2, 2, 2)), np.array([["a", "b"]])])
def test_feature_arrays_of_the_wrong_kind_are_named(array):
    np.save("x.npy", array)
    with pytest.raises(InputError, match=says("x.npy")):
        import_graph(write("edges.csv", "0,1\n"), "x.npy")


def test_rows_without_names_cannot_be_matched_to_names():
    write("edges.csv", "u,v\na,b\n")
    np.save("x.npy", np.ones((2, 2)))
    np.save("y.npy", np.array([0, 1]))
    with pytest.raises(InputError, match=says("x.npy", "no node names", "edges.csv")):
        import_graph("edges.csv", "x.npy")
    with pytest.raises(InputError, match=says("y.npy", "no node names", "edges.csv")):
        import_graph("edges.csv", labels="y.npy")


@pytest.mark.parametrize(
    "parts",
    [
        {"x_indices": np.array([0, 9])},
        {"x_indices": np.array([0, -1])},
        {"x_indptr": np.array([0, 1, 5])},
        {"x_indptr": np.array([0, 2, 1])},
        {"x_indptr": np.array([0, 9_999_999, 0])},  # not seen by scipy, which crashes
        {"x_shape": np.array([2])},
        {"x_shape": np.array([-2, 3])},
        {"x_data": np.array([1.0])},
    ],
)
def test_parts_that_make_no_sparse_matrix_are_refused(parts):
    good = {"x_data": np.ones(2), "x_indices": np.array([0, 2]), "x_indptr": np.array([0, 1, 2]), "x_shape": (2, 3)}
    np.savez("x.npz", **{**good, **parts})
    with pytest.raises(InputError, match=says("x.npz")):
        import_graph(write("edges.csv", "0,1\n"), "x.npz")


@pytest.mark.parametrize(("indices", "indptr"), [([0, 99], [0, 1, 2]), ([0, 1], [0, 9_999_999, 0])])
def test_a_saved_matrix_that_points_outside_itself_is_refused(indices, indptr):
    np.savez("x.npz", format=b"csr", shape=(2, 3), data=np.ones(2), indices=np.array(indices), indptr=np.array(indptr))
    for edges, features in ((write("edges.csv", "0,1\n"), "x.npz"), ("x.npz", None)):
        with pytest.raises(InputError, match=says("x.npz")):
            import_graph(edges, features)


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", says("y.csv", "empty")),
        ("node\n0\n", says("y.csv", "1 column (node)", "expected two")),
        ("node,a,b\n0,1,2\n", says("y.csv", "column 'b' holds 2.0 in row 1", "--label")),
        ("node,label\n0,spam\n1,ham\n0,ham\n", says("y.csv", "row 3", "node 0", "'ham'", "row 1", "'spam'")),
        ("node,label\n0,\n0,spam\n0,ham\n", says("y.csv", "row 3", "node 0", "'ham'", "row 2", "'spam'")),
        ("node,label\n0,1\n0,2\n", says("y.csv", "row 2", "node 0", "label 2", "row 1", "1")),
        ("node,label\n0,\n1,-2\n", says("y.csv", "column 'label' holds '-2' in row 2")),
        ("node,label\n0,1\n1,1.5\n", says("y.csv", "column 'label' holds '1.5' in row 2")),
        ("node,label\n0,1\n-1,2\n", says("y.csv", "column 'node' holds -1 in row 2")),
        ("node,label\n0,1\n,2\n", says("y.csv", "column 'node' holds nothing in row 2")),
        (b"node,label\n0,a\n1,\xff\n", says("y.csv", "column 'label'", "row 2", "UTF-8")),
    ],
)
def test_bad_labels_are_named_by_file_and_row(content, message):
    with pytest.raises(InputError, match=message):
        import_graph(write("edges.csv", "0,1\n"), labels=write("y.csv", content))


@pytest.mark.parametrize(
    "array",
    [
        np.array([0, 1, 2]),
        np.array([0.5, 1]),
        np.array([0, -2]),
        np.array([[0, 2], [1, 1]]),
        np.array(3),
        np.zeros((2, 2, 2), int),
    ],
)
def test_bad_label_arrays_are_named(array):
    np.save("x.npy", np.ones((2, 2)))
    np.save("y.npy", array)
    with pytest.raises(InputError, match=says("y.npy")):
        import_graph(write("edges.csv", "0,1\n"), "x.npy", "y.npy")


# ---------------------------------------------------------------------- files that are not what they seem


def test_a_missing_file_a_folder_and_an_unknown_kind_are_named():
    Path("folder.csv").mkdir()
    Path("folder.parquet").mkdir()
    Path("folder.npy").mkdir()
    for name in ("missing.csv", "missing.csv.gz", "missing.parquet", "missing.npy", "missing.npz"):
        with pytest.raises(InputError, match=says(name, "no such file")):
            import_graph(name)
    for name in ("folder.csv", "folder.parquet", "folder.npy"):
        with pytest.raises(InputError, match=says(name, "folder")):
            import_graph(name)
    for name in ("edges.xlsx", "edges", "edges.gz"):
        with pytest.raises(InputError, match=says(name, "expected .csv, .tsv")):
            import_graph(write(name, "0,1\n"))


def good_files() -> dict[str, bytes]:
    """The same small graph in every format that has an inside to damage."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 50, (2, 300))
    np.save("g.npy", ends)
    np.savez_compressed("g.npz", edge_index=ends)
    sp.save_npz("s.npz", sp.csr_matrix((np.ones(300), ends), (50, 50)))
    parquet("g.parquet", source=ends[0], target=[f"n{i}" for i in ends[1]])
    Path("g.csv.gz").write_bytes(gzip.compress("".join(f"{u},{v}\n" for u, v in ends.T).encode()))
    return {name: Path(name).read_bytes() for name in ("g.npy", "g.npz", "s.npz", "g.parquet", "g.csv.gz")}


@pytest.mark.parametrize("name", ["g.npy", "g.npz", "s.npz", "g.parquet", "g.csv.gz"])
def test_a_truncated_file_is_an_error_that_names_it(name):
    data = good_files()[name]
    import_graph(name)
    for length in (0, 1, 10, len(data) // 2, len(data) - 1):
        Path(name).write_bytes(data[:length])
        with pytest.raises(InputError, match=says(name)):
            import_graph(name)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_an_error_of_ours_or_none(data):
    files = good_files()
    name = data.draw(st.sampled_from(sorted(files)))
    damaged = bytearray(files[name])
    position = data.draw(st.integers(0, min(200, len(damaged) - 1)) | st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    Path(name).write_bytes(damaged)
    message = name
    try:
        # Ids as names: a flipped bit that makes an id huge must not ask for as many nodes.
        import_graph(name, ids="names")
    except InputError as error:
        message = str(error)
    assert message.startswith(name)


def test_pickled_arrays_are_not_loaded():
    class Attack:
        def __reduce__(self):
            return os.mkdir, ("attacked",)

    np.save("a.npy", np.array([Attack()], object), allow_pickle=True)
    np.savez("a.npz", edge_index=np.array([Attack()], object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match=says(name, "Python objects")):
            import_graph(name)
    assert not Path("attacked").exists()


@pytest.mark.parametrize("array", [np.zeros((5, 2), int), np.zeros(4, int), np.zeros((3, 5), int), np.array(1)])
def test_edge_arrays_of_the_wrong_shape_are_named(array):
    np.save("edges.npy", array)
    with pytest.raises(InputError, match=says("edges.npy", "expected (2, E)")):
        import_graph("edges.npy")


def test_an_npz_file_without_edges_says_what_it_holds():
    np.savez("edges.npz", a=np.zeros(2), b=np.zeros(3))
    with pytest.raises(InputError, match=says("edges.npz", "holds a, b", "edge_index")):
        import_graph("edges.npz")
    with zipfile.ZipFile("other.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match=says("other.npz")):
        import_graph("other.npz")


def test_fractional_and_negative_ids_in_arrays_are_named_by_edge():
    np.save("edges.npy", np.array([[0, 1.5], [1, 2]]))
    with pytest.raises(InputError, match=says("edges.npy", "1.5 in edge 2", "whole numbers")):
        import_graph("edges.npy")
    np.save("edges.npy", np.array([[0, 1], [1, -2]]))
    with pytest.raises(InputError, match=says("edges.npy", "-2 in edge 2")):
        import_graph("edges.npy")


def test_a_matrix_that_is_not_square_or_of_another_graph_is_named():
    sp.save_npz("edges.npz", sp.csr_matrix((3, 4)))
    with pytest.raises(InputError, match=says("edges.npz", "square")):
        import_graph("edges.npz")
    sp.save_npz("edges.npz", sp.eye(3, format="csr"))
    np.save("x.npy", np.ones((5, 2)))
    with pytest.raises(InputError, match=says("edges.npz", "3 rows of the matrix for 5 nodes")):
        import_graph("edges.npz", "x.npy")


def test_features_and_labels_of_different_length_are_named():
    np.save("x.npy", np.ones((5, 2)))
    np.save("y.npy", np.zeros(4, int))
    with pytest.raises(InputError, match=says("y.npy", "4 labels for 5 nodes")):
        import_graph(write("edges.csv", "0,1\n"), "x.npy", "y.npy")


def test_an_empty_graph_is_an_error():
    np.save("edges.npy", np.zeros((2, 0), int))
    with pytest.raises(InputError, match=says("edges.npy", "empty")):
        import_graph("edges.npy")
    np.save("x.npy", np.ones((0, 2)))
    with pytest.raises(InputError, match="empty"):
        import_graph("edges.npy", "x.npy")
