"""The application: a model and a graph behind FastAPI, and how it is started."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest

from nodewise._util.errors import InputError, NodewiseError
from nodewise._version import __version__
from nodewise.batch.opened import open_model, resolve_source
from nodewise.datasets import load
from nodewise.serve.answers import Answers, UnknownNodeError
from nodewise.serve.batching import Batcher, QueueFullError
from nodewise.serve.guards import HERE, Guard, Metrics
from nodewise.serve.questions import (
    About,
    ExplainQuestion,
    NewQuestion,
    NodeList,
    Predictions,
    PredictQuestion,
    Problem,
)

SETTINGS = "NODEWISE_SERVE"  # prefix of the variables by which workers learn what to serve
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in {
        403: "Another host or origin",
        404: "No such node",
        413: "Too large a body",
        422: "A question that makes no sense",
        503: "Too many questions; see Retry-After",
    }.items()
}
CONTENT_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def make_app(answers: Answers, hosts: Sequence[str] = HERE) -> FastAPI:
    """The application that answers with these."""
    app = FastAPI(title="nodewise", version=__version__, docs_url=None, redoc_url=None, responses=PROBLEMS)
    metrics = Metrics()
    batcher = Batcher(answers.probabilities, metrics.note_batch)
    metrics.waiting.set_function(lambda: batcher.waiting)
    app.state.batcher = batcher

    @app.exception_handler(UnknownNodeError)
    async def unknown(_: Request, error: UnknownNodeError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 404)

    @app.exception_handler(NodewiseError)
    async def wrong(_: Request, error: NodewiseError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # without the input, which may be anything
        where = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"detail": f"{where}: {first['msg']}" if where else first["msg"]}, 422)

    @app.exception_handler(QueueFullError)
    async def full(_: Request, error: QueueFullError) -> JSONResponse:
        return JSONResponse({"detail": "too many questions are waiting; ask again"}, 503, {"Retry-After": "1"})

    @app.post("/predict")
    async def predict(question: PredictQuestion) -> Predictions:
        """Labels and probabilities of nodes of the graph."""
        if question.coverage is not None:
            answers.model.set_threshold(question.coverage)  # raises before the work
        nodes = [answers.node(node) for node in question.nodes]
        found = await batcher.ask(nodes)
        how = question.top, question.coverage
        return Predictions(
            predictions=[answers.prediction(node, proba, *how) for node, proba in zip(nodes, found, strict=True)]
        )

    @app.post("/predict-new")
    async def predict_new(question: NewQuestion) -> Predictions:
        """Labels of nodes that are not in the graph, by their features and their neighbours in it."""
        return Predictions(predictions=await batcher.run(answers.predict_new, question.nodes, question.top))

    @app.post("/explain")
    async def explain(question: ExplainQuestion) -> dict[str, Any]:
        """Why a node gets its label: neighbours, features, and what would have to go for another label."""
        return dict(await batcher.run(answers.explain, question.node, question.class_, question.top))

    @app.get("/nodes")
    async def nodes(
        prefix: Annotated[str, Query(max_length=200)] = "", limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> NodeList:
        """Names of nodes that begin with a prefix."""
        return NodeList(nodes=await batcher.run(answers.completions, prefix, limit))

    @app.get("/about")
    async def about() -> About:
        """The graph and the model."""
        return answers.about()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Whether this worker answers."""
        return {"status": "ok"}

    @app.get("/metrics", response_class=Response)
    async def measured() -> Response:
        """Metrics of this worker, as Prometheus reads them."""
        return Response(generate_latest(metrics.registry), media_type="text/plain; version=0.0.4")

    for path, file, kind in PAGES:
        app.add_api_route(path, _page(file, kind), include_in_schema=False, response_class=Response)
    paths = [getattr(route, "path", "") for route in app.routes]
    app.add_middleware(Guard, hosts=hosts, metrics=metrics, paths=paths)
    return app


SCRIPTS = ("page", "picture", "completion", "elements", "docs")
PAGES = (
    ("/", "page.html", "text/html"),
    ("/page.css", "page.css", "text/css"),
    ("/docs", "docs.html", "text/html"),
    *((f"/{name}.js", f"{name}.js", "text/javascript") for name in SCRIPTS),
)


def _page(file: str, kind: str) -> Any:
    content = files(__package__).joinpath(file).read_bytes()
    headers = {"content-security-policy": CONTENT_POLICY, "x-content-type-options": "nosniff"}

    async def page() -> Response:
        return Response(content, media_type=kind, headers=headers)

    return page


def from_environment() -> FastAPI:
    """The application that the environment describes: each worker of a server makes its own."""
    settings = {name: os.environ.get(f"{SETTINGS}_{name.upper()}") for name in ("model", "source", "data", "epsilon")}
    threads = int(os.environ.get(f"{SETTINGS}_THREADS", "1"))
    hosts = os.environ.get(f"{SETTINGS}_HOSTS", ",".join(HERE)).split(",")
    model, graph = open_model(str(settings["model"])), load(str(settings["source"]), settings["data"])
    epsilon = None if not settings["epsilon"] else float(settings["epsilon"])
    return make_app(Answers(model, graph, threads, epsilon), hosts)


def _check_address(host: str, port: int) -> None:
    """Raise unless a server can listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
    except OSError as error:
        raise InputError(
            f"{host}:{port}: cannot listen there ({error.strerror}); choose another --port or --host"
        ) from error


def serve(
    model: str | Path,
    source: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    threads: int | None = None,
    epsilon: float | None = None,
    allow_hosts: Sequence[str] = (),
    data_dir: str | Path | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve ``model`` on the graph at ``source`` until a signal ends it; what was accepted is answered first.

    ``ready`` is called when model and graph are loaded, and the server is about to listen.
    """
    import uvicorn
    from uvicorn.supervisors import Multiprocess

    from nodewise._util.threads import thread_count

    _check_address(host, port)
    place, folder = resolve_source(source, data_dir)
    answers = Answers(open_model(os.path.abspath(model)), load(place, folder))  # says what is wrong, if anything
    answers.probabilities([0])  # compiles the kernels before the workers start
    each = max(1, thread_count(threads) // workers)
    settings = {"model": os.path.abspath(model), "source": place, "data": folder, "threads": each, "epsilon": epsilon}
    settings["hosts"] = ",".join([*HERE, host, *allow_hosts])
    for name, value in settings.items():
        if value is not None:
            os.environ[f"{SETTINGS}_{name.upper()}"] = str(value)
    del answers
    ready()
    config = uvicorn.Config(
        "nodewise.serve.app:from_environment", factory=True, host=host, port=port, workers=workers, log_level="warning",
        timeout_graceful_shutdown=30, limit_concurrency=2000, h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    listener = config.bind_socket()
    # Connections inherit this: without it each answer, sent in two parts, waits 40 ms for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if workers == 1:
        uvicorn.Server(config).run(sockets=[listener])
    else:
        Multiprocess(config, [listener]).run()
