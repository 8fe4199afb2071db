"""Stores with one of everything."""

from __future__ import annotations

import pytest
from written import full_graph, sparse_graph

from nodewise.store import write_store


@pytest.fixture(params=[full_graph, sparse_graph], ids=["full", "sparse"])
def stored(request, tmp_path):
    write_store(request.param(), tmp_path / "s")
    return tmp_path / "s"


@pytest.fixture
def full(tmp_path):
    write_store(full_graph(), tmp_path / "s")
    return tmp_path / "s"
