"""The server, asked through its interface: answers, refusals, and what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attacks
import nodewise as nw
from models import PLAIN
from nodewise._util.errors import InputError, StoreError
from nodewise.graph.names import places_of

pytest.importorskip("fastapi")
import uvicorn
from starlette.testclient import TestClient

from nodewise.serve import guards
from nodewise.serve.answers import Answers
from nodewise.serve.app import PAGES, make_app
from nodewise.serve.batching import Batcher, QueueFullError
from nodewise.serve.connections import Connection
from nodewise.serve.questions import NewNode
from nodewise.serve.running import serve

HERE = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def graph():
    g = nw.synthetic.dcsbm(300, avg_degree=8, classes=3, features=4, signal=2.0, seed=0)
    names = [f"node {i}" for i in range(300)]
    return g.replace(
        node_names=names, label_names=["red", "blue", "<b>"], feature_names=list("abcd"), features=g.features
    )


@pytest.fixture(scope="module")
def model(graph):
    return nw.NIGCN(seed=0, epochs=30).fit(graph, train=range(60), val=range(60, 200))


@pytest.fixture(scope="module")
def client(model, graph):
    return TestClient(make_app(Answers(model, graph)), base_url=HERE)


def test_predictions_are_those_of_the_model(client, model, graph):
    nodes = ["node 250", 251, "node 250"]
    answer = client.post("/predict", json={"nodes": nodes, "top": 2, "coverage": 0.8})
    assert answer.status_code == 200
    found = answer.json()["predictions"]
    expected = model.predict_proba(graph, [250, 251, 250])
    assert [one["node"] for one in found] == ["node 250", "node 251", "node 250"]
    assert [one["label"] for one in found] == model.predict(graph, [250, 251, 250]).tolist()
    for one, proba in zip(found, expected, strict=True):
        assert one["probability"] == pytest.approx(proba.max(), abs=1e-5)
        assert [c["probability"] for c in one["top"]] == pytest.approx(np.sort(proba)[::-1][:2], abs=1e-5)
    sets = model.predict_set(graph, [250, 251], coverage=0.8)
    assert [len(one["set"]) for one in found[:2]] == sets.sum(1).tolist()


def test_a_new_node_gets_the_answer_of_an_extended_graph(client, model, graph):
    features = dict(zip("abcd", graph.features[7].tolist(), strict=True))
    question = {"nodes": [{"name": "me", "neighbours": ["node 3", 4], "features": features}, {"neighbours": []}]}
    found = client.post("/predict-new", json=question).json()["predictions"]
    edges = np.array([["x", "x"], ["node 3", "node 4"]])
    more = graph.extended(edges, graph.features[[7]], names=["x"])
    assert found[0]["node"] == "me"
    assert found[0]["probability"] == pytest.approx(model.predict_proba(more, ["x"]).max(), abs=1e-4)
    assert found[1]["node"] == "new node"


def test_an_explanation_is_that_of_the_library_with_a_picture(client, model, graph):
    found = client.post("/explain", json={"node": "node 250", "class": "<b>", "top": 5}).json()
    expected = nw.explain(model, graph, 250, "<b>", top=5)
    assert (found["class"], found["runner_up"]) == ("<b>", expected.runner_up)
    assert found["logit"] == pytest.approx(expected.logit, abs=1e-4)
    assert [one["name"] for one in found["drawn"]] == [one.name for one in expected.drawn]
    assert found["edges"] == [list(edge) for edge in expected.edges]
    assert len(found["neighbours"]) == 5


def test_explanations_use_the_parameters_of_the_server(model, graph):
    answers = Answers(model, graph, threads=1, epsilon=0.3)
    assert answers.explained.maker_on(graph) == answers.maker
    assert model.epsilon == "auto", "the model itself is unchanged"


def test_names_are_completed(client):
    assert client.get("/nodes", params={"prefix": "NODE 29", "limit": 3}).json()["nodes"] == [
        "node 29",
        "node 290",
        "node 291",
    ]
    assert client.get("/nodes", params={"prefix": "zz"}).json()["nodes"] == []


def test_about_health_and_metrics(client):
    about = client.get("/about").json()
    assert (about["nodes"], about["classes"], about["named"]) == (300, ["red", "blue", "<b>"], True)
    assert client.get("/healthz").json() == {"status": "ok"}
    client.post("/predict", json={"nodes": [1]})
    text = client.get("/metrics").text
    assert 'nodewise_requests_total{path="/predict",status="200"}' in text
    assert "nodewise_answered_nodes_total" in text


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/predict", {"nodes": ["node 30x"]}, 404, "Did you mean 'node 30'"),
        ("/predict", {"nodes": [300]}, 404, "ids go from 0 to 299"),
        ("/predict", {"nodes": []}, 422, "at least 1"),
        ("/predict", {"nodes": [1] * 1000}, 422, "at most 256"),
        ("/predict", {"nodes": [1], "coverage": 1.5}, 422, "less than 1"),
        ("/predict", {"nodes": [1], "coverage": 0.9999}, 422, "held-out nodes can vouch"),
        ("/predict", {"nodes": [1], "stray": 1}, 422, "Extra inputs"),
        ("/predict", {"nodes": [{"a": 1}]}, 422, "valid"),
        ("/explain", {"node": "node 30x"}, 404, "Did you mean 'node 30'"),
        ("/explain", {"node": 1, "class": "green"}, 422, "there is no class 'green'"),
        ("/explain", {"node": 1, "top": 0}, 422, "greater than or equal to 1"),
        ("/predict-new", {"nodes": [{"neighbours": ["nobody"]}]}, 404, "there is no node 'nobody'"),
        ("/predict-new", {"nodes": [{"neighbours": [1], "features": {"z": 1}}]}, 422, "there is no feature 'z'"),
        ("/predict-new", {"nodes": [{"neighbours": [1], "features": [1.0]}]}, 422, "1 features; expected 4"),
        ("/predict-new", {"nodes": [{"neighbours": [1] * 9000}] * 6}, 422, "54,000 neighbours in all; expected"),
        ("/predict-new", {"nodes": [{"neighbours": [1], "features": {"a": 1e300}}]}, 422, "at most 1e+16"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_refused_with_what_is_wrong(client, path, body, status, words):
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.text


def test_other_sites_hosts_and_large_bodies_are_refused(client, monkeypatch):
    assert client.get("/about", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/about", headers={"host": "127.0.0.1:8000@evil"}).status_code == 403
    assert client.get("/about", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/about", headers={"origin": "null"}).status_code == 403
    assert client.get("/about", headers={"origin": HERE}).status_code == 200
    assert client.post("/predict", content=b"x" * (guards.MOST_BODY + 1)).status_code == 413
    assert client.post("/predict", content=(b"x" * (1 << 20) for _ in range(10))).status_code == 413
    assert client.get("/../../etc/passwd").status_code == 404


def test_pages_carry_a_policy_and_no_address_of_another_site(client):
    for path, _, _ in PAGES:
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text


@settings(max_examples=150)
@given(
    path=st.sampled_from(["/predict", "/predict-new", "/explain", "/nodes", "/about", "/", "/nothing"]),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    body=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["nodes", "node", "top", "neighbours", "features"]), inner, max_size=3),
            max_leaves=8,
        ),
    ),
)  # fmt: skip
def test_no_request_is_an_error_of_the_server(client, path, method, body):
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    assert client.request(method, path, **content).status_code < 500


def test_a_node_that_a_graph_without_names_does_not_have_is_404_with_those_it_has(model, graph):
    bare = TestClient(make_app(Answers(model, graph.replace(node_names=None))), base_url=HERE)
    for node in (300, "300", "nobody", "9" * 500):
        answer = bare.post("/predict", json={"nodes": [node]})
        assert (answer.status_code, "ids go from 0 to 299" in answer.text) == (404, True)
    assert bare.post("/predict", json={"nodes": ["299"]}).status_code == 200


def test_new_nodes_of_a_graph_without_features_are_answered_each_with_neighbours_or_without():
    plain = nw.synthetic.dcsbm(300, avg_degree=8, classes=3, features=4, seed=0).replace(features=None)
    answers = Answers(nw.NIGCN(seed=0, **PLAIN).fit(plain, train=range(60), val=range(60, 200)), plain)
    found = answers.predict_new([NewNode(neighbours=[1, 2]), NewNode(neighbours=[])], top=1)
    assert len(found) == 2


def test_all_names_of_a_question_are_looked_up_at_once_and_not_on_the_event_loop(client, monkeypatch):
    looks = []

    def look(wanted, names):
        looks.append(threading.current_thread().name)
        return places_of(wanted, names)

    monkeypatch.setattr("nodewise.serve.answers.places_of", look)
    names = [f"node {i}" for i in range(200)]
    assert client.post("/predict", json={"nodes": names}).status_code == 200
    assert client.post("/predict-new", json={"nodes": [{"neighbours": names}]}).status_code == 200
    assert [name.split("_")[0] for name in looks] == ["answers", "others"]


def test_a_store_that_cannot_be_read_is_503_and_its_path_stays_in_the_log(model, graph, caplog):
    answers = Answers(model, graph)

    def unreadable(nodes):
        raise StoreError("/home/me/store: damaged")

    answers.probabilities = unreadable
    answer = TestClient(make_app(answers), base_url=HERE).post("/predict", json={"nodes": [1]})
    assert answer.status_code == 503
    assert "/home" not in answer.text
    assert "/home/me/store: damaged" in caplog.text


def test_bodies_of_all_requests_together_are_bounded(model, graph, monkeypatch):
    monkeypatch.setattr(guards, "MOST_BODIES", 100)
    small = TestClient(make_app(Answers(model, graph)), base_url=HERE)
    for _ in range(3):  # what was refused is no longer counted
        answer = small.post("/predict", content=b" " * 200)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert small.post("/predict", json={"nodes": [1]}).status_code == 200


# ---------------------------------------------------------------------- connections


@pytest.fixture
def port(client):
    """A server in a thread that holds up to four connections."""
    config = uvicorn.Config(client.app, port=0, log_level="error", http=Connection, limit_concurrency=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def closes(connection, more=b""):
    """Whether the server ends a connection within some seconds, though more is sent on it."""
    deadline = time.monotonic() + 10
    try:
        while time.monotonic() < deadline:
            connection.sendall(more)
            time.sleep(0.05)
            connection.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1000):
                    return True
    except OSError:
        return True
    return False


def test_what_follows_a_refused_request_is_no_traceback_in_the_log(port, caplog):
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: evil\r\ntransfer-encoding: chunked\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 403")
        assert closes(connection, b"ZZZ\r\n")
    assert caplog.records == []


def test_an_answer_that_fails_is_counted_as_500():
    async def fails(scope, receive, send):
        raise KeyError

    metrics = guards.Metrics()
    app = guards.Guard(fails, ["127.0.0.1"], metrics, ["/predict"])
    with pytest.raises(KeyError):
        TestClient(app, base_url=HERE).get("/predict")
    assert metrics.registry.get_sample_value("nodewise_requests_total", {"path": "/predict", "status": "500"}) == 1


def test_silent_connections_make_room_for_others(port):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(20)]
        assert attacks.send(port, attacks.get("/healthz")).startswith(b"HTTP/1.1 200")
        assert closes(silent[0])


@pytest.mark.parametrize("begun", ["", "GET /about HTTP/1.1\r\nx: a", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nG"])
def test_a_request_that_does_not_come_to_its_end_ends_the_connection(port, begun, monkeypatch):
    monkeypatch.setattr("nodewise.serve.connections.SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", port), 5) as slow:
        slow.sendall(begun.encode())
        assert closes(slow, b"a" if begun else b"")


# ---------------------------------------------------------------------- batches


def test_questions_that_come_together_are_answered_together():
    sizes, gate = [], threading.Event()

    def answer(items):
        gate.wait(5)
        sizes.append(len(items))
        return [10 * item for item in items]

    async def ask():
        batcher = Batcher(answer)
        tasks = [asyncio.create_task(batcher.ask([0, 1]))]
        await asyncio.sleep(0.05)  # the first is being answered
        tasks += [asyncio.create_task(batcher.ask([i, i + 1])) for i in range(1, 20)]
        await asyncio.sleep(0.05)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(ask()) == [[10 * i, 10 * i + 10] for i in range(20)]
    assert sizes == [2, 38], "the first at once, then all that waited"


def test_a_full_queue_refuses_at_once_and_one_failure_harms_only_its_batch():
    gate = threading.Event()

    def answer(items):
        gate.wait(5)
        if "bad" in items:
            raise ValueError("bad")
        return items

    async def ask():
        batcher = Batcher(answer)
        first = asyncio.create_task(batcher.ask(["bad"]))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(batcher.ask(["x"] * 4000))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFullError):
            await batcher.ask(["y"] * 200)
        gate.set()
        with pytest.raises(ValueError, match="bad"):
            await first
        assert len(await second) == 4000
        assert await batcher.ask(["z"]) == ["z"]
        assert batcher.waiting == 0

    asyncio.run(ask())


def test_a_full_queue_is_503_with_a_time_to_come_back(client, monkeypatch):
    monkeypatch.setattr("nodewise.serve.batching.MOST_WAITING", 0)
    answer = client.post("/predict", json={"nodes": [1]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_request_that_takes_too_long_is_503(model, graph, monkeypatch):
    monkeypatch.setattr(guards, "SECONDS", 0.05)
    answers, gate = Answers(model, graph), threading.Event()
    answers.probabilities = lambda nodes: gate.wait(1)
    slow = TestClient(make_app(answers), base_url=HERE)
    answer = slow.post("/predict", json={"nodes": [1]})
    assert answer.status_code == 503
    assert "no answer within 0.05 s" in answer.text
    gate.set()


def test_an_epsilon_out_of_range_is_said_at_the_start():
    with pytest.raises(InputError, match=r"epsilon=5\.0: expected a number between 0 and 1"):
        serve("no-model", "cora", port=0, epsilon=5.0)


def test_an_address_that_is_taken_is_one_line(model, graph, run, tmp_path):
    model.save(tmp_path / "model")
    nw.write_store(graph, tmp_path / "store")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run("serve", tmp_path / "model", tmp_path / "store", "--port", port)
    assert code == 2
    assert f"127.0.0.1:{port}: cannot listen there" in err
    assert err.count("\n") == 1
