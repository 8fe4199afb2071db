"""One small graph in every form that users have: the graph that comes out is the same."""

from __future__ import annotations

import _thread
import io
import re
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from files import parquet, write
from nodewise import Graph, InputError, open_store
from nodewise.formats import sql
from nodewise.formats.csv import BLANK, TextTable, _whole_lines
from nodewise.importing import import_graph, import_store

PAIRS = [("ann", "bob", 1.0), ("bob", "cy", 2.0), ("cy", "ann", 0.5), ("dee", "ann", 1.0)]
NAMES = ["ann", "bob", "cy", "dee"]
AGES = [31.0, 40.0, 25.0, 19.0]
TEAMS = ["red", "blue", "red", "blue"]


def rows(*columns, header="", between=","):
    lines = [between.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([header] * bool(header) + lines) + "\n"


SOURCES, TARGETS, WEIGHTS = map(list, zip(*PAIRS, strict=True))
CSV = rows(SOURCES, TARGETS, WEIGHTS, header="source,target,weight")
NODES = rows(NAMES, AGES, TEAMS, header="node,age,team")


def adjacency(graph):
    """Weights by the names of both ends, the loops that every node has left out."""
    matrix = graph.to_scipy().tocoo()
    names = list(graph.node_names)
    ends = zip(matrix.row, matrix.col, matrix.data, strict=True)
    return {(names[i], names[j]): w for i, j, w in ends if i != j}


EXPECTED = {pair: w for a, b, w in PAIRS for pair in ((a, b), (b, a))}
UNWEIGHTED = dict.fromkeys(EXPECTED, 1.0)


def node_table(graph):
    ages = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    teams = [graph.label_names[label] for label in graph.labels]
    return dict(zip(graph.node_names, zip(ages[:, 0].tolist(), teams, strict=True), strict=True))


NODE_TABLE = dict(zip(NAMES, zip(AGES, TEAMS, strict=True), strict=True))


# ---------------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("e.csv", CSV, {}),
        ("e.tsv", CSV.replace(",", "\t"), {}),
        ("e.csv", CSV.replace(",", ";"), {}),
        ("e.csv", CSV.replace(",", "\t"), {}),
        ("e.csv", CSV.replace(",", "|"), {"delimiter": "|"}),
        ("e.txt", CSV.replace(",", " "), {"delimiter": "space"}),
        ("e.txt", CSV, {}),
        ("e.txt", "# Nodes: 4\n# from to\n" + rows(SOURCES, TARGETS, WEIGHTS, between=" "), {}),
        ("e.txt", "% KONECT\n" + rows(SOURCES, TARGETS, WEIGHTS, between="  \t "), {"header": False}),
        ("e.edges", rows(SOURCES, TARGETS, WEIGHTS, between=" ").replace("\n", "  \r\n"), {"header": False}),
        ("e.edgelist", "  " + rows(SOURCES, TARGETS, WEIGHTS, between="   ").rstrip("\n"), {"header": False}),
        ("e.edges", CSV.replace(",", " ").replace("\n", "\r"), {}),
        ("e.csv", "sep=;\n" + CSV.replace(",", ";"), {}),
        ("e.csv", ("\ufeffsep=\t\n" + CSV.replace(",", "\t")).replace("\n", "\r\n"), {}),
        ("e.csv", "sep=;\n" + CSV, {"delimiter": ","}),
        ("e.csv", "sep=;\n" + CSV.replace("source,target", "one,other").replace(",", ";"), {}),
    ],
)
def test_fields_may_be_separated_in_many_ways(name, content, options):
    options = {"header": False} | options if "#" in content else options
    assert adjacency(import_graph(write(name, content), **options)) == EXPECTED


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.csv.zst"])
def test_compression_is_recognised_by_content_whatever_the_name(name, codec):
    with pa.CompressedOutputStream(pa.OSFile(name, "wb"), codec) as stream:
        stream.write(CSV.encode())
    assert adjacency(import_graph(name)) == EXPECTED


def test_a_frame_that_zstd_skips_may_come_first():
    """As pzstd writes it."""
    write(
        "e.csv.zst",
        b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd" + pa.compress(CSV.encode(), "zstd", asbytes=True),
    )
    assert adjacency(import_graph("e.csv.zst")) == EXPECTED


