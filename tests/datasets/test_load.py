"""load() by name, store or file, and the list of data sets."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodewise import datasets
from nodewise._util.errors import InputError, StoreError
from nodewise.datasets import list_datasets, load, registry
from nodewise.datasets.registry import DataFile, Dataset
from nodewise.graph import Graph
from nodewise.store import write_store
from tiny_layouts import Tiny, write_graphsaint, write_ogb_binary, write_ogb_csv, zipped


@pytest.fixture
def tiny_name(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tiny Planetoid files, known by name."""
    files = tuple(DataFile(name, hashlib.sha256(path.read_bytes()).hexdigest()) for name, path in tiny.files.items())
    dataset = Dataset(
        "tiny",
        nodes=8,
        edges=8,
        features=8,
        classes=3,
        layout="planetoid",
        origin="made up",
        original="https://example.org",
        files=files,
    )
    monkeypatch.setattr(registry, "DATASETS", (*registry.DATASETS, dataset))
    return dataset.name


def test_a_name_loads_from_the_data_directory(tiny: Any, tiny_name: str) -> None:
    graph = load(tiny_name, tiny.folder.parent)
    assert graph.name == "tiny"
    assert np.array_equal(graph.features.toarray(), tiny.features)  # type: ignore[union-attr]


def test_a_name_loads_from_the_environment(tiny: Any, tiny_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEWISE_DATA", str(tiny.folder.parent))
    assert load("TINY").num_nodes == 8


def test_an_altered_file_is_not_even_parsed(tiny: Any, tiny_name: str) -> None:
    tiny.write("graph", {0: [0]})
    with pytest.raises(StoreError, match=r"ind\.tiny\.graph: its SHA-256 is"):
        load(tiny_name, tiny.folder.parent)


def test_an_npz_file_loads_by_its_path(tiny_npz: Callable[..., Path]) -> None:
    assert load(tiny_npz()).num_nodes == 6
    assert load(str(tiny_npz())).name == "ring"


def test_a_store_folder_is_opened(tmp_path: Path) -> None:
    graph = Graph.from_edges(np.array([[0], [1]]), name="pair")
    write_store(graph, tmp_path / "store")
    assert load(tmp_path / "store").name == load(str(tmp_path / "store")).name == "pair"


def test_a_folder_without_a_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"without manifest\.json.*nodewise import"):
        load(tmp_path)


