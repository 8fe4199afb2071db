"""A real Ray cluster of two worker processes on this machine: the same bits as here, whatever happens to a worker."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from models import PLAIN
from nodewise import NIGCN, InputError, StoreError, open_store
from nodewise.batch import row_maker, run, runner
from nodewise.batch.on_ray import connected, scatter
from nodewise.batch.pieces import PieceError

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two cores, whatever the machine has; code under test finds the connection and leaves it."""
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.mark.parametrize(("kind", "engine"), [("predict", "walks"), ("embed", "exact")])
def test_shards_equal_those_made_here_bit_for_bit(place, bits, names, tmp_path, monkeypatch, kind, engine):
    monkeypatch.setattr(runner, "PIECE_BYTES", 1)  # several blocks of columns
    run(kind, getattr(place, engine), place.store, tmp_path / "here", chunk=70, threads=2)
    seen = []
    there = {"chunk": 70, "on": "ray", "progress": lambda *step: seen.append(step)}
    run(kind, getattr(place, engine), place.store, tmp_path / "ray", **there)
    assert bits(tmp_path / "ray") == bits(tmp_path / "here")
    assert names(tmp_path / "ray") == names(tmp_path / "here")
    nodes = [done for unit, done, _ in seen if unit == "nodes"]
    assert nodes == sorted(set(nodes))
    assert seen[-1] == ("nodes", 600, 600)
    assert ray.is_initialized()


def test_a_chunk_that_always_fails_is_named_and_the_others_are_kept(place, bits, tmp_path):
    run("predict", place.walks, place.store, tmp_path / "here", chunk=100)
    expected = bits(tmp_path / "here")
    (tmp_path / "here" / "_summary.json").unlink()
    for chunk in range(6):
        (tmp_path / "here" / f"part-0000{chunk}.parquet").unlink()
    (tmp_path / "here" / "part-00003.parquet").mkdir()  # a folder stands where the shard is to go
    with pytest.raises(StoreError) as error:
        run("predict", place.walks, place.store, tmp_path / "here", chunk=100, on="ray")
    message = str(error.value)
    kept = {name for name in expected if (tmp_path / "here" / name).is_file()}
    assert "chunk 3 (nodes 300 to 399) failed on Ray: " in message
    assert "this is a folder" in message
    assert f"{len(kept)} of 6" in message
    assert "\n" not in message
    assert {"part-00000.parquet", "part-00001.parquet"} <= kept
    (tmp_path / "here" / "part-00003.parquet").rmdir()
    done = run("predict", place.walks, place.store, tmp_path / "here", chunk=100, on="ray")
    assert done.made == 600 - 100 * len(kept)
    assert bits(tmp_path / "here") == expected


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_workers_find_columns_by_name_too(named, bits, tmp_path, engine):
    for on in ("local", "ray"):
        run("predict", named / engine, str(named / "moved"), tmp_path / on, chunk=70, on=on)
    assert bits(tmp_path / "ray") == bits(tmp_path / "local")


@pytest.mark.parametrize("engine", ["walks", "exact"])
def test_rows_for_training_are_those_made_here(place, engine):
    graph, nodes = open_store(place.store), np.random.default_rng(0).permutation(600)
    maker = NIGCN(**PLAIN, engine=engine, threads=2).row_maker
    with row_maker(place.store) as make:
        assert np.array_equal(make(maker, graph, nodes), maker.rows(graph, nodes))


def test_a_model_learns_the_same_from_rows_made_on_the_cluster(place):
    """Different weights would mean that the cluster's rows went to the wrong nodes or used other parameters."""
    graph = open_store(place.store)
    here = NIGCN(**PLAIN, engine="walks").fit(graph, range(60), range(60, 120))
    with row_maker(place.store) as make:
        there = NIGCN(**PLAIN, engine="walks").fit(graph, range(60), range(60, 120), make_rows=make)
    assert np.array_equal(here.predict_proba(graph), there.predict_proba(graph))


def test_rows_of_another_graph_are_refused(place):
    graph = open_store(place.store)
    with row_maker(place.store) as make, pytest.raises(StoreError, match="not what the work began with"):
        make(NIGCN(**PLAIN, engine="walks").row_maker, graph.subgraph(range(300)), np.arange(5))


def test_without_ray_the_error_says_what_to_install(place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'nodewise\[ray\]'"):
        run("predict", place.walks, place.store, tmp_path / "out", on="ray")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "host:port"])
def test_a_cluster_that_does_not_answer_is_one_error_at_once(monkeypatch, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match=f"--address {address}: no Ray cluster answers"), connected(address):
        pass


# ---------------------------------------------------------------------- last, for a new worker takes time to start


def test_a_worker_that_is_killed_costs_a_retry_and_nothing_else(place, bits, names, tmp_path, monkeypatch):
    """It dies with its shard written and not yet named, which is the worst moment."""
    run("predict", place.walks, place.store, tmp_path / "here", chunk=100)
    marker, process = str(tmp_path / "died"), str(os.getpid())

    def dies_once(job, chunk):
        from nodewise._util import atomic
        from nodewise.batch.pieces import run_chunk

        if chunk == 2 and not os.path.exists(marker):
            with open(marker, "w") as stream:
                stream.write(str(os.getpid()))
            atomic.flush = lambda partial: os.kill(os.getpid(), signal.SIGKILL)
        run_chunk(job, chunk)

    monkeypatch.setattr(runner, "run_chunk", dies_once)
    done = run("predict", place.walks, place.store, tmp_path / "out", chunk=100, on="ray")
    assert (tmp_path / "died").read_text() not in ("", process)
    assert done.made == 600
    assert bits(tmp_path / "out") == bits(tmp_path / "here")
    assert names(tmp_path / "out") == names(tmp_path / "here")


def test_a_worker_that_always_dies_is_one_error():
    def dies(number):
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * number

    with pytest.raises(PieceError) as error:
        list(scatter(ray, dies, {0: (0,), 1: (1,)}, 1))
    number, why = error.value.args
    assert number == 1
    assert why.startswith("failed on Ray: WorkerCrashedError: ")


def test_calls_that_run_are_ended_with_an_interrupted_command(tmp_path):
    """Else a worker writes its shard once another command has begun in the same folder."""

    def writes_late(number):
        Path(tmp_path, f"began-{number}").write_text(str(os.getpid()))
        time.sleep(60 * number)
        Path(tmp_path, f"ended-{number}").touch()

    results = scatter(ray, writes_late, {number: (number,) for number in range(2)}, 1)
    next(results)
    while not (began := tmp_path / "began-1").exists() or not began.read_text():
        time.sleep(0.05)
    worker = int(began.read_text())
    results.close()  # as it is when what asks for results is interrupted
    until = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()
    assert not (tmp_path / "ended-1").exists()
