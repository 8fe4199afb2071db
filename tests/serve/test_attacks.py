"""A real server, in a process of its own, under attack: it answers others, stays small, and ends when told to."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import attacks
import nodewise as nw
from models import PLAIN

pytest.importorskip("fastapi")
if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)

import resource

from nodewise.serve import running
from nodewise.serve.connections import BACKLOG, connection_limit
from server_process import Asking, Server

ATTACKS = attacks.framing() | attacks.bodies()
PARTIAL = [name for name, (_, allowed) in ATTACKS.items() if allowed == {attacks.GONE}]
PATIENCE = 100.0  # seconds; on an idle machine two are enough
MEGABYTES = 600  # that 8 MB of JSON and the answers may add


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    g = nw.synthetic.dcsbm(300, avg_degree=8, classes=3, features=4, signal=2.0, seed=0)
    g = g.replace(node_names=[f"node {i}" for i in range(300)], feature_names=list("abcd"))
    nw.write_store(g, folder / "store")
    nw.NIGCN(seed=0, **PLAIN).fit(g, train=range(60), val=range(60, 200)).save(folder / "model")
    return folder / "model", folder / "store"


@pytest.fixture(scope="module")
def server(paths):
    with Server(*paths) as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_a_bad_request_gets_a_status_and_the_next_a_good_answer(server, name):
    data, allowed = ATTACKS[name]
    before = server.memory()
    status = attacks.status_of(attacks.send(server.port, data, 0.05 if name in PARTIAL else 20.0))
    assert status in allowed
    assert server.answers()
    assert server.memory() < before + MEGABYTES


def test_a_worker_that_is_killed_is_replaced_and_none_outlives_the_parent(paths):
    with Server(*paths, "--workers", "2") as server:
        asking = Asking(server, pause=0.01)
        first, second = server.workers()
        os.kill(first, signal.SIGKILL)
        assert server.answers(), "the other one goes on"
        deadline = time.monotonic() + PATIENCE
        while len(now := server.workers()) < 2 or first in now:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert second in now
        asking.end()
        assert len(asking.failed) <= 1, "no more than the one that the killed worker had"
        server.kill()
        deadline = time.monotonic() + PATIENCE
        while any(os.path.exists(f"/proc/{pid}") for pid in now):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_sigterm_ends_with_exit_code_0_and_leaves_nobody_without_an_answer(paths):
    with Server(*paths) as server:
        kept = [Asking(server, new=False) for _ in range(4)]
        time.sleep(0.3)
        code, _ = server.stop()
        for one in kept:
            one.end()
        assert code == 0
        assert all(one.spent for one in kept)
        assert [one.failed for one in kept] == [[]] * 4


def test_no_request_adds_a_line_to_a_log_that_nobody_reads(paths, tmp_path):
    """A pipe holds 64 KB; when it was full, all requests waited for it."""
    shutil.copytree(paths[1], tmp_path / "store")
    with Server(paths[0], tmp_path / "store", stderr=subprocess.PIPE) as server:
        features = tmp_path / "store" / "features.npy"
        os.truncate(features, features.stat().st_size - 8)
        question = attacks.request(b'{"node": 1}', path="/explain")
        statuses = {attacks.status_of(attacks.send(server.port, question)) for _ in range(700)}
        assert statuses == {503}
        code, _ = server.stop()
        assert code == 0
        assert server.process.stderr.read().count(b"truncated after it was opened") == 1


def test_a_worker_logs_each_message_once_and_only_so_many():
    few = running.FewLines()
    said = [few.filter(logging.makeLogRecord({"msg": f"message {i // 2}"})) for i in range(1000)]
    assert said[:4] == [True, False, True, False]
    assert sum(said) == running.MOST_LINES
    with os.fdopen(os.pipe()[1], "wb") as pipe:
        assert not running._is_full(pipe)
        os.set_blocking(pipe.fileno(), False)
        os.write(pipe.fileno(), bytes(1 << 20))
        assert running._is_full(pipe)
    long = logging.makeLogRecord({"msg": "x" * 2 * running.LONGEST_LINE})
    few = running.FewLines()
    assert [few.filter(long) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(("files", "connections"), [(4096, 2000), (1024, 512), (256, 64)])
def test_connections_leave_room_for_other_files(monkeypatch, files, connections):
    """asyncio takes as many as the backlog holds before it counts them, and writes pages where files run out."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert connection_limit() == connections
    assert connections + BACKLOG < files


def test_a_limit_that_leaves_no_room_is_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 50))
    with pytest.raises(nw.InputError, match=r"only 50 files may be open at a time.*raise the hard limit"):
        connection_limit()
