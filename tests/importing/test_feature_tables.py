"""Tables of features that are not plain rows of numbers -> Graph, against what Python's own csv module reads."""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from files import parquet, write
from nodewise import InputError, open_store
from nodewise.formats import feature_files
from nodewise.formats.feature_files import open_features
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
    file = open_features(tmp_path / write("x.csv", TRIPLES), None, 1 << 40, None)
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
