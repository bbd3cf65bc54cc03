"""The application: heartbeats first, then the API. Every error is answered in the same shape."""

import errno
import re
from functools import cache
from typing import Any

import msgspec
from litestar import Litestar, Response
from litestar.di import Provide
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import Scope

from bullpen import __version__
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.schema.error import ErrorAnswer
from bullpen.server.context import Asking, Context
from bullpen.server.gate import LARGEST_BODY, RequestGate, head_of
from bullpen.server.heartbeats import BATCH, SINGLE, Heartbeats
from bullpen.server.problems import Problem, of_error
from bullpen.server.routes import (
    agents,
    github,
    health,
    heartbeats,
    identity,
    jobs,
    oidc,
    pool,
    registration,
    runs,
    workers,
)
from bullpen.structured_log import get_logger

log = get_logger("bullpen.server")


class ServerApp:
    """An ASGI application."""

    def __init__(self, context: Context) -> None:
        self.heartbeats = Heartbeats(context.ports, context.settings)
        self.gate = RequestGate(context.doorkeeper)
        self._context = context
        self._own = {"context": context, "polls": agents.Polls(), "deliveries": github.Deliveries()}
        self._rest = _litestar()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            state = {**scope.get("state", {}), **self._own}
            if "refused" in state:  # by the connection, because of what followed the headers: it is not carried out
                return
            if "speaker" not in state:  # our own connections have asked already, before they read any of the body
                peer = scope.get("client")
                try:
                    head = head_of(scope["headers"])
                    state["speaker"] = self.gate.admit(scope["path"], head, peer[0] if peer else None)
                except Problem as problem:
                    await _answer(problem, send)
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

    def description(self) -> dict[str, Any]:
        """The API in the words of OpenAPI."""
        return self._rest.openapi_schema.to_schema()


async def _answer(problem: Problem, send: Any) -> None:
    """A problem found before any routing."""
    content = msgspec.json.encode(problem.answer)
    headers = {"content-type": "application/json", "content-length": str(len(content))} | problem.headers
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})


@cache
def _litestar() -> Litestar:
    """The routes, which take a tenth of a second to make: the same for every application of a process. What differs
    comes with the requests."""
    described = OpenAPIConfig(
        title="Bullpen",
        version=__version__,
        description="Keeps CI runners warm. Agents' endpoints need the instance's own token, all others an operator's;"
        " those of a run also take the token of that run.",
        path="/v1",
        security=[{"token": []}],
        components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
    )
    modules = (heartbeats, jobs, pool, workers, runs, agents, registration, identity, github, oidc, health)
    return Litestar(
        route_handlers=[handler for module in modules for handler in module.HANDLERS],
        dependencies={
            "context": Provide(_context, sync_to_thread=False),
            "polls": Provide(_polls, sync_to_thread=False),
            "deliveries": Provide(_deliveries, sync_to_thread=False),
        },
        exception_handlers={
            Problem: _problem,
            BullpenError: _bullpen_error,
            ValidationException: _invalid,
            HTTPException: _refused,
            RecursionError: _too_deep,
            OSError: _system,
            Exception: _unexpected,
        },
        openapi_config=described,
        request_max_body_size=LARGEST_BODY,
        logging_config=None,
    )


def _context(scope: Scope) -> Any:
    return scope["state"]["context"]


def _polls(scope: Scope) -> Any:
    return scope["state"]["polls"]


def _deliveries(scope: Scope) -> Any:
    return scope["state"]["deliveries"]


def _problem(request: Asking, problem: Exception) -> Response[ErrorAnswer]:
    assert isinstance(problem, Problem)
    return Response(problem.answer, status_code=problem.status, headers=problem.headers)


def _bullpen_error(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    assert isinstance(error, BullpenError)
    return _problem(request, of_error(error))


def _invalid(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    """What the router found wrong with a body or a parameter, by name."""
    assert isinstance(error, ValidationException)
    found = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    text = str(found.get("message") or error.detail)
    field = _field(str(found.get("key") or ""), text)
    answer = ErrorAnswer(f"{field}: {text[:1].lower()}{text[1:]}".replace("`", "'"), field=field)
    return Response(answer, status_code=400)


def _field(key: str, text: str) -> str:
    """The field as it stands on the wire: what the message names where the router only says that it is the body's."""
    if key in ("", "data"):
        named = re.search(r"(?:field|parameter) [`']([^`']+)[`']", text)
        return named[1] if named else "body"
    head, *rest = key.split("_")
    return head + "".join(part.title() for part in rest)


def _too_deep(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    return Response(ErrorAnswer("the body is nested too deeply", field="body"), status_code=400)


def _refused(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    assert isinstance(error, HTTPException)
    kinds = {404: "no such endpoint", 405: "the endpoint does not support this method", 413: "the body is too large"}
    text = kinds.get(
        error.status_code, "the request cannot be read" if error.status_code < 500 else "an internal error"
    )
    if isinstance(error.__cause__, msgspec.DecodeError):
        text = f"the body is not JSON: {str(error.__cause__).lower()}"
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    field = "body" if error.status_code in (400, 413) else ""
    return Response(ErrorAnswer(text, field=field), status_code=error.status_code, headers=headers)


def _system(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    """A full disk is neither the caller's fault nor a defect, and a retry may help."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return _unexpected(request, error)
    log.error("request failed", method=request.method, path=request.url.path, error=error)
    answer = ErrorAnswer(
        "the disk of the server is full", remedy="Free space there, then try again; releases still work."
    )
    return _problem(request, Problem(503, answer, {"retry-after": "10"}))


def _unexpected(request: Asking, error: Exception) -> Response[ErrorAnswer]:
    """The reason goes to the log; the caller gets none of it."""
    log.error("request failed unexpectedly", method=request.method, path=request.url.path, exc_info=error)
    return Response(ErrorAnswer("an unexpected error; see the log of the server"), status_code=500)
