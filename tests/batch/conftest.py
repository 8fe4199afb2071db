"""A store and models on disk, and readers of what jobs write."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models import PLAIN
from nodewise import NIGCN, write_store
from nodewise.graph import synthetic


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A store, a model for each of two engines, and one that kept nodes aside for sets; nobody writes here."""
    folder = tmp_path_factory.mktemp("engines")
    graph = synthetic.dcsbm(600, avg_degree=8, classes=3, features=24, signal=2.0, seed=0)
    write_store(graph, folder / "store")
    for engine in ("walks", "exact"):
        model = NIGCN(**PLAIN, engine=engine, threads=2)
        model.fit(graph, train=range(60), val=range(60, 120)).save(folder / engine)
    unsure = NIGCN(**{**PLAIN, "weight_decay": "auto", "layers": 1, "epochs": 10}, engine="walks", threads=2)
    unsure.fit(graph, train=range(60), val=range(60, 260)).save(folder / "unsure")
    kinds = {kind: folder / kind for kind in ("walks", "exact", "unsure")}
    return SimpleNamespace(store=str(folder / "store"), **kinds)


@pytest.fixture(scope="session")
def named(tmp_path_factory):
    """Two stores of one graph, the second with its columns in another order, a third with other columns, and models."""
    folder = tmp_path_factory.mktemp("named")
    graph = synthetic.dcsbm(300, avg_degree=8, classes=3, features=12, signal=2.0, seed=0)
    graph = graph.replace(features=graph.features, feature_names=[f"f{i}" for i in range(12)])
    order = [*range(5, 12), *range(5)]
    moved = graph.replace(features=graph.features[:, order], feature_names=[f"f{i}" for i in order])
    write_store(graph, folder / "store")
    write_store(moved, folder / "moved")
    write_store(graph.replace(feature_names=["age", *graph.feature_names[1:]]), folder / "other")
    for engine in ("walks", "exact"):
        NIGCN(**PLAIN, engine=engine, threads=2).fit(graph, range(60), range(60, 120)).save(folder / engine)
    return folder


@pytest.fixture
def read():
    """The table that the shards of a folder make up, in the order of their names."""

    def call(folder):
        return pa.concat_tables([pq.read_table(shard) for shard in sorted(folder.glob("part-*.parquet"))])

    return call


@pytest.fixture
def names():
    """All that lies in a folder, hidden files too."""
    return lambda folder: sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def bits():
    """Every file of a folder that is a shard, byte for byte."""
    return lambda folder: {shard.name: shard.read_bytes() for shard in folder.glob("part-*.parquet")}
