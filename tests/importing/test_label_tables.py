"""Tables of labels: several per node, in rows or in columns; a label by the name of its column; splits by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import parquet, write
from nodewise import Graph, InputError, NodewiseWarning
from nodewise.graph.splits import random_splits
from nodewise.importing import import_graph
from nodewise.importing.onto_graph import read_splits, with_labels

EDGES = "source,target\nann,bob\nbob,cy\ncy,dee\n"
LONG = "node,label\nann,art\nann,golf\nbob,golf\ncy,\ncy,art\nann,art\n"
WIDE = "node,art,golf\nann,1,1\nbob,0,1\ncy,1,0\n"


def labels_by_name(graph):
    names = graph.label_names
    return {n: {names[i] for i in np.flatnonzero(row)} for n, row in zip(graph.node_names, graph.labels, strict=True)}


EXPECTED = {"ann": {"art", "golf"}, "bob": {"golf"}, "cy": {"art"}, "dee": set()}


def test_several_labels_per_node_are_one_row_each_if_the_user_says_so(run):
    write("e.csv", EDGES)
    write("y.csv", LONG)
    with pytest.raises(InputError, match=r"y\.csv: row 2 gives node 'ann' the label 'golf', row 1.*pass --multilabel"):
        import_graph("e.csv", labels="y.csv")
    code, _, err = run("import", "--edges", "e.csv", "--labels", "y.csv", "--multilabel", "-o", "s")
    assert code == 0, err
    assert labels_by_name(import_graph("e.csv", labels="y.csv", multilabel=True)) == EXPECTED


def test_a_column_of_zeros_and_ones_per_class_gives_several_labels_per_node():
    write("e.csv", EDGES)
    wide = parquet("y.parquet", node=["cy", "bob", "ann"], art=[True, False, True], golf=[False, True, True])
    for file in (write("y.csv", WIDE), wide, write("z.csv", WIDE.replace(",0", ","))):
        assert labels_by_name(import_graph("e.csv", labels=file)) == EXPECTED
    chosen = import_graph("e.csv", labels="y.csv", label=["golf"])
    assert chosen.labels.ndim == 1, "one column is one label per node"


@pytest.mark.parametrize("file", ["y.npy", "y.npz"])
def test_an_array_of_names_gives_labels_with_names(file):
    names = np.array(["golf", "art", "-1", "golf", "", "NA"])
    np.save(file, names) if file == "y.npy" else np.savez(file, y=names)
    graph = import_graph(write("e.csv", "0,1\n2,3\n4,5\n"), labels=file)
    assert (graph.labels.tolist(), graph.label_names) == ([1, 0, -1, 1, -1, -1], ["art", "golf"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900)), min_size=1, max_size=30))
def test_numbers_as_several_labels_keep_their_names(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("labels")
    (folder / "y.csv").write_text("node,label\n" + "".join(f"{node},{label}\n" for node, label in pairs))
    graph = with_labels(Graph.from_edges([range(5), range(1, 6)]), folder / "y.csv", multilabel=True)
    found = {(int(i), int(graph.label_names[j])) for i, j in np.argwhere(graph.labels)}
    assert found == set(pairs)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ("node,art,golf\nann,1,2\n", {}, r"column 'golf' holds 2.0 in row 1; a table with several.*--label"),
        (
            "node,age,team\nann,31,red\n",
            {},
            r"column 'age' holds .31. in row 1.*Name the column of labels with --label",
        ),
        ("node,team,city\nann,red,rome\n", {}, r"column 'team' holds 'red' in row 1.*--label"),
        ("node,art,golf\nann,1,1\nann,0,1\n", {}, r"rows 1 and 2 are both about node 'ann'"),
        ("node,art,golf\n", {}, r"has no row with a label"),
        ("node,team\nann,red\n", {"label": "group"}, r"has no column 'group', only node, team; check --label"),
        ("node\nann\n", {}, r"1 column \(node\); expected two"),
    ],
)
def test_a_table_that_is_no_table_of_labels_is_one_error(table, options, message):
    with pytest.raises(InputError, match=rf"^y\.csv: .*{message}"):
        import_graph(write("e.csv", EDGES), labels=write("y.csv", table), **options)


def test_a_label_is_found_by_the_name_that_the_user_gives():
    write("y.csv", "city,node,team\nrome,ann,red\noslo,bob,blue\n")
    graph = import_graph(write("e.csv", EDGES), labels="y.csv", label="team")
    assert graph.label_names == ["blue", "red"]
    assert [graph.labels[list(graph.node_names).index(n)] for n in ("ann", "bob", "cy")] == [1, 0, -1]


@pytest.fixture(params=["None", "null", "N/A", "<NA>", "#N/A", "nONE"])
def missing(request):
    return request.param


def test_words_for_missing_values_beside_numbers_are_unknown_labels(missing):
    graph = import_graph(write("e.csv", EDGES), labels=write("y.csv", f"node,label\nann,1.0\nbob,{missing}\ncy,0\n"))
    assert (graph.labels.tolist(), graph.label_names) == ([1, -1, 0, -1], None)


def test_words_for_missing_values_beside_names_are_unknown_labels_with_a_warning(missing):
    labels = write("y.csv", f"node,label\nann,red\nbob,{missing}\ncy,blue\n")
    with pytest.warns(NodewiseWarning, match=f"y.csv: 1 labels are '{missing}' and were read as unknown"):
        graph = import_graph(write("e.csv", EDGES), labels=labels)
    assert (graph.labels.tolist(), graph.label_names) == ([1, -1, 0, -1], ["blue", "red"])


# ---------------------------------------------------------------------- splits


@pytest.mark.parametrize("header", ["node,part\n", ""])
def test_splits_are_read_by_name_with_and_without_names_of_columns(header):
    graph = import_graph(write("e.csv", EDGES))
    write("parts.csv", f"{header}bob,Validation\nann,train\ndee,test\ncy, training\n")
    (split,) = read_splits(graph, Path("parts.csv"))
    names = [{graph.node_names[i] for i in part} for part in split]
    assert names == [{"ann", "cy"}, {"bob"}, {"dee"}]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("node,part\nann,train\nbob,trial\n", r"column 'part' holds 'trial' in row 2; expected one of train"),
        ("node,part\nzoe,train\n", r"holds 'zoe' in row 1; there is no such node"),
        ("node,part\nann,train\nann,test\n", r"node 0 is in train and in test"),
        ("node,part,x\nann,train,1\n", r"has the columns node, part, x; expected two"),
    ],
)
def test_a_table_of_parts_with_a_mistake_is_one_error(table, message):
    graph = import_graph(write("e.csv", EDGES))
    with pytest.raises(InputError, match=rf"^parts\.csv: .*{message}"):
        read_splits(graph, Path(write("parts.csv", table)))


def test_one_rare_class_gives_half_of_its_nodes_and_is_named():
    labels = np.repeat([0, 1, 2, 3], [50, 50, 3, 1])
    with pytest.warns(UserWarning, match="2 of 4 classes have fewer than 20 nodes, the smallest, d, has 1"):
        (split,) = random_splits(labels, 1, val=10, test=10, label_names=list("abcd"))
    assert np.bincount(labels[split.train]).tolist() == [20, 20, 1, 1]
