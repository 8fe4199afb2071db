"""A small store on disk."""

import pytest

from nodewise import write_store
from nodewise.graph import synthetic


@pytest.fixture
def store(tmp_path):
    graph = synthetic.dcsbm(300, avg_degree=8, classes=3, features=8, signal=2.0, seed=0)
    write_store(graph, tmp_path / "store")
    return tmp_path / "store"
