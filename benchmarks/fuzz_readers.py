"""Every reader of nodewise with small valid samples, and what a user does with a file of that kind.

A sample is a file or folder in the folder that ``make`` fills. ``fixed`` is a folder that all readers share and no
case damages: a graph, a model, the other files of an import.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import nodewise as nw
from models import PLAIN
from nodewise._util.errors import NodewiseError
from nodewise.store.manifest import _checksum as manifest_checksum
from tiny_layouts import Tiny, write_graphsaint, write_ogb_binary, write_ogb_csv, zipped

NODES = 60
MODEL = {**PLAIN, "epochs": 5, "threads": 1}
SETTINGS = {"NIGCN": {**PLAIN, "epochs": 5}}
ENGINES = ("exact", "walks", "stratified")
MOST_READ = 10**6  # nodes of a graph that is read through; an archive may truly hold rows for many more


@dataclass(frozen=True)
class Case:
    """What ``use`` gets: the sample, damaged; ``resealed``: with checksums that fit the damage."""

    fixed: Path
    path: Path
    resealed: bool = False


@dataclass(frozen=True)
class Reader:
    """``owner``: the part of nodewise that reads it. ``seal``: make the checksums of a folder fit its files again.

    ``prepare`` is called once in each process. ``keeps_all``: no file goes missing, since it would be made again in
    a process of its own.
    """

    name: str
    owner: str
    make: Callable[[Path, Path], None]
    use: Callable[[Case], None]
    seal: Callable[[Path], None] | None = None
    prepare: Callable[[], None] = field(default=lambda: None)
    keeps_all: bool = False


# ---------------------------------------------------------------------- what all readers share


def sample_graph() -> nw.Graph:
    graph = nw.synthetic.dcsbm(NODES, avg_degree=6, classes=3, features=4, signal=2.0, seed=0)
    return graph.replace(
        features=graph.features,
        node_names=[f"n{i}" for i in range(NODES)],
        label_names=["red", "blue", "green"],
        feature_names=list("abcd"),
        splits={"train": np.arange(30), "val": np.arange(30, 45), "test": np.arange(45, NODES)},
    )


def make_fixed(fixed: Path) -> None:
    """The graph as a store, a model of it, and the tables of an import."""
    graph = sample_graph()
    nw.write_store(graph, fixed / "store")
    nw.write_store(_plain_graph(), fixed / "plain")
    nw.NIGCN(**MODEL, engine="exact").fit(graph, range(30), range(30, 45)).save(fixed / "model")
    for name, text in {**TABLES, **PLAIN_TABLES}.items():
        (fixed / name).write_text(text)
    for name in (*TABLES, *PLAIN_TABLES):  # loads the kernels of an import
        shutil.copy(fixed / name, fixed / name.replace(".", "-."))
        _use_import(Case(fixed, fixed / name.replace(".", "-.")))
        shutil.rmtree(fixed / "store-made")
    _use_store(Case(fixed, fixed / "store"))
    _use_model(Case(fixed, fixed / "model"))


def _plain_graph() -> nw.Graph:
    """The same without names."""
    graph = sample_graph()
    return nw.Graph.from_edges(_ends(graph), NODES, graph.features, graph.labels)


def _ends(graph: nw.Graph) -> Any:
    matrix = sp.triu(graph.to_scipy(), 1).tocoo()
    return np.stack([matrix.row, matrix.col]).astype(np.int64)


PEOPLE = ("ann", "bob", "cy", "dee", "eve")
PAIRS = (("ann", "bob", 1.0), ("bob", "cy", 2.5), ("cy", "ann", 0.5), ("dee", "ann", 1.0), ("eve", "dee", 3.0))


def _rows(header: str, *rows: Any) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


TABLES = {
    "edges.csv": _rows("source,target,weight", *PAIRS),
    "features.csv": _rows("node,age,city", *((name, 20 + i, "rome") for i, name in enumerate(PEOPLE))),
    "labels.csv": _rows("node,label", *((name, ("red", "blue")[i % 2]) for i, name in enumerate(PEOPLE))),
}
PLAIN_TABLES = {name.replace(".", "-of-numbers."): text for name, text in TABLES.items()}
for _i, _name in enumerate(PEOPLE):
    PLAIN_TABLES = {name: text.replace(_name, str(_i)) for name, text in PLAIN_TABLES.items()}


def _read_through(graph: nw.Graph) -> None:
    """All that a graph holds, and a diffusion by each engine."""
    from store.written import everything

    if graph.num_nodes > MOST_READ:
        return
    if not sp.issparse(graph.features) or np.prod(graph.features.shape, dtype=float) < 1e7:
        everything(graph)  # makes sparse features dense
    nodes = list(range(min(5, graph.num_nodes)))
    for engine in ENGINES:
        diffusion = nw.diffuse(graph, nodes, epsilon=0.1, length=2, engine=engine, threads=1)
        if graph.features is None:
            _ = diffusion.matrix
        else:
            diffusion.apply(graph.features)


# ---------------------------------------------------------------------- files of an import


def _use_import(case: Case) -> None:
    """The file takes the part that its name begins with; the other files are sound."""
    role = case.path.name.partition("-")[0]
    kind = "-of-numbers" if "numbers" in case.path.name else ""
    source = _query(case.path) if case.path.suffix in (".db", ".duckdb") else case.path
    given = {"edges": case.fixed / f"edges{kind}.csv", role: source}
    options: dict[str, Any] = {}
    if "multi" in case.path.name:
        options["multilabel"] = True
    if "words" in case.path.name:
        options["text"] = "about"
    if "holes" in case.path.name:
        options["impute"] = "mean"
    output = case.path.parent / "store-made"
    nw.import_store(output=output, **given, **options)
    _read_through(nw.open_store(output))


def _query(path: Path) -> str:
    return f"{'sqlite' if path.suffix == '.db' else 'duckdb'}:{path}?select * from {path.stem.partition('-')[0]}"


def _make_text(fixed: Path, folder: Path) -> None:
    for name, text in {**TABLES, **PLAIN_TABLES}.items():
        (folder / name.replace(".", "-.")).write_text(text)
    (folder / "edges-tabs.tsv").write_text(TABLES["edges.csv"].replace(",", "\t"))
    (folder / "edges-quoted.csv").write_text(TABLES["edges.csv"].replace("ann", '"a,""nn"'))
    cells = [(name, word, i) for i, name in enumerate(PEOPLE) for word in ("x", "y")]
    (folder / "features-sparse.csv").write_text(_rows("node,feature,value", *cells))
    about = [(name, f"{name} likes long walks", i) for i, name in enumerate(PEOPLE)]
    (folder / "features-words.csv").write_text(_rows("node,about,age", *about))
    holes = [(name, "" if i == 2 else i, ("", "b")[i % 2]) for i, name in enumerate(PEOPLE)]
    (folder / "features-holes.csv").write_text(_rows("node,size,kind", *holes))
    (folder / "labels-wide.csv").write_text(
        _rows("node,red,blue", *((name, i % 2, 1) for i, name in enumerate(PEOPLE)))
    )
    (folder / "labels-multi.csv").write_text(_rows("node,label", *((name, k) for name in PEOPLE for k in "ab")))


def _make_edge_lists(fixed: Path, folder: Path) -> None:
    pairs = [f"{i} {(i + 1) % 7} {i + 0.5}" for i in range(7)]
    (folder / "edges-snap.txt").write_text("# Nodes: 7\n# FromNodeId ToNodeId\n" + "\n".join(pairs) + "\n")
    (folder / "edges-konect.txt").write_text("% sym weighted\n" + "\n".join(pairs).replace(" ", "  \t") + "\n")
    (folder / "edges-crlf.edges").write_text("\r\n".join(pairs) + "\r\n")


def _make_compressed(fixed: Path, folder: Path) -> None:
    for name, text in TABLES.items():
        stem = name.replace(".", "-.")
        (folder / f"{stem}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        (folder / f"{stem}.zst").write_bytes(pa.compress(text.encode(), "zstd", asbytes=True))


def _frames() -> dict[str, Any]:
    from pyarrow import csv

    return {name.removesuffix(".csv"): csv.read_csv(io.BytesIO(text.encode())) for name, text in TABLES.items()}


def _make_parquet(fixed: Path, folder: Path) -> None:
    for name, table in _frames().items():
        pq.write_table(table, folder / f"{name}-.parquet")
        parts = folder / f"{name}-parts"
        parts.mkdir()
        for part in range(2):
            pq.write_table(table.slice(2 * part, 2 + part), parts / f"{part}.parquet")


NUMBERS = np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])


def _make_npy(fixed: Path, folder: Path) -> None:
    np.save(folder / "edges-numbers.npy", NUMBERS)
    np.save(folder / "features-numbers.npy", np.arange(20, dtype=np.float32).reshape(5, 4))
    np.save(folder / "features-numbers-half.npy", np.asfortranarray(np.ones((5, 3), np.float16)))
    np.save(folder / "labels-numbers.npy", np.array([0, 1, -1, 0, 1]))
    np.save(folder / "labels-numbers-wide.npy", np.eye(5, 3, dtype=np.int8))


def _make_npz(fixed: Path, folder: Path) -> None:
    features = sp.csr_matrix(np.eye(5, 4, dtype=np.float32))
    parts = {f"x_{part}": getattr(features, part) for part in ("data", "indices", "indptr")}
    parts["x_shape"] = np.array(features.shape)
    whole = {"edge_index": NUMBERS, "y": np.array([0, 1, 0, 1, -1]), "train_idx": np.array([0, 1])}
    np.savez(folder / "edges-numbers.npz", edge_index=NUMBERS, edge_weight=np.ones(5))
    np.savez_compressed(folder / "features-numbers.npz", x=np.ones((5, 3)))
    np.savez(folder / "features-numbers-sparse.npz", **parts)
    np.savez(folder / "labels-numbers.npz", y=whole["y"])
    matrix = sp.csr_matrix((np.ones(5), tuple(NUMBERS)), (5, 5))
    for kind in ("csr", "coo", "csc", "dia"):
        sp.save_npz(folder / f"edges-numbers-{kind}.npz", matrix.asformat(kind))
    sp.save_npz(folder / "features-numbers-csr.npz", features)
    np.savez_compressed(folder / "graph-sparse.npz", **whole, **parts)
    np.savez_compressed(folder / "graph-dense.npz", **whole, x=np.ones((5, 2), np.float32), edge_weight=np.ones(5))


def _use_npz(case: Case) -> None:
    if case.path.name.startswith("graph"):
        _read_through(nw.load(case.path))
    else:
        _use_import(case)


def _make_matrix_market(fixed: Path, folder: Path) -> None:
    from scipy.io import mmwrite

    matrix = sp.coo_matrix((np.arange(1, 6) / 2, tuple(NUMBERS)), (5, 5))
    mmwrite(folder / "edges-numbers.mtx", matrix, symmetry="general")
    mmwrite(folder / "edges-numbers-symmetric.mtx", matrix + matrix.T, symmetry="symmetric")
    mmwrite(folder / "features-numbers.mtx", sp.coo_matrix(np.eye(5, 3)))
    mmwrite(folder / "labels-numbers.mtx", np.eye(5, 2, dtype=int))


def _make_networkx(fixed: Path, folder: Path) -> None:
    import networkx as nx

    graph = nx.Graph()
    graph.add_weighted_edges_from(PAIRS)
    for i, name in enumerate(PEOPLE):
        graph.nodes[name].update(age=20 + i, team=("red", "blue")[i % 2])
    nx.write_graphml(graph, folder / "edges-.graphml")
    nx.write_graphml(graph, folder / "features-.graphml")
    nx.write_gexf(graph, folder / "edges-.gexf")


def _make_databases(fixed: Path, folder: Path) -> None:
    import duckdb

    for name, table in _frames().items():
        rows = [tuple(row.values()) for row in table.to_pylist()]
        with closing(sqlite3.connect(folder / f"{name}-.db")) as database:
            database.execute(f"create table {name} ({', '.join(table.column_names)})")
            database.executemany(f"insert into {name} values ({', '.join('?' * table.num_columns)})", rows)
            database.commit()
        with duckdb.connect(str(folder / f"{name}-.duckdb")) as database:
            database.register("given", table)
            database.execute(f"create table {name} as select * from given")


def _make_names(fixed: Path, folder: Path) -> None:
    (folder / "node_names-.txt").write_text("".join(f"{name}\n" for name in PEOPLE))
    (folder / "node_names-.csv").write_text(_rows("node,age", *((name, 3) for name in PEOPLE)))
    (folder / "asked-.txt").write_text("n3\nn5\nn59\n")
    (folder / "known-.csv").write_text(_rows("node,label", ("n1", "red"), ("n7", "pink"), ("n9", "-1")))


def _use_names(case: Case) -> None:
    from nodewise.batch.predictions import read_nodes
    from nodewise.importing.onto_graph import with_labels

    if case.path.name.startswith("node_names"):
        _use_import(case)
    elif case.path.name.startswith("asked"):
        read_nodes(str(case.path), nw.open_store(case.fixed / "store"))
    else:
        with_labels(nw.open_store(case.fixed / "store"), case.path)


def _make_splits(fixed: Path, folder: Path) -> None:
    parts = {"train": np.arange(6).reshape(2, 3), "val": np.arange(6, 10).reshape(2, 2), "test": np.array([[20], [21]])}
    np.savez(folder / "two.npz", **parts)
    np.savez_compressed(folder / "one.npz", **{part: nodes[0] for part, nodes in parts.items()})
    rows = [(f"n{node}", part) for part, nodes in parts.items() for node in nodes[0]]
    (folder / "table.csv").write_text(_rows("node,part", *rows))
    pq.write_table(pa.table({"node": [row[0] for row in rows], "part": [row[1] for row in rows]}), folder / "t.parquet")


def _use_splits(case: Case) -> None:
    from nodewise.importing.onto_graph import read_splits

    read_splits(nw.open_store(case.fixed / "store"), case.path)


# ---------------------------------------------------------------------- whole graphs


def _make_ogb(fixed: Path, folder: Path) -> None:
    write_ogb_csv(folder / "tables", Tiny.ring())
    write_ogb_binary(folder / "arrays", Tiny.ring())
    for kind in ("tables", "arrays"):
        zipped(folder / kind)


def _make_graphsaint(fixed: Path, folder: Path) -> None:
    zipped(write_graphsaint(folder / "ring", Tiny.ring()))


def _use_layout(case: Case) -> None:
    output = case.path.parent / "store-made"
    nw.import_store(case.path, output)
    _read_through(nw.open_store(output))


def _make_planetoid(fixed: Path, folder: Path) -> None:
    from tiny_datasets import TinyPlanetoid

    (folder / "ring").mkdir()
    TinyPlanetoid(folder / "ring")


def _use_planetoid(case: Case) -> None:
    from nodewise.formats.planetoid import read_planetoid

    _read_through(read_planetoid({path.name: path for path in case.path.iterdir()}, "tiny"))


# ---------------------------------------------------------------------- what nodewise writes


def _make_stores(fixed: Path, folder: Path) -> None:
    from store.written import full_graph, sparse_graph

    shutil.copytree(fixed / "store", folder / "named")
    nw.write_store(full_graph(), folder / "weighted")
    nw.write_store(sparse_graph(), folder / "sparse")
    np.save(fixed / "dense.npy", np.random.default_rng(0).random((5, 3), np.float32))
    nw.import_store(fixed / "edges-of-numbers.csv", folder / "int8", fixed / "dense.npy", feature_dtype="int8")


def _use_store(case: Case, verify: bool | None = None) -> None:
    graph = nw.open_store(case.path, verify=verify)
    _read_through(graph)
    if case.path.name in ("named", "store"):
        nw.NIGCN.load(case.fixed / "model").predict(graph)


def _seal_store(folder: Path) -> None:
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_bytes())
    for name, entry in content["files"].items():
        if not (folder / name).is_file():  # a name may be damaged, to that of a device
            continue
        data, block = (folder / name).read_bytes(), entry["block_bytes"]
        blocks = [data[first : first + block] for first in range(0, len(data), block)]
        entry |= {"bytes": len(data), "sha256": [hashlib.sha256(part).hexdigest() for part in blocks]}
    content["checksum"] = manifest_checksum(content)
    manifest.write_text(json.dumps(content))


def _make_models(fixed: Path, folder: Path) -> None:
    graph = sample_graph()
    shutil.copytree(fixed / "model", folder / "exact")
    nw.NIGCN(epochs=5, threads=1, members=2, engine="walks").fit(graph, range(30), range(30, 45)).save(folder / "auto")


def _use_model(case: Case) -> None:
    graph = nw.open_store(case.fixed / "store")
    model = nw.NIGCN.load(case.path)
    model.predict(graph, range(20))
    with suppress(NodewiseError):
        model.predict_set(graph, range(3), coverage=0.8)
    nw.explain(model, graph, 5, top=3)


def _seal_model(folder: Path) -> None:
    from nodewise.learn import saved

    file = folder / saved.CONFIG
    config = json.loads(file.read_bytes())
    config["tensors_sha256"] = hashlib.sha256((folder / saved.TENSORS).read_bytes()).hexdigest()
    config["config_sha256"] = saved._digest(config)
    file.write_text(json.dumps(config))


def _make_presets(fixed: Path, folder: Path) -> None:
    from nodewise.learn.presets import presets, write_preset

    for name in ("cora", "amazon-photo"):
        write_preset(folder / f"{name}.json", name, presets[name])


def _use_preset(case: Case) -> None:
    from nodewise.cli.model_options import ModelOptions, model_params

    params = model_params(str(case.path), ModelOptions())
    nw.NIGCN(**{**params, "epochs": 1, "threads": 1}).check_params()


# ---------------------------------------------------------------------- folders that a command goes on in


def _seal_run(folder: Path) -> None:
    """The file of a RunFolder, whatever it is called."""
    from nodewise._util.run_folder import _digest

    for file in folder.rglob("*.json"):
        with suppress(ValueError, TypeError, KeyError):
            content = json.loads(file.read_bytes())
            if content.pop("sha256", None) is not None:
                _seal_sums(file, content)
                file.write_text(json.dumps({**content, "sha256": _digest(content)}))


def _seal_sums(journal: Path, content: dict[str, Any]) -> None:
    """The checksums that an import has in its journal."""
    from nodewise.importing.checksums import _crc

    sums = content["state"].get("checksums", {})
    for name, (counted, _) in sums.items():
        size = min(counted, (journal.parent / name).stat().st_size)
        sums[name] = size, _crc(journal.parent / name, 0, size)


def _splits() -> list[Any]:
    from nodewise.graph.splits import random_splits

    return random_splits(np.asarray(sample_graph().labels), 1, seed=0, per_class=5, val=15, test=15)


def _prepare_tune() -> None:
    from nodewise.learn import fitting
    from nodewise.tune import study

    fitting.ROSTER = ()  # ridges alone
    study.draw = lambda *_: True


def _use_study(case: Case) -> None:
    from nodewise.tune import tune

    tune(str(case.fixed / "store"), case.path, _splits(), trials=2, threads=1)


def _make_study(fixed: Path, folder: Path) -> None:
    _use_study(Case(fixed, folder / "study"))


def _prepare_compare() -> None:
    from nodewise.lab.compare import score_plot

    score_plot.draw = lambda *_: False


def _use_comparison(case: Case) -> None:
    from nodewise.lab.compare import compare

    compare(str(case.fixed / "store"), case.path, ["nigcn"], _splits(), settings=SETTINGS, threads=1)


def _make_comparison(fixed: Path, folder: Path) -> None:
    _use_comparison(Case(fixed, folder / "comparison"))


def _predict(fixed: Path, folder: Path, kind: str) -> None:
    from nodewise.batch import run

    nodes = "all" if kind == "predict" else "n1,n3,n5,n7"
    run(
        kind,
        fixed / "model",
        str(fixed / "store"),
        folder,
        nodes=nodes,
        chunk=20 if kind == "predict" else 2,
        threads=1,
    )


def _make_predictions(fixed: Path, folder: Path) -> None:
    for kind in ("predict", "embed"):
        _predict(fixed, folder / kind, kind)
        shutil.copytree(folder / kind, fixed / f"expected-{kind}")
        sorted((folder / kind).glob("part-*"))[-1].unlink()


def _use_predictions(case: Case) -> None:
    kind = case.path.name
    _predict(case.fixed, case.path, kind)
    if not case.resealed:
        found, expected = (_table(folder) for folder in (case.path, case.fixed / f"expected-{kind}"))
        assert found.equals(expected), "resumed, and the predictions are others"


def _seal_predictions(folder: Path) -> None:
    from nodewise.batch.seals import seal

    _seal_run(folder)
    for shard in folder.glob("part-*"):
        seal(shard)


def _table(folder: Path) -> Any:
    return pa.concat_tables([pq.ParquetFile(shard).read() for shard in sorted(folder.glob("part-*"))])


class _Killed(BaseException):
    """As a kill: nothing in the library may catch it."""


@contextmanager
def _killed_at(journal: int) -> Any:
    """An import that ends at this journal, and writes nothing more."""
    from nodewise.importing.work_folder import Work

    plain, count = Work.save, 0

    def save(self: Any) -> None:
        nonlocal count
        count += 1
        if count <= journal:
            plain(self)
        if count == journal:
            raise _Killed

    Work.save = save  # type: ignore[method-assign]
    try:
        yield
    except _Killed:
        pass
    finally:
        Work.save = plain  # type: ignore[method-assign]


def _prepare_import() -> None:
    """Everything in many small steps, and a journal after each."""
    from nodewise.importing import edge_stage, feature_stage, sorting, work_folder

    work_folder.NOTE_SECONDS, sorting.STRIDE, feature_stage.PART_BYTES = -1.0, 4, 200
    edge_stage._run_size = lambda *_: 40
    edge_stage.room_for = lambda _, __, least, *___: least


def _use_work(case: Case) -> None:
    files = {role: case.fixed / f"work-{role}.csv" for role in ("edges", "features", "labels")}
    output = case.path / "store"
    nw.import_store(output=output, **files, name="g", resume=True)
    expected = case.fixed / "work-store"
    if not case.resealed and expected.exists():
        names = [path.relative_to(expected) for path in expected.rglob("*") if path.is_file()]
        same = all((output / name).read_bytes() == (expected / name).read_bytes() for name in names)
        assert same, "resumed, and the store is another"
    _read_through(nw.open_store(output, verify=False))


def _make_work(fixed: Path, folder: Path) -> None:
    graph = sample_graph()
    ends, rng = _ends(graph), np.random.default_rng(0)
    weights = rng.random(ends.shape[1]) + 0.1
    values = [(f"n{i}", *row) for i, row in enumerate(np.asarray(graph.features).tolist())]
    pairs = [(f"n{u}", f"n{v}", w) for u, v, w in zip(*ends.tolist(), weights.tolist(), strict=True)]
    (fixed / "work-edges.csv").write_text(_rows("source,target,weight", *pairs))
    (fixed / "work-features.csv").write_text(_rows("node,a,b,c,d", *values))
    (fixed / "work-labels.csv").write_text(_rows("node,label", *((f"n{i}", i % 3) for i in range(0, NODES, 2))))
    for journal in (2, 4, 6, 8, 10, 12, 14, 16, 18):
        with _killed_at(journal):
            _use_work(Case(fixed, folder / f"killed-{journal:02}"))
        if (folder / f"killed-{journal:02}" / "store").exists():  # it ended before
            shutil.rmtree(folder / f"killed-{journal:02}")
    _use_work(Case(fixed, fixed / "whole"))
    shutil.copytree(fixed / "whole" / "store", fixed / "work-store")


# ---------------------------------------------------------------------- files for a graph that exists


def _make_new_nodes(fixed: Path, folder: Path) -> None:
    (folder / "edges-.csv").write_text(_rows("source,target", ("x", "n1"), ("y", "n2"), ("x", "y")))
    (folder / "features-.csv").write_text(_rows("node,a,b,c,d", ("x", 1, 2, 3, 4), ("y", 0, 0.5, 1, 1)))
    (folder / "features-sparse.csv").write_text(_rows("node,feature,value", ("x", "a", 1), ("y", "b", 2)))
    (folder / "edges-numbers.csv").write_text("60,1\n61,2\n60,61\n")
    np.save(folder / "edges-numbers.npy", np.array([[60, 61, 60], [1, 2, 61]]))
    np.save(folder / "features-numbers.npy", np.ones((2, 4), np.float32))
    for path in folder.iterdir():
        shutil.copy(path, fixed / f"new-{path.name}")


def _new_files(case: Case) -> tuple[str, dict[str, Path]]:
    """The store that the files fit, and the files, one of which is the damaged one."""
    numbers = "numbers" in case.path.name
    other = "numbers." if numbers else "."
    files = {"edges": case.fixed / f"new-edges-{other}csv", "features": case.fixed / f"new-features-{other}csv"}
    if numbers:
        files["features"] = case.fixed / "new-features-numbers.npy"
    return "plain" if numbers else "store", {**files, case.path.name.partition("-")[0]: case.path}


def _use_new_nodes(case: Case) -> None:
    from nodewise.batch.runner import predict_new

    store, files = _new_files(case)
    how = {"new_edges": files["edges"], "new_features": files["features"]}
    if store == "plain":
        from nodewise.importing.new_nodes import with_new_nodes

        more = with_new_nodes(nw.open_store(case.fixed / store), files["edges"], files["features"])
        nw.diffuse(more, more.new_nodes, engine="walks", threads=1)
        return
    predict_new(case.fixed / "model", str(case.fixed / store), case.path.parent / "made.csv", **how)


def _use_append(case: Case) -> None:
    store, files = _new_files(case)
    output = case.path.parent / "store-made"
    nw.append_store(case.fixed / store, output, **files)
    _read_through(nw.open_store(output))


def _make_append(fixed: Path, folder: Path) -> None:
    _make_new_nodes(fixed, folder)
    (folder / "labels-.csv").write_text(_rows("node,label", ("x", "red"), ("n1", "pink")))


# ---------------------------------------------------------------------- questions to the server


def _make_questions(fixed: Path, folder: Path) -> None:
    new = {"name": "me", "neighbours": ["n3", 4], "features": dict.fromkeys("abcd", 0.5)}
    questions = {
        "predict": {"nodes": ["n3", 4], "top": 2},
        "explain": {"node": "n5", "class": "red", "top": 3},
        "predict-new": {"nodes": [new, {"neighbours": []}], "top": 2},
    }
    for name, question in questions.items():
        (folder / f"{name}.json").write_text(json.dumps(question))


def _use_question(case: Case) -> None:
    """A refusal is an answer from 400 to 499; the client raises what the server did not expect."""
    answer = _client(case.fixed).post(f"/{case.path.stem}", content=case.path.read_bytes(), headers=AS_JSON)
    if 400 <= answer.status_code < 500:
        raise nw.InputError(answer.text)
    assert answer.status_code == 200, f"status {answer.status_code}"


AS_JSON = {"content-type": "application/json"}
_CLIENTS: dict[Path, Any] = {}


def _client(fixed: Path) -> Any:
    from starlette.testclient import TestClient

    from nodewise.serve.answers import Answers
    from nodewise.serve.app import make_app

    if fixed not in _CLIENTS:
        answers = Answers(nw.NIGCN.load(fixed / "model"), nw.open_store(fixed / "store"))
        _CLIENTS[fixed] = TestClient(make_app(answers), base_url="http://127.0.0.1:8000").__enter__()
    return _CLIENTS[fixed]


READERS = {
    reader.name: reader
    for reader in (
        Reader("tables", "formats", _make_text, _use_import),
        Reader("edge-lists", "formats", _make_edge_lists, _use_import),
        Reader("compressed", "formats", _make_compressed, _use_import),
        Reader("parquet", "formats", _make_parquet, _use_import),
        Reader("npy", "formats", _make_npy, _use_import),
        Reader("npz", "formats", _make_npz, _use_npz),
        Reader("matrix-market", "formats", _make_matrix_market, _use_import),
        Reader("graphml", "formats", _make_networkx, _use_import),
        Reader("databases", "formats", _make_databases, _use_import),
        Reader("names", "formats", _make_names, _use_names),
        Reader("splits", "formats", _make_splits, _use_splits),
        Reader("ogb", "formats", _make_ogb, _use_layout),
        Reader("graphsaint", "formats", _make_graphsaint, _use_layout),
        Reader("planetoid", "formats", _make_planetoid, _use_planetoid),
        Reader("store", "store", _make_stores, _use_store, _seal_store),
        Reader("store-unverified", "store", _make_stores, lambda case: _use_store(case, verify=False), _seal_store),
        Reader("model", "models", _make_models, _use_model, _seal_model),
        Reader("preset", "models", _make_presets, _use_preset),
        Reader("study", "folders", _make_study, _use_study, _seal_run, _prepare_tune, keeps_all=True),
        Reader("comparison", "folders", _make_comparison, _use_comparison, _seal_run, _prepare_compare, keeps_all=True),
        Reader("predictions", "folders", _make_predictions, _use_predictions, _seal_predictions),
        Reader("unfinished-import", "folders", _make_work, _use_work, _seal_run, _prepare_import),
        Reader("new-nodes", "formats", _make_new_nodes, _use_new_nodes),
        Reader("append", "formats", _make_append, _use_append),
        Reader("questions", "server", _make_questions, _use_question),
    )
}
