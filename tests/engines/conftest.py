"""A store and models on disk, and readers of what jobs write."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nodewise import NIGCN, synthetic, write_store


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A store, and a model for each of two engines; nobody writes here."""
    folder = tmp_path_factory.mktemp("engines")
    graph = synthetic.dcsbm(600, avg_degree=8, classes=3, features=24, signal=2.0, seed=0)
    write_store(graph, folder / "store")
    for engine in ("walks", "exact"):
        model = NIGCN(epochs=20, epsilon=0.1, engine=engine, feature_norm="l1", threads=2)
        model.fit(graph, train=range(60), val=range(60, 120)).save(folder / engine)
    return SimpleNamespace(store=str(folder / "store"), walks=folder / "walks", exact=folder / "exact")


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
