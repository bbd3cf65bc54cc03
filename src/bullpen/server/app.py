"""The application: heartbeats first, then the API. Every error is answered in the same shape."""

import errno
from functools import cache
from typing import Any

import msgspec
from litestar import Litestar, Response, get
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException
from litestar.response.base import ASGIResponse
from litestar.types import Scope
from litestar.utils.scope.state import ScopeState

from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.schema.error import ErrorAnswer
from bullpen.server.context import Asking, Context
from bullpen.server.exchange import VERSION
from bullpen.server.gate import LARGEST_BODY, RequestGate
from bullpen.server.head import head_of
from bullpen.server.heartbeats import BATCH, SINGLE, Heartbeats
from bullpen.server.metrics.exposition import Metrics
from bullpen.server.mistakes import of_decoding, of_validation
from bullpen.server.openapi import AGENTS_PATH, PATH, documents
from bullpen.server.parameters import parameter_problem
from bullpen.server.paths import routed, with_slashes
from bullpen.server.problems import Problem, of_error, of_http
from bullpen.server.routes import (
    agent_files,
    agents,
    control,
    dashboard,
    evidence,
    explain,
    github,
    health,
    heartbeats,
    history,
    jobs,
    metrics,
    operate,
    operations,
    pool,
    registration,
    runs,
    series,
    session,
    sources,
    tokens,
    workers,
)
from bullpen.server.shared_answers import SharedAnswers, date_header
from bullpen.structured_log import get_logger

BROWSER = frozenset((b"cookie", b"sec-fetch-site"))
OF_BROWSERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cache-control", b"no-store"),
]
"""Headers of what a browser gets: a log or an artifact is not a page, and stays in no cache."""

log = get_logger("bullpen.server")


class ServerApp:
    """An ASGI application."""

    def __init__(self, context: Context) -> None:
        self.heartbeats = Heartbeats(context.ports, context.settings)
        context.metrics = Metrics(context.ports, context.service, self.heartbeats, context.events.count)
        self.gate = RequestGate(context.doorkeeper, context.admission)
        self._context = context
        self._rest = SharedAnswers(_litestar())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            is_of_browser = any(name in BROWSER for name, _ in scope["headers"])
            send = _with_headers(send, [*OF_BROWSERS, date_header(self._context.ports.clock)] if is_of_browser else [])
            state = {**scope.get("state", {}), "context": self._context}
            if b"%" in (raw := scope.get("raw_path") or b""):
                scope["path"] = routed(raw)
            if "refused" in state:  # by the connection, because of what followed the headers: it is not carried out
                return
            if "speaker" not in state:  # else a connection of `protocol` has found the caller, before the body
                peer = scope.get("client")
                try:
                    head = head_of(scope["headers"])
                    head.method = scope["method"]
                    state["speaker"] = await self.gate.admit_unknown(scope["path"], head, peer[0] if peer else None)
                except Problem as problem:
                    content = msgspec.json.encode(problem.answer)
                    answer = ASGIResponse(body=content, status_code=problem.status, headers=problem.headers)
                    await answer(scope, receive, send)
                    return
                if "refused" in scope.get("state", {}):  # … while the tokens were read
                    return
            scope["state"] = state
            if scope["method"] == "POST" and scope["path"] in (SINGLE, BATCH):
                await self.heartbeats(scope, receive, send)
                return
        await self._rest(scope, receive, send)

    def adopt(self, settings: Settings) -> None:
        """Go by other `liveness.*`: between two callbacks of the loop, so that no request sees half of them."""
        self._context.settings = settings
        self._context.service.adopt(settings)
        self.heartbeats.adopt(settings)


def _with_headers(send: Any, others: list[tuple[bytes, bytes]]) -> Any:
    """With the version of the server, and those of the others that the answer does not have."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]} if others else ()
            message["headers"] = [*message["headers"], VERSION, *(one for one in others if one[0] not in own)]
        await send(message)

    return sent


@cache
def _litestar() -> Litestar:
    """The routes, which take a tenth of a second to make: the same for every application of a process. What differs
    comes with the requests."""
    of_pool = (pool, explain, evidence, operate, control, series, history)
    of_operators = (runs, operations, jobs, sources, *of_pool, workers)
    of_people = (session, health, metrics, dashboard)
    modules = (*of_operators, heartbeats, agents, agent_files, registration, github, tokens, *of_people)
    return Litestar(
        route_handlers=[*(module.ROUTER for module in modules), openapi, openapi_of_agents],
        dependencies={"context": Provide(_context, sync_to_thread=False)},
        middleware=[with_slashes],
        exception_handlers={Exception: _failed},
        openapi_config=None,
        request_max_body_size=LARGEST_BODY,
        logging_config=None,
    )


@get(PATH, include_in_schema=False, sync_to_thread=False)
def openapi(request: Asking) -> Response[bytes]:
    return Response(documents(request.app)[PATH], media_type="application/json")


@get(AGENTS_PATH, include_in_schema=False, sync_to_thread=False)
def openapi_of_agents(request: Asking) -> Response[bytes]:
    return Response(documents(request.app)[AGENTS_PATH], media_type="application/json")


def _context(scope: Scope) -> Any:
    return scope["state"]["context"]


def _failed(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    problem = _problem(request, error)
    return Response(problem.answer, status_code=problem.status, headers=problem.headers)


def _problem(request: Asking, error: Exception) -> Problem:
    asked: dict[str, Any] = {"method": request.method, "path": request.url.path}
    match error:
        case Problem():
            return error
        case BullpenError():
            return of_error(error)
        case ValidationException():
            data = request.route_handler.parsed_fn_signature.parameters.get("data")
            body = ScopeState.from_scope(request.scope).body
            return of_validation(
                error,
                lambda name, is_missing: parameter_problem(request, name, is_missing),
                data.annotation if data else None,
                body if isinstance(body, bytes) else b"",
            )
        case HTTPException():
            return of_http(error)
        case RecursionError():
            return of_decoding(error)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):  # neither the caller's fault nor a defect: a retry may help
            log.error("request failed", **asked, error=error)
            remedy = "Free space there, then try again; releases still work."
            return Problem(503, "the disk of the server is full", remedy=remedy, headers={"retry-after": "10"})
    # The reason goes to the log; the caller gets none of it.
    log.error("request failed unexpectedly", **asked, exc_info=error)
    return Problem(500, "an unexpected error; see the log of the server")