def test_a_file_of_another_type_is_sent_to_import(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1\n")
    with pytest.raises(InputError, match=r"edges\.csv: a file of type '\.csv'.*nodewise import"):
        load(tmp_path / "edges.csv")


def test_an_unknown_name_lists_the_names_and_suggests_the_closest() -> None:
    with pytest.raises(InputError, match=r"pubmde: .*Did you mean 'pubmed'\?.*cora, citeseer.*path of.*that exists"):
        load("pubmde")


def test_a_path_that_does_not_exist_suggests_nothing_far_off(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither the name of a data set nor a path that exists") as caught:
        load(tmp_path / "0123456789.npz")
    assert "Did you mean" not in str(caught.value)


# ---------------------------------------------------------------------- large graphs, made a store on first use

LARGE = [
    ("ogbn-arxiv", write_ogb_csv, "ogb/arxiv"),
    ("ogbn-papers100M", write_ogb_binary, "ogb/papers100M-bin"),
    ("papers100M", write_ogb_binary, "ogb/ogbn_papers100M"),
    ("reddit", write_graphsaint, "graphsaint/reddit"),
    ("amazon", write_graphsaint, "graphsaint/amazon"),
]


@pytest.mark.parametrize(("name", "write", "place"), LARGE)
def test_a_large_graph_is_imported_once_and_opened_from_then_on(
    name: str, write: Any, place: str, tmp_path: Path
) -> None:
    ring = Tiny.ring()
    folder = write(tmp_path / "data" / place, ring)
    graph = load(name, tmp_path / "data")
    dataset = registry.lookup(name)
    assert dataset is not None
    assert graph.name == dataset.name
    assert (graph.num_nodes, graph.num_edges) == (8, 8)
    assert np.array_equal(graph.features, ring.features)
    assert np.array_equal(graph.labels, ring.labels)
    assert all(np.array_equal(graph.splits[part], nodes) for part, nodes in ring.splits.items())
    shutil.rmtree(folder)
    assert load(name).num_edges == 8
    where = next(row.where for row in list_datasets() if row.name == dataset.name)
    assert where == str(tmp_path / "cache" / "stores" / dataset.name)


def test_a_large_graph_that_two_load_at_once_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ogb_csv(tmp_path / "data" / "ogb" / "arxiv", Tiny.ring())
    imports: list[str] = []
    started, go_on, plain = threading.Event(), threading.Event(), datasets._import

    def slow(dataset: Dataset, *where: Any) -> None:
        imports.append(dataset.name)
        started.set()
        go_on.wait(20)
        plain(dataset, *where)

    monkeypatch.setattr(datasets, "_import", slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(load, "ogbn-arxiv", tmp_path / "data")
        assert started.wait(20)
        second = pool.submit(load, "ogbn-arxiv", tmp_path / "data")
        assert not wait([second], 0.3).done
        go_on.set()
        assert first.result().num_edges == second.result().num_edges == 8
    assert imports == ["ogbn-arxiv"]


@pytest.mark.parametrize("name", ["arxiv", "papers100M-bin"])
def test_a_large_graph_is_imported_from_the_zip_as_it_was_downloaded(name: str, tmp_path: Path) -> None:
    write = write_ogb_csv if name == "arxiv" else write_ogb_binary
    shutil.rmtree(zipped(write(tmp_path / "data" / "ogb" / name, Tiny.ring())).with_suffix(""))
    assert load("ogbn-arxiv" if name == "arxiv" else "papers100M", tmp_path / "data").num_edges == 8


def test_a_broken_archive_leaves_no_store(tmp_path: Path) -> None:
    ring = Tiny.ring()
    ring.edges[0, 3] = 99
    write_ogb_csv(tmp_path / "data" / "ogb" / "arxiv", ring)
    with pytest.raises(InputError, match=r"edge\.csv\.gz: edge 3 names node 99"):
        load("ogbn-arxiv", tmp_path / "data")
    assert not (tmp_path / "cache" / "stores" / "ogbn-arxiv").exists()


@pytest.mark.parametrize(
    ("name", "file"), [("ogbn-arxiv", r"arxiv\.zip"), ("reddit", r"reddit/adj_full\.npz, reddit/feats\.npy")]
)
def test_a_large_graph_that_cannot_be_had_says_where_to_put_it(name: str, file: str) -> None:
    with pytest.raises(StoreError, match=rf"{name}: {file}.* not found.*download of http.*\$NODEWISE_DATA/"):
        load(name)


@pytest.mark.parametrize("name", ["amazon-computers", "amazon-photo", "coauthor-cs", "coauthor-physics"])
def test_graphs_without_download_say_where_to_put_the_file_and_where_the_original_is(name: str) -> None:
    with pytest.raises(StoreError, match=rf"{name}\.npz not found.*NODEWISE_DATA/npz.*shchur/gnn-benchmark"):
        load(name)


# ---------------------------------------------------------------------- the list


def test_the_list_has_the_papers_seven_data_sets_with_the_papers_node_feature_and_class_counts() -> None:
    """The paper's table of data sets. Its edge counts for the first three include repeats, so they are not compared."""
    listed = {row.name: (row.nodes, row.features, row.classes) for row in list_datasets() if row.in_paper}
    assert listed == {
        "cora": (2_708, 1_433, 7),
        "citeseer": (3_327, 3_703, 6),
        "pubmed": (19_717, 500, 3),
        "ogbn-arxiv": (169_343, 128, 40),
        "reddit": (232_965, 602, 41),
        "amazon": (1_569_960, 200, 107),
        "ogbn-papers100M": (111_059_956, 128, 172),
    }


def test_the_list_says_where_a_data_set_is(tiny: Any, tiny_name: str) -> None:
    def where(**given: Any) -> str | None:
        return next(row.where for row in list_datasets(**given) if row.name == tiny_name)

    assert where() is None
    assert where(data_dir=tiny.folder.parent) == str(tiny.folder)
    tiny.path("tx").unlink()
    assert where(data_dir=tiny.folder.parent) is None


def test_the_papers_seven_data_sets_can_be_downloaded() -> None:
    assert {row.name for row in list_datasets() if row.downloadable} == {r.name for r in list_datasets() if r.in_paper}
    assert next(row.download_bytes for row in list_datasets() if row.name == "ogbn-papers100M") == 57_000_000_000


def test_the_stand_in_says_that_its_features_are_not_those_of_ogb() -> None:
    assert any(row.name == "arxiv-standin" and "NOT OGB's" in row.origin for row in list_datasets())


def test_every_small_file_has_a_digest_and_every_name_is_there_once() -> None:
    files = [file for dataset in registry.DATASETS for file in dataset.files]
    digests = [file.sha256 for d in registry.DATASETS for file in d.files if d.layout not in registry.IMPORTED]
    assert all(re.fullmatch("[0-9a-f]{64}", str(digest)) for digest in digests)
    assert len(set(digests)) == len(digests)
    assert len({file.name for file in files}) == len(files)
    urls = [file.url for file in files if file.url is not None]
    assert len(set(urls)) == len(urls)
    names = [known.lower() for dataset in registry.DATASETS for known in (dataset.name, *dataset.aliases)]
    assert len(set(names)) == len(names)


def test_listing_loads_neither_numba_nor_torch() -> None:
    code = "import sys, nodewise.datasets as d; d.list_datasets(); print(sorted({'numba', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_small_data_set_on_this_machine_has_the_size_that_the_list_says(data_dir: Path) -> None:
    small = [dataset.name for dataset in registry.DATASETS if dataset.layout not in registry.IMPORTED]
    rows = [row for row in list_datasets(data_dir) if row.where is not None and row.name in small]
    assert rows
    for row in rows:
        graph = load(row.name, data_dir)
        assert (graph.num_nodes, graph.num_edges, graph.num_features) == (row.nodes, row.edges, row.features), row.name
