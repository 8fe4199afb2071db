"""Tables of features that are not plain rows of numbers -> Graph, against what Python's own csv module reads."""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from files import parquet, write
from nodewise import InputError, NodewiseWarning, open_store
from nodewise.formats import feature_files
from nodewise.formats.feature_files import open_features
from nodewise.formats.tables import ReadOptions
from nodewise.importing import import_graph, import_store

pytestmark = pytest.mark.filterwarnings("error::nodewise.NodewiseWarning")
TRIPLES = "node,feature,value\nb,red,2\na,blue,0.5\nb,blue,-1\nc,red,0\nb,green,7\n"


@pytest.fixture
def edges():
    return write("edges.csv", "source,target\na,b\nb,c\n")


# ---------------------------------------------------------------------- triples


def by_hand(text: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(text.splitlines()):
        found[row["node"]][row["feature"]] = float(row["value"])
    return found


@pytest.mark.parametrize("kind", ["csv", "tsv.gz", "parquet", "dictionary"])
def test_triples_become_a_sparse_matrix(edges, kind):
    rows = list(csv.DictReader(TRIPLES.splitlines()))
    if kind in ("parquet", "dictionary"):
        names = pa.array([row["feature"] for row in rows])
        names = names.dictionary_encode() if kind == "dictionary" else names
        nodes, values = [row["node"] for row in rows], [float(row["value"]) for row in rows]
        path = parquet("x.parquet", Node=nodes, value=values, Feature=names)
    else:
        path = write(f"x.{kind}", TRIPLES.replace(",", "\t") if "tsv" in kind else TRIPLES)
    graph = import_graph(edges, path)
    assert sp.issparse(graph.features)
    assert list(graph.node_names) == ["b", "a", "c"]
    columns = ["red", "blue", "green"]  # as they first appear
    expected = [[by_hand(TRIPLES)[node].get(name, 0) for name in columns] for node in graph.node_names]
    assert graph.features.toarray().tolist() == expected
    assert graph.features.nnz == 4  # the zero is not kept


def test_triples_of_numbered_nodes_and_features_may_come_in_any_order():
    random = np.random.default_rng(0)
    matrix = sp.random(50, 30, 0.2, format="coo", random_state=random, dtype=np.float32)
    order = random.permutation(matrix.nnz)
    rows = [f"{matrix.row[i]},{matrix.data[i].item()},{matrix.col[i]}" for i in order]
    write("x.csv", "\n".join(["node,value,feature", *rows]))
    graph = import_graph(write("edges.csv", "0,49\n"), "x.csv", add_missing_nodes=True)
    columns = list(dict.fromkeys(int(matrix.col[i]) for i in order))
    assert np.array_equal(graph.features.toarray(), matrix.toarray()[:, columns])


def test_triples_are_read_in_parts_and_never_made_dense(edges, monkeypatch):
    """A hundred thousand features of a hundred thousand nodes: dense, 40 GB."""
    monkeypatch.setattr("nodewise.formats.csv.BLOCK_BYTES", 1 << 14)
    count = 100_000
    write("x.csv", "node,feature,value\n" + "".join(f"{i},w{i * 7 % count},1\n" for i in range(count)))
    import_store(write("edges.csv", f"0,{count - 1}\n"), "store", "x.csv", memory="2GB")
    features = open_store("store").features
    assert features.shape == (count, count)
    assert np.array_equal(features.indices, np.arange(count))


def test_names_of_features_are_known_in_order(edges, tmp_path):
    file = open_features(tmp_path / write("x.csv", TRIPLES), ReadOptions(), 1 << 40, None)
    assert file.names == ["red", "blue", "green"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,a,1\n1,a,2\n0,a,3\n", "rows 1 and 3 both give the feature 'a' of one node"),
        ("0,a,1\n1,,2\n", "column 'feature' holds nothing in row 2; expected the name of a feature"),
        ("0,a,1\n1,b,x\n", "column 'value' holds 'x' in row 2; expected a finite number"),
        ("0,a,1\n1,b,inf\n", "column 'value' holds inf in row 2"),
        ("0,a,1\n,b,1\n", "column 'node' holds nothing in row 2"),
        ("0,a,1\n2,b,1\n", "node 1 has no row.*--add-missing-nodes"),
    ],
)
def test_bad_triples_are_named_by_file_and_row(rows, message):
    write("x.csv", f"node,feature,value\n{rows}")
    with pytest.raises(InputError, match=f"x.csv: {message}"):
        import_graph(write("edges.csv", "0,1\n"), "x.csv")


def test_triples_that_do_not_fit_in_memory_are_refused(edges, monkeypatch):
    monkeypatch.setattr(feature_files, "TRIPLE_BYTES", 1 << 40)
    with pytest.raises(InputError, match=r"reading x.csv takes at least .*--memory"):
        import_graph(edges, write("x.csv", TRIPLES))


# ---------------------------------------------------------------------- text


