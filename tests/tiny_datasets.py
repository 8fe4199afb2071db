"""Tiny files in the layouts that are read, a guard against the network, and the real files where there are any."""

from __future__ import annotations

import os
import pickle
import subprocess
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from nodewise.datasets import locate

REAL_DATA = os.environ.get("NODEWISE_DATA")
REAL_URLOPEN = urllib.request.urlopen


@pytest.fixture
def urlopen(_nowhere: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The real thing again, for servers on this machine."""
    monkeypatch.setattr(urllib.request, "urlopen", REAL_URLOPEN)
    monkeypatch.setenv("no_proxy", "*")
    return REAL_URLOPEN


@pytest.fixture
def data_dir() -> Path:
    """The folder of real data sets."""
    if not REAL_DATA:
        pytest.skip("NODEWISE_DATA is not set: the real files are not here")
    return Path(REAL_DATA)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder of data, an empty cache, no network and no pip: a test sets what it needs."""

    def no_network(*_: Any, **__: Any) -> Any:
        raise urllib.error.URLError("no network in tests")

    def no_pip(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError("no pip in tests")

    monkeypatch.delenv("NODEWISE_DATA", raising=False)
    monkeypatch.setenv("NODEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr(locate, "subprocess", SimpleNamespace(run=no_pip, TimeoutExpired=subprocess.TimeoutExpired))


class TinyPlanetoid:
    """Eight nodes around a ring, in Planetoid's files. Node 5 has no row, as fifteen nodes of Citeseer have none."""

    name = "tiny"
    train = 2
    known = 4
    test_index = (6, 4, 7)
    gap = 5
    ring = tuple((u, (u + 1) % 8) for u in range(8))

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.features = np.diag(np.arange(1.0, 9.0)).astype(np.float32)  # node u has u + 1 in column u, nothing else
        self.features[self.gap] = 0
        self.labels = np.array([0, 1, 2, 0, 1, 0, 2, 1])  # of the gap: 0, the argmax of nothing
        test = list(self.test_index)
        one_hot = np.eye(3, dtype=np.int32)[self.labels]
        graph: defaultdict[int, list[int]] = defaultdict(list)
        for u, v in self.ring:
            graph[u].append(v)
            graph[v].append(u)
        graph[0].append(0)  # the originals have loops and repeats
        graph[0].append(1)
        self.write("x", sp.csr_matrix(self.features[: self.train]))
        self.write("y", one_hot[: self.train])
        self.write("tx", sp.csr_matrix(self.features[test]))
        self.write("ty", one_hot[test])
        self.write("allx", sp.csr_matrix(self.features[: self.known]))
        self.write("ally", one_hot[: self.known])
        self.write("graph", graph)
        self.path("test.index").write_text("".join(f"{node}\n" for node in test))

    def path(self, part: str) -> Path:
        return self.folder / f"ind.{self.name}.{part}"

    def write(self, part: str, value: Any) -> None:
        self.path(part).write_bytes(pickle.dumps(value, protocol=4))

    @property
    def files(self) -> dict[str, Path]:
        return {path.name: path for path in self.folder.iterdir()}


@pytest.fixture
def tiny(tmp_path: Path) -> TinyPlanetoid:
    folder = tmp_path / "data" / "planetoid"
    folder.mkdir(parents=True)
    return TinyPlanetoid(folder)


@pytest.fixture
def tiny_npz(tmp_path: Path) -> Callable[..., Path]:
    """A writer of a ring of six nodes as .npz; keywords change arrays, and None drops one."""

    def write(**changes: Any) -> Path:
        features = sp.csr_matrix(np.eye(6, 4, dtype=np.float32))
        arrays: dict[str, Any] = {
            "edge_index": np.array([np.arange(6), (np.arange(6) + 1) % 6], np.int32),
            "x_data": features.data,
            "x_indices": features.indices,
            "x_indptr": features.indptr,
            "x_shape": np.array(features.shape),
            "y": np.array([0, 1, 0, 1, -1, 0]),
        } | changes
        path = tmp_path / "ring.npz"
        np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
        return path

    return write
