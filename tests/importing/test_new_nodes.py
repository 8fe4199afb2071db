"""New nodes in files: laid over a graph, and predicted by the command line."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from files import write
from nodewise import NIGCN, Graph, InputError, write_store
from nodewise.graph import synthetic
from nodewise.importing.new_nodes import with_new_nodes

NAMED = dict(node_names=["ann", "bob", "cy"], feature_names=["age", "city=oslo", "city=rome"])


def named():
    return Graph.from_edges([[0, 1], [1, 2]], features=np.eye(3, dtype=np.float32), **NAMED)


def test_new_nodes_of_tables_have_the_columns_of_the_graph():
    write("e.csv", "source,target\ndee,bob\neve,dee\nann,eve\n")
    write("x.csv", "city,node,age\nrome,dee,31\nrome,eve,40\n")
    more = with_new_nodes(named(), "e.csv", "x.csv")
    assert more.features[more.nodes(["eve", "dee", "bob"])].tolist() == [[40, 0, 1], [31, 0, 1], [0, 1, 0]]
    links = {(more.node_names[i + 3], more.node_names[j]) for i, j in np.argwhere(more.links.toarray()) if i + 3 != j}
    assert links == {("dee", "bob"), ("dee", "eve"), ("eve", "dee"), ("eve", "ann")}


def test_new_nodes_may_have_words_that_the_graph_does_not_know(caplog):
    write("e.csv", "source,target\ndee,bob\n")
    write("x.csv", "node,feature,value\ndee,zebra,7\ndee,age,5\n")
    with caplog.at_level("INFO", "nodewise"):
        more = with_new_nodes(named(), "e.csv", "x.csv")
    assert more.features[[3]].tolist() == [[5, 0, 0]]
    assert "1 feature left out that graph does not have: zebra" in caplog.text


def test_ids_of_new_nodes_go_on_from_those_of_the_graph():
    graph = Graph.from_edges([[0, 1], [1, 2]], features=np.eye(3))
    np.save("x.npy", [[1, 2, 3], [4, 5, 6]])
    write("e.csv", "3,0\n4,3\n")
    more = with_new_nodes(graph, "e.csv", "x.npy")
    assert more.features[[4, 3]].tolist() == [[4, 5, 6], [1, 2, 3]]
    write("x.csv", "node,a,b,c\n4,4,5,6\n3,1,2,3\n")
    assert with_new_nodes(graph, "e.csv", "x.csv").features[[4, 3]].tolist() == [[4, 5, 6], [1, 2, 3]]


def test_without_features_new_nodes_are_the_unknown_ends_of_edges():
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "cy"])
    more = with_new_nodes(graph, write("e.csv", "source,target\ndee,bob\nbob,eve\n"))
    assert [more.node_names[i] for i in more.new_nodes] == ["dee", "eve"]


@pytest.mark.parametrize(
    ("edges", "features", "message"),
    [
        ("u,v\ndee,bbo\n", "node,age,city\ndee,1,rome\n", r"e\.csv: column 'v' holds 'bbo' in row 1.*mean 'bob'"),
        ("u,v\ndee,bob\n", "node,age,city\ndee,1,rome\nbob,2,oslo\n", r"x\.csv: .*'bob' in row 2; this is a node of"),
        ("u,v\ndee,bob\neve,bob\n", "node,age,city\ndee,1,rome\n", r"e\.csv: .*'eve' in row 2; this is neither a node"),
        ("u,v\ndee,bob\n", "node,city\ndee,rome\n", r"x\.csv: has no column 'age', which graph has"),
        ("u,v\ndee,bob\n", "node,age,city\ndee,1,rome\ndee,1,rome\n", r"x\.csv: .*'dee' in row 2; expected one row"),
        ("u,v\ndee,bob\n", None, r"graph has features; expected those of the new nodes, too: --new-features"),
        ("u,v,weight\ndee,bob,2\n", "node,age,city\ndee,1,rome\n", r"edge_weight: given, and"),
    ],
)  # fmt: skip
def test_mistakes_in_files_of_new_nodes_are_named_by_row(edges, features, message):
    with pytest.raises(InputError, match=message):
        with_new_nodes(named(), write("e.csv", edges), features and write("x.csv", features))


@pytest.mark.parametrize("engine", ["exact", "stratified"])
def test_the_command_predicts_new_nodes_alone(engine, run):
    graph = synthetic.dcsbm(300, avg_degree=8, classes=2, features=4, signal=2.0, seed=0)
    graph = graph.replace(node_names=[f"n{i}" for i in range(300)], label_names=["red", "blue"])
    write_store(graph, "store")
    model = NIGCN(seed=0, epochs=40, engine=engine).fit(graph, train=np.arange(100), val=np.arange(100, 200))
    model.save("model")
    alike = [np.flatnonzero(graph.labels == label)[:6] for label in (0, 1)]
    write("e.csv", "u,v\n" + "".join(f"new{c},n{i}\n" for c in (0, 1) for i in alike[c]))
    rows = [graph.features[alike[c]].mean(0) for c in (0, 1)]
    write("x.csv", "node,a,b,c,d\n" + "".join(f"new{c},{','.join(map(str, rows[c]))}\n" for c in (0, 1)))
    command = ["predict", "model", "store", "--new-edges", "e.csv", "--new-features", "x.csv"]
    code, _, err = run(*command, "-o", "new.csv")
    assert code == 0, err
    assert "2 nodes, 2 rows written to new.csv" in err
    with open("new.csv") as stream:
        found = {row["node"]: (row["label"], row["known"]) for row in csv.DictReader(stream)}
    assert found == {"new0": ("red", ""), "new1": ("blue", "")}
    code, _, err = run(*command, "-o", "new.csv")
    assert code == 2
    assert "already exists" in err
    code, out, _ = run(*command, "-o", "-", "--all-probabilities")
    assert code == 0
    assert out.splitlines()[0].count("probability") == 3
    code, _, err = run("predict", "model", "store", "--new-features", "x.csv", "-o", "a.csv")
    assert code == 2
    assert "goes with --new-edges" in err