TEXTS = {"b": "Red red RED fish", "a": "blue fish", "c": ""}


def tf_idf(texts: list[list[str]]) -> np.ndarray:
    """By the textbook: (1 + ln tf) (1 + ln((1 + n) / (1 + df))), rows of length 1."""
    words = sorted({word for text in texts for word in text})
    rows = np.zeros((len(texts), len(words)))
    for i, text in enumerate(texts):
        for j, word in enumerate(words):
            if word in text:
                found = sum(word in other for other in texts)
                rows[i, j] = (1 + np.log(text.count(word))) * (1 + np.log((1 + len(texts)) / (1 + found)))
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def test_text_becomes_words_beside_the_numbers(edges, caplog):
    write(
        "x.csv",
        "node,year,abstract\n" + "".join(f"{node},{i + 1},{text}\n" for i, (node, text) in enumerate(TEXTS.items())),
    )
    with caplog.at_level("INFO", "nodewise"):
        graph = import_graph(edges, "x.csv", text="abstract")
    expected = tf_idf([text.lower().split() for text in TEXTS.values()])
    assert sp.issparse(graph.features)
    assert graph.features.dtype == np.float32
    assert np.allclose(graph.features.toarray(), np.hstack([[[1], [2], [3]], expected]), atol=1e-6)
    assert "x.csv: text column 'abstract': 3 words" in caplog.text


def test_missing_truth_values_are_filled_as_missing_numbers_are(edges):
    parquet("x.parquet", node=["a", "b", "c"], busy=[True, None, False])
    assert import_graph(edges, "x.parquet", impute="mean").features.tolist() == [[1, 0], [0.5, 1], [0, 0]]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_text_may_be_as_long_as_a_line(edges, place):
    texts = ["walk"] * 3
    texts[place] = "long " * 40_000  # Python's csv ends at 131,072 characters
    write("x.csv", "node,t\n" + "".join(f"{n},{text}\n" for n, text in zip("abc", texts, strict=True)))
    assert import_graph(edges, "x.csv", text="t").features.getnnz(1).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("header", "twice"), [("node,fish,n,about", "fish"), ("node,n,n,about", "n")])
def test_names_of_words_and_columns_that_are_the_same_are_not_kept(edges, header, twice):
    write("x.csv", f"{header}\na,1,2,red fish\nb,3,4,blue fish\nc,5,6,fish\n")
    with pytest.warns(NodewiseWarning, match=f"two columns are named '{twice}'"):
        graph = import_graph(edges, "x.csv", text="about")
    assert graph.features.shape == (3, 5)
    assert graph.feature_names is None


def test_text_alone_reaches_nodes_that_are_listed_in_any_order():
    parquet("x.parquet", title=["red fish", None, "blue fish"], node=[2, 0, 1])
    graph = import_graph(write("edges.csv", "0,1\n1,2\n"), "x.parquet", text="title")
    assert np.allclose(graph.features.toarray(), tf_idf([[], ["blue", "fish"], ["red", "fish"]]), atol=1e-6)


def test_text_in_the_first_column_is_not_a_column_of_nodes():
    graph = import_graph(write("edges.csv", "0,1\n"), write("x.csv", "title,n\nred,1\nblue,2\n"), text="title")
    assert graph.features.toarray().tolist() == [[1, 0, 1], [2, 1, 0]]


def test_of_many_texts_rare_words_are_left_out():
    rows = [f"{i},common word{i // 2 if i < 10 else i}\n" for i in range(1001)]
    graph = import_graph(write("edges.csv", "0,1\n"), write("x.csv", "node,t\n" + "".join(rows)), text="t")
    assert graph.num_features == 6  # common, and word0 to word4 which occur twice


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"text": "abstract"}, "x.csv: has no column 'abstract', only node, t"),
        ({"text": "t"}, "x.csv: column 't' has no words .*--text"),
        ({"impute": "median"}, "impute='median': expected one of 'mean', 'zero'"),
    ],
)
def test_text_that_is_not_there_is_refused(edges, more, message):
    write("x.csv", "node,t\na,?\nb,!\nc,?\n")
    with pytest.raises(InputError, match=message):
        import_graph(edges, "x.csv", **more)