@given(
    lines=st.lists(st.lists(st.text("ab#,;", min_size=1, max_size=3), max_size=3), max_size=5),
    blanks=st.lists(st.text(" \t", min_size=1, max_size=3), min_size=40, max_size=40),
    ends=st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=5, max_size=5),
    size=st.integers(1, 20),
)
def test_a_stream_of_even_blanks_has_the_words_of_each_line_however_lines_end(lines, blanks, ends, size):
    """Python's own universal line ends say what the lines are, wherever a block ends."""
    gaps = iter(blanks)
    rows = ["".join(next(gaps) + word for word in line) + next(gaps) for line in lines]
    raw = "".join(row + end for row, end in zip(rows, ends, strict=False)).removesuffix("\n")
    table = TextTable("e.txt", Path("e.txt"), [], False, False, 0, None, BLANK, size)
    read = b"".join(_whole_lines(io.BytesIO(raw.encode()), table)).decode()
    expected = io.StringIO(raw, newline=None).read().split("\n")
    assert read.split("\n") == ["\t".join(line.split()) for line in expected]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('"New  York" Reno\nReno "the ""Strip"""\n', {"New  York", "Reno", 'the "Strip"'}),
        ('5" 6"\nann bob\n', {'5"', '6"', "ann", "bob"}),
    ],
)
def test_between_blanks_a_name_in_quotes_may_hold_blanks_and_a_quote_inside_of_a_name_is_a_letter(content, names):
    assert set(import_graph(write("e.txt", content), header=False).node_names) == names


@pytest.mark.parametrize("delimiter", ["ab", "", "7", '"', "é", "."])
def test_a_delimiter_is_one_character_that_values_do_not_have(delimiter):
    with pytest.raises(InputError, match=r"--delimiter .*expected one character"):
        import_graph(write("e.csv", CSV), delimiter=delimiter)


def test_some_files_may_have_a_header_and_others_not(run):
    write("e.csv", "ann,bob\nbob,cy\n")
    write("x.csv", "person,city\nann,rome\nbob,oslo\ncy,rome\n")
    code, _, err = run("import", "--edges", "e.csv", "--features", "x.csv", "--header-in", "features", "-o", "s")
    assert code == 0, err
    graph = import_graph("e.csv", "x.csv", header=["features"])
    assert graph.num_edges == 2
    assert list(graph.feature_names) == ["city=oslo", "city=rome"]
    with pytest.raises(InputError, match="header: 'edge'; expected some of edges, features"):
        import_graph("e.csv", header=["edge"])


# ---------------------------------------------------------------------- other kinds of files


