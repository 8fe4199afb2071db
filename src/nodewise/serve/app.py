"""The application: a model and a graph behind FastAPI."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import generate_latest

from nodewise._util.errors import NodewiseError, StoreError
from nodewise._version import __version__
from nodewise.serve.answers import Answers, UnknownNodeError
from nodewise.serve.batching import Batcher, QueueFullError
from nodewise.serve.guards import HERE, Guard, Metrics, problem
from nodewise.serve.questions import (
    About,
    ExplainQuestion,
    NewQuestion,
    NodeList,
    Predictions,
    PredictQuestion,
    Problem,
)

PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": text}
    for code, text in {
        400: "Not a request, or not JSON",
        403: "Another host or origin",
        404: "No such node",
        408: "A request that did not arrive in time",
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
    names = Batcher(answers.places)  # a look through all names takes a while: one for all that ask
    _explain_errors(app)

    async def known(nodes: Sequence[int | str]) -> list[int]:
        """The ids of nodes; raises UnknownNodeError."""
        named = answers.names is not None and any(isinstance(node, str) for node in nodes)
        found = await names.ask(nodes) if named else answers.places(nodes)
        if -1 in found:
            raise await batcher.run(answers.unknown, nodes[found.index(-1)])
        return found

    @app.post("/predict")
    async def predict(question: PredictQuestion) -> Predictions:
        """Labels and probabilities of nodes of the graph."""
        if question.coverage is not None:
            answers.model.set_threshold(question.coverage)  # raises before the work
        nodes = await known(question.nodes)
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


def _explain_errors(app: FastAPI) -> None:
    """Answer errors with a status and one sentence."""

    def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
        return Response(problem(detail), status, headers, "application/json")

    @app.exception_handler(NodewiseError)
    async def wrong(_: Request, error: NodewiseError) -> Response:
        return answer(404 if isinstance(error, UnknownNodeError) else 422, str(error))

    @app.exception_handler(StoreError)
    async def unreadable(_: Request, error: StoreError) -> Response:
        logging.getLogger("nodewise").error("%s", error)  # its paths are nobody else's business
        return answer(503, "the server cannot read its graph or model; its log says why", {"Retry-After": "60"})

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]  # without the input, which may be anything
        where = ".".join(str(part) for part in first["loc"][1:] if str(part).isalnum())  # and no names of types
        return answer(422, f"{where}: {first['msg']}" if where else first["msg"])

    @app.exception_handler(QueueFullError)
    async def full(_: Request, error: QueueFullError) -> Response:
        return answer(503, "too many questions are waiting; ask again", {"Retry-After": "1"})


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
