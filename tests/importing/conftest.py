"""Each test of importing runs in a folder of its own, so that files go by their names."""

import pytest


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