def test_text_is_for_tables(edges):
    np.save("x.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match=r"x.npy: .*--text is for tables"):
        import_graph(edges, "x.npy", text="t")
    with pytest.raises(InputError, match="--text is about a table of features; pass --features"):
        import_graph(edges, text="t")


# ---------------------------------------------------------------------- categories and missing values


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_words_become_one_feature_per_value(edges, kind, caplog):
    kinds = ["shop", " home", None, "shop"]
    if kind == "csv":
        rows = zip("bacd", kinds, [1, 2, 3, 4], strict=True)
        path = write("x.csv", "node,kind,size\n" + "".join(f"{n},{k or ''},{s}\n" for n, k, s in rows))
    else:
        path = parquet("x.parquet", node=list("bacd"), kind=pa.array(kinds).dictionary_encode(), size=[1, 2, 3, 4])
    with caplog.at_level("INFO", "nodewise"):
        graph = import_graph(edges, path)
    assert graph.features.tolist() == [[0, 1, 1], [1, 0, 2], [0, 0, 3], [0, 1, 4]]  # home, shop, size
    assert "column 'kind': 2 categories, one feature each, 1 of 4 values missing" in caplog.text


@pytest.mark.parametrize("how", ["mean", "zero"])
@pytest.mark.parametrize("missing", ["", "NA", " nan", "null", "parquet"])
def test_missing_numbers_are_filled_and_marked(edges, how, missing, caplog):
    values, full = [1.5, None, 4.0, None], [1, 2, 3, 4]
    if missing == "parquet":
        path = parquet("x.parquet", node=list("bacd"), f=[1.5, float("nan"), 4.0, None], g=full)
    else:
        rows = zip("bacd", values, full, strict=True)
        text = "".join(f"{n},{missing if f is None else f},{g}\n" for n, f, g in rows)
        path = write("x.csv", f"node,f,g\n{text}")
    with pytest.raises(InputError, match=r"column 'f' holds .* in row [24];.*--impute mean"):
        import_graph(edges, path)
    with caplog.at_level("INFO", "nodewise"):
        graph = import_graph(edges, path, impute=how)
    fill = 2.75 if how == "mean" else 0
    assert graph.features.tolist() == [[1.5, 0, 1], [fill, 1, 2], [4, 0, 3], [fill, 1, 4]]
    assert "column 'f': 2 of 4 values missing" in caplog.text
    assert "column 'g'" not in caplog.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,x\nb,y\nc,7\n", "column 'f' holds 'x' in row 1; expected a finite number"),
        ("a,inf\nb,\nc,7\n", "column 'f' holds 'inf' in row 1; expected a finite number"),
        ("a,\nb,NA\nc,\n", "column 'f' has no values at all"),
        ('a,NA\nb,"0,5"\nc,"-1,25"\n', "column 'f' holds '0,5' in row 2; expected numbers with a decimal point"),
        ("a,1.000001e16\nb,1\nc,1\n", "column 'f' holds '1.000001e16' in row 1; .*Scale the column"),
        ("".join(f"{node},word{node}\n" for node in range(51)), "more than 50 different values.*--text 'f'"),
    ],
)
def test_columns_that_cannot_be_features_are_named(edges, rows, message):
    with pytest.raises(InputError, match=f"x.csv: .*{message}"):
        import_graph(edges, write("x.csv", f"node,f\n{rows}"), impute="mean", add_missing_nodes=True)


def test_numbers_with_commas_beside_a_word_are_categories(edges):
    graph = import_graph(edges, write("x.csv", 'node,f\na,"1,2"\nb,none of them\nc,"1,3"\n'))
    assert list(graph.feature_names) == ["f=1,2", "f=1,3", "f=none of them"]


def test_places_are_no_numbers_with_commas(edges):
    graph = import_graph(edges, write("x.csv", 'node,f\na,"48.85,2.35"\nb,"-1.5,7.25"\nc,"48.85,2.35"\n'))
    assert list(graph.feature_names) == ["f=-1.5,7.25", "f=48.85,2.35"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_words_of_any_arrow_type_are_categories(edges, kind):
    file = parquet("x.parquet", node=pa.array(["a", "b", "c"], kind), f=pa.array(["red", "blue", "red"], kind))
    assert list(import_graph(edges, file).feature_names) == ["f=blue", "f=red"]


def test_a_number_far_below_words_is_named(monkeypatch):
    monkeypatch.setattr("nodewise.formats.csv.BLOCK_BYTES", 1 << 10)
    write("x.csv", "node,f\n" + "".join(f"{i},red\n" for i in range(2000)) + "2000,7\n")
    with pytest.raises(InputError, match=r"column 'f' holds '7' in row 2,001; the rows before have words"):
        import_graph(write("edges.csv", "0,1\n"), "x.csv")


def test_the_command_says_what_it_did(edges, run):
    write("x.csv", "node,kind,size,about\na,x,1,red fish\nb,y,,blue\nc,x,3,fish\n")
    code, _, said = run(
        "import", "--edges", edges, "--features", "x.csv", "--text", "about", "--impute", "mean", "-o", "store"
    )
    assert code == 0
    assert "column 'kind': 2 categories" in said
    assert "column 'size': 1 of 3 values missing, filled with the mean, 2, and marked" in said
    assert "text column 'about': 3 words" in said
    assert "features=sparse 7" in said


def test_two_columns_called_value_are_no_triples(edges):
    write("x.csv", "node,value,value\na,1,2\nb,3,4\nc,5,6\n")
    with pytest.warns(NodewiseWarning, match="two columns are named 'value'"):
        graph = import_graph(edges, "x.csv")
    assert graph.features.shape == (3, 2)