@pytest.mark.parametrize("field", ["real", "integer", "unsigned-integer", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_a_matrix_market_file_is_an_adjacency(field, symmetry):
    matrix = sp.coo_matrix(([1, 2, 3], ([0, 1, 2], [1, 2, 0])), (4, 4))
    matrix = matrix + matrix.T if symmetry == "symmetric" else matrix
    unsigned = field == "unsigned-integer"  # which scipy writes for such numbers
    matrix = matrix.astype(np.uint32) if unsigned else matrix
    scipy.io.mmwrite("a.mtx", matrix, field=None if unsigned else field, symmetry=symmetry)
    graph, same = import_graph("a.mtx"), Graph.from_scipy(matrix if field != "pattern" else (matrix != 0).astype(int))
    assert np.array_equal(graph.to_scipy().toarray(), same.to_scipy().toarray())


def test_a_matrix_market_file_holds_sparse_features_and_labels():
    matrix = sp.random(4, 9, 0.3, random_state=0, format="csr")
    scipy.io.mmwrite("x.mtx", matrix)
    scipy.io.mmwrite("y.mtx", sp.csr_matrix([[1, 0], [0, 1], [1, 1], [0, 0]]))
    graph = import_graph(write("e.csv", "0,1\n2,3\n"), "x.mtx", "y.mtx")
    assert np.allclose(graph.features.toarray(), matrix.toarray())
    assert graph.labels.tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]


MTX = "%%MatrixMarket matrix coordinate"


@pytest.mark.parametrize(
    "content",
    [
        "",
        f"{MTX} real general\n2 2 1\n9 9 1.0\n",
        *(f"{MTX} integer general\n2 2 1\n1 2 {number}\n" for number in ("2.9", "inf", 2**64 - 1)),
        "1,2\n",
    ],
)
def test_a_damaged_matrix_market_file_is_one_error(content):
    with pytest.raises(InputError, match=r"^a\.mtx: .*Matrix Market"):
        import_graph(write("a.mtx", content))


@pytest.mark.parametrize("suffix", ["graphml", "gexf"])
def test_graphml_and_gexf_give_edges_weights_features_and_labels(suffix):
    drawn = nx.Graph()
    for name, age, team in zip(NAMES, AGES, TEAMS, strict=True):
        drawn.add_node(name, age=age, team=team)
    drawn.add_node("eve", age=50.0, team="red")
    drawn.add_weighted_edges_from(PAIRS)
    file = f"g.{suffix}"
    (nx.write_graphml if suffix == "graphml" else nx.write_gexf)(drawn, file)
    graph = import_graph(file, file, file, label="team")
    assert adjacency(graph) == EXPECTED
    assert node_table(graph) == NODE_TABLE | {"eve": (50.0, "red")}
    assert list(graph.feature_names) == ["age"], "the label is not a feature"
    assert "eve" in import_graph(file).node_names, "a node without edges is a node"


def test_a_megabyte_of_comments_in_a_matrix_market_file_is_passed_over_at_once():
    """When the rest of the text was copied for each line, it took 14 seconds."""
    write("a.mtx", f"{MTX} pattern general\n" + "%\n" * 500_000 + "3 3 1\n1 2\n")
    started = time.process_time()
    assert import_graph("a.mtx").num_edges == 1
    assert time.process_time() - started < 1.5


PRIMER = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="color" attr.type="string"><default>yellow</default></key>
<key id="d1" for="edge" attr.name="weight" attr.type="double"><default>5.0</default></key>
<key id="d2" for="node" attr.name="size" attr.type="double"><default>2.0</default></key>
<graph edgedefault="undirected">
<node id="a"><data key="d0">green</data></node><node id="b"/><node id="c"><data key="d0">blue</data></node>
<edge source="a" target="b"><data key="d1">1.5</data></edge><edge source="b" target="c"/>
</graph></graphml>"""
GEXF = """<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2"><graph defaultedgetype="undirected">
<attributes class="node">
<attribute id="0" title="color" type="string"><default>yellow</default></attribute>
<attribute id="1" title="size" type="double"><default>2.0</default></attribute></attributes>
<nodes><node id="a"><attvalues><attvalue for="0" value="green"/></attvalues></node><node id="b"/>
<node id="c"><attvalues><attvalue for="0" value="blue"/></attvalues></node></nodes>
<edges><edge id="0" source="a" target="b" weight="1.5"/><edge id="1" source="b" target="c" weight="5"/></edges>
</graph></gexf>"""


@pytest.mark.parametrize(("file", "text"), [("g.graphml", PRIMER), ("g.gexf", GEXF)])
def test_what_a_graphml_or_gexf_file_does_not_say_of_a_node_or_edge_is_the_default(file, text):
    graph = import_graph(write(file, text), file, file, label="color")
    assert [graph.label_names[label] for label in graph.labels] == ["green", "yellow", "blue"]
    assert graph.features.tolist() == [[2.0]] * 3
    assert adjacency(graph) == {("a", "b"): 1.5, ("b", "a"): 1.5, ("b", "c"): 5.0, ("c", "b"): 5.0}


def test_a_graphml_file_that_was_written_again_is_read_again():
    for edges in (1, 2):
        nx.write_graphml(nx.path_graph(edges + 1), "g.graphml")
        assert import_graph("g.graphml", memory="8GB").num_edges == edges


@pytest.mark.parametrize(("file", "text"), [("g.graphml", PRIMER), ("g.gexf", GEXF)])
def test_a_file_of_several_graphs_is_refused_rather_than_read_in_part(file, text):
    two = text.replace("</graph>", '</graph><graph><node id="x"/></graph>')
    with pytest.raises(InputError, match=rf"^{file}: .*more than one graph"):
        import_graph(write(file, two))


def test_a_damaged_graphml_file_is_one_error():
    with pytest.raises(InputError, match=r"^g\.graphml: is cut off or not a graphml file"):
        import_graph(write("g.graphml", "<graphml><graph>"))


# ---------------------------------------------------------------------- names beside arrays


def arrays(kind):
    edges = [[NAMES.index(a) for a in SOURCES], [NAMES.index(b) for b in TARGETS]]
    if kind == "npy":
        np.save("e.npy", np.array(edges))
        np.save("x.npy", np.array(AGES)[:, None])
        return "e.npy", "x.npy", UNWEIGHTED
    if kind == "npz":
        np.savez("e.npz", edge_index=np.array(edges), edge_weight=WEIGHTS)
        sp.save_npz("x.npz", sp.csr_matrix(np.array(AGES)[:, None]))
        return "e.npz", "x.npz", EXPECTED
    if kind == "mtx":
        scipy.io.mmwrite("e.mtx", sp.coo_matrix((WEIGHTS, edges), (4, 4)))
        scipy.io.mmwrite("x.mtx", sp.csr_matrix(np.array(AGES)[:, None]))
        return "e.mtx", "x.mtx", EXPECTED
    np.save("x.npy", np.array(AGES)[:, None])
    return write("e.csv", CSV), "x.npy", EXPECTED


@pytest.mark.parametrize("names", ["names.txt", "names.csv"])
@pytest.mark.parametrize("kind", ["npy", "npz", "mtx", "table"])
def test_a_file_of_names_names_the_rows_of_arrays(kind, names, run):
    edges, features, expected = arrays(kind)
    write(names, rows(NAMES) if names == "names.txt" else rows(NAMES, range(4), header="node,place"))
    np.save("y.npy", [0, 1, 0, 1])
    code, _, err = run(
        "import", "--edges", edges, "--features", features, "--labels", "y.npy", "--node-names", names, "-o", "s"
    )
    assert code == 0, err
    graph = import_graph(edges, features, "y.npy", node_names=names)
    assert adjacency(graph) == expected
    assert node_table(graph.replace(label_names=["red", "blue"])) == NODE_TABLE


def test_a_file_of_names_must_have_one_for_each_row_and_none_twice():
    np.save("x.npy", np.zeros((4, 2)))
    write("e.csv", CSV)
    with pytest.raises(InputError, match=r"x\.npy: 4 rows, and 3 names in n\.txt; expected a name for each row"):
        import_graph("e.csv", "x.npy", node_names=write("n.txt", "ann\nbob\ncy\n"))
    with pytest.raises(InputError, match=r"n\.txt: rows 1 and 3 are both about node 'ann'"):
        import_graph("e.csv", "x.npy", node_names=write("n.txt", "ann\nbob\nann\ndee\n"))
    with pytest.raises(InputError, match=r"e\.csv: row 4 names node 'dee', which is not in n\.txt"):
        import_graph("e.csv", node_names=write("n.txt", "ann\nbob\ncy\n"))


# ---------------------------------------------------------------------- databases


def database(engine):
    tables = {
        "follows": ("source text, target text, weight double", PAIRS),
        "people": ("node text, age double, team text", list(zip(NAMES, AGES, TEAMS, strict=True))),
    }
    if engine == "sqlite":
        connection = sqlite3.connect("d.db")
    else:
        connection = pytest.importorskip("duckdb").connect("d.db")
    with closing(connection):
        for table, (columns, content) in tables.items():
            connection.execute(f"create table {table} ({columns})")
            connection.executemany(f"insert into {table} values (?, ?, ?)", content)
        connection.commit()
    return f"{engine}:d.db?"


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_query_is_read_as_a_table(engine, run):
    ask = database(engine)
    edges, features = f"{ask}select * from follows", f"{ask}select node, age from people order by age"
    labels = f"{ask}select node, team from people where node <> 'dee'"
    code, _, err = run("import", "--edges", edges, "--features", features, "--labels", labels, "-o", "s")
    assert code == 0, err
    graph = import_graph(edges, features, f"{ask}select node, team from people")
    assert adjacency(graph) == EXPECTED
    assert node_table(graph) == NODE_TABLE


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from nothing", "nothing"),
        ("delete from follows", "read-only|readonly"),
        ("select source from follows", "one column"),
        ("select source, target from follows where 0", "the graph is empty"),
    ],
)
def test_a_query_that_gives_no_edges_is_one_error_that_names_it(engine, query, message):
    with pytest.raises(InputError, match=rf"(?is)^{engine}:d\.db\?{re.escape(query)[:20]}.*({message})"):
        import_graph(database(engine) + query)


@pytest.mark.parametrize("query", ["attach 'other.db' as o", "attach 'file:o.db?mode=rwc' as o", "vacuum into 'o.db'"])
def test_a_query_writes_no_file(query):
    ask = database("sqlite")
    with pytest.raises(InputError, match=rf"^sqlite:d\.db\?{re.escape(query)}: "):
        import_graph(ask + query)
    assert [path.name for path in Path().iterdir()] == ["d.db"]


def test_a_sqlite_file_given_as_duckdb_is_named_for_what_it_is():
    ask = database("sqlite").replace("sqlite:", "duckdb:")
    with pytest.raises(InputError, match=r"^d\.db: is a database of SQLite; write sqlite: in place of duckdb:"):
        import_graph(ask + "select * from follows")


def test_duckdb_loads_no_extension_for_a_file_that_wants_one(monkeypatch):
    """It would fetch code from the network, and run it. As if the file had not been recognised before."""
    pytest.importorskip("duckdb")
    monkeypatch.setenv("HOME", str(Path.cwd()))
    monkeypatch.setattr(sql, "SQLITE", b"nothing", raising=False)
    ask = database("sqlite").replace("sqlite:", "duckdb:")
    with pytest.raises(InputError, match="external extensions is disabled"):
        import_graph(ask + "select * from follows")
    assert [path.name for path in Path().iterdir()] == ["d.db"]


def test_a_view_of_a_database_reads_no_other_file(tmp_path):
    (tmp_path / "secret.csv").write_text("a,b\nx,y\n")
    ask = database("duckdb")
    with pytest.importorskip("duckdb").connect("d.db") as connection:
        connection.execute(f"create view stolen as select * from read_csv('{tmp_path / 'secret.csv'}')")
    with pytest.raises(InputError, match=r"(?s)^duckdb:d\.db\?select \* from stolen.*disabled"):
        import_graph(ask + "select * from stolen")


def test_a_type_that_parquet_does_not_have_is_one_error():
    with pytest.raises(InputError, match=r"^duckdb:d\.db\?select interval"):
        import_graph(database("duckdb") + "select interval '1 day' a, 2 b")


def test_rows_of_long_text_are_fetched_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(sql, "BATCH_BYTES", 2500)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table t (a)")
        connection.executemany("insert into t values (?)", [("x" * 1000,)] * 9)
        answer = connection.execute("select a from t")
        assert [len(sql._fetched(answer)) for _ in range(4)] == [3, 3, 3, 0]


def test_control_c_ends_a_query_without_an_end(monkeypatch):
    monkeypatch.setattr(sql, "STEPS", 1000)
    endless = "with recursive r(x) as (select 1 union all select 1 from r) select x, x from r where x = 2"
    ask = database("sqlite")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a command in the background ignores
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        import_graph(ask + endless)
    timer.join()
    signal.signal(signal.SIGINT, before)


def test_a_query_is_spelled_with_a_file_and_a_select():
    for wrong in ("sqlite:d.db", "sqlite:d.db?", "duckdb:?select 1"):
        with pytest.raises(InputError, match=r"expected sqlite:FILE\?SELECT"):
            import_graph(wrong)
    with pytest.raises(InputError, match=r"^absent\.db: no such file"):
        import_graph("sqlite:absent.db?select 1, 2")


def test_sqlite_columns_of_several_types_are_text_or_an_error_with_the_remedy(monkeypatch):
    with closing(sqlite3.connect("m.db")) as connection:
        connection.execute("create table e (a, b)")
        connection.executemany("insert into e values (?, ?)", [(1, "x"), ("y", 2), (None, "z")])
        connection.commit()
    assert set(import_graph("sqlite:m.db?select * from e where a is not null").node_names) == {"1", "x", "y", "2"}
    monkeypatch.setattr("nodewise.formats.sql.ROWS", 1)
    with pytest.raises(InputError, match=r"column 'a' holds other values than int64 after row 2.*CAST\(a AS TEXT\)"):
        import_graph("sqlite:m.db?select a, b from e")


def test_an_import_of_a_query_that_was_interrupted_continues(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    edges, asked = f"{database('sqlite')}select * from follows", []
    with monkeypatch.context() as patch:
        patch.setattr("nodewise.importing.from_files.build", interrupted)
        with pytest.raises(KeyboardInterrupt):
            import_store(edges, "s", ids="names")
    monkeypatch.setattr("nodewise.formats.sql.Query.run", lambda *_: asked.append(1))
    import_store(edges, "s", ids="names", resume=True)
    assert not asked, "the answer is there already"
    assert adjacency(open_store("s")) == EXPECTED


# ---------------------------------------------------------------------- frames


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_are_read_as_files_are(make):
    edges = make({"source": SOURCES, "target": TARGETS, "weight": WEIGHTS})
    nodes = make({"node": NAMES, "age": AGES, "team": TEAMS})
    graph = Graph.from_frames(edges, nodes, label="team")
    assert adjacency(graph) == EXPECTED
    assert node_table(graph) == NODE_TABLE
    assert adjacency(Graph.from_arrow(edges)) == EXPECTED


def test_frames_may_have_categories_gaps_and_an_index():
    edges = pd.DataFrame({"u": SOURCES, "v": TARGETS})
    nodes = pd.DataFrame({"city": pd.Categorical(["rome", "oslo", "rome", None]), "age": [1.0, None, 3.0, 5.0]}, NAMES)
    graph = Graph.from_frames(edges, nodes, impute="mean")
    assert list(graph.feature_names) == ["city=oslo", "city=rome", "age", "age is missing"]
    assert dict(zip(graph.node_names, graph.features.tolist(), strict=True))["bob"] == [1, 0, 3, 1]


def test_a_frame_of_names_alone_adds_nodes_without_edges():
    edges = pl.DataFrame({"source": ["a"], "target": ["b"]})
    assert Graph.from_frames(edges, pl.DataFrame({"node": ["a", "b", "c"]})).num_nodes == 3
    assert Graph.from_frames(edges, pl.DataFrame({"person": ["a", "b", "c"]})).num_nodes == 3


def test_integer_ids_in_frames_are_the_nodes_themselves():
    edges = pd.DataFrame({"source": [0, 1], "target": [1, 2]})
    graph = Graph.from_frames(edges, pd.DataFrame({"x": [1.0, 2.0, 3.0], "label": [0, 1, 0]}))
    assert graph.node_names is None
    assert graph.labels.tolist() == [0, 1, 0]
    assert graph.features.ravel().tolist() == [1, 2, 3]


def test_what_is_no_frame_is_one_error():
    with pytest.raises(InputError, match="edges: a int that cannot be read as a table"):
        Graph.from_frames(7)
    with pytest.raises(InputError, match=r"nodes: 'nodes\.csv'; expected a frame.*import_graph"):
        Graph.from_frames(pa.table({"u": [0], "v": [1]}), "nodes.csv")
    mixed = pd.DataFrame({"source": ["a", 1], "target": ["b", "c"]}, dtype=object)
    with pytest.raises(InputError, match="edges: a DataFrame that cannot be read"):
        Graph.from_frames(mixed)


# ---------------------------------------------------------------------- the same file for two things


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_one_table_of_nodes_holds_features_and_labels(kind, run):
    write("e.csv", CSV)
    nodes = write("n.csv", NODES) if kind == "csv" else parquet("n.parquet", node=NAMES, age=AGES, team=TEAMS)
    code, _, err = run(
        "import", "--edges", "e.csv", "--features", nodes, "--labels", nodes, "--label", "team", "-o", "s"
    )
    assert code == 0, err
    assert "labels, not features: team" in err
    graph = import_graph("e.csv", nodes, nodes, label="team")
    assert node_table(graph) == NODE_TABLE
    assert list(graph.feature_names) == ["age"]
