"""The OpenAPI documents, made once from the routes of the application."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg, PathParameter, QueryParameter
from litestar.response import Stream
from litestar.routes import HTTPRoute
from litestar.types import Empty

from bullpen import __version__
from bullpen.lazy_dataclass import dataclass
from bullpen.schema.error import ErrorAnswer, ErrorCode
from bullpen.server.openapi.components import schemas_of
from bullpen.server.openapi.examples import EXAMPLES
from bullpen.server.openapi.examples.pool import STREAM
from bullpen.server.openapi.examples.subjects import Example
from bullpen.server.parameters import KEY
from bullpen.server.problems import CODES

PATH, AGENTS_PATH = "/v1/openapi.json", "/v1/openapi-agents.json"
AGENTS = "agents"
TITLE = "Bullpen"
ABOUT = (
    "`bullpen serve` keeps CI runners warm: it provisions runners for a run, runs jobs on them, and takes them back."
    " Every error is one JSON object with a stable `code`. Lists come in pages: `after` is the `next` of the last one."
    " An operator's token opens everything that its scope includes; a workflow run's token opens its own run."
)
ABOUT_AGENTS = "The endpoints of Bullpen's own agents. They change with every release: call none of them."
TAGS = {
    "runs": "Runs: their runners are provisioned and released by operations that are begun here.",
    "operations": "Operations: provisions and releases under way, and how they ended.",
    "jobs": "Jobs: commands that the runners of a run execute.",
    "sources": "The files that jobs work on, and the files that they leave.",
    "pool": "The pool: its instances, its numbers, and what happened to its records.",
    "history": "What machines cost and whose it was, and what was done and why.",
    "operate": "Orders of operators: pause, resume, drain and rotate.",
    "waits": "Waits: why something waits, what a provision would do, and how long others have waited.",
    "workers": "Workers: processes with a lease, which they renew by heartbeats.",
    "heartbeats": "Heartbeats: how workers renew their leases.",
    "session": "The session of a browser at the dashboard, which stands for an operator's token.",
    "events": "What happens in the pool, as it happens.",
    "github": "For GitHub's webhooks.",
    "health": "For load balancers and supervisors.",
    "metrics": "For Prometheus, and what else reads its text format.",
    AGENTS: "Endpoints of Bullpen's own agents. Each needs the token of the instance that its path names.",
}
LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
}
ERRORS = {
    400: "The request is wrong; `field` names the part.",
    401: "A token is needed, or the one that was sent is wrong, expired or revoked.",
    403: "The token does not allow it.",
    404: "It does not exist.",
    408: "The request took too long to arrive.",
    409: "The current state does not allow it, or another caller was faster.",
    410: "The worker's key is over: take a new one.",
    413: "The body is too large.",
    422: "The Idempotency-Key was used for a request with another body.",
    429: "Too many requests are being served: try again after `Retry-After` seconds.",
    431: "The headers are too large.",
    500: "The server failed; its log says why.",
    503: "The store or a service does not answer: try again after `Retry-After` seconds.",
}
GONE = ("recordHeartbeat", "stopWorker")
"""Operations that answer 410. Those with an Idempotency-Key answer 422, and the others neither."""
OF_CONNECTIONS = (400, 408, 413, 431, 500)
"""Errors that a server answers whatever it is asked."""
OWN_NAMES = {408: "RequestTimeout", 431: "HeadersTooLarge"}
"""Of errors that share their code with another status."""
DONE = {200: "Done.", 201: "It is created.", 202: "It is accepted, and goes on after this answer."}


@dataclass(frozen=True, slots=True)
class Endpoint:
    path: str
    method: str
    handler: HTTPRouteHandler

    @property
    def id(self) -> str:
        """The name of the function, as programs in other languages write names."""
        return camel(self.handler.handler_name)

    @property
    def tag(self) -> str:
        return sorted(self.handler.resolve_tags())[0]  # each has one

    @property
    def body(self) -> Any:
        field = self.handler.parsed_fn_signature.parameters.get("data")
        return field.annotation if field else None

    @property
    def answer(self) -> Any:
        found = self.handler.parsed_return_field.annotation
        return get_args(found)[0] if get_origin(found) is Response else found


@cache
def documents(app: Litestar) -> dict[str, bytes]:
    """Both documents by their paths, as they are sent. Made when the first client asks: a server starts without."""
    found = sorted(endpoints(app), key=lambda one: [*TAGS, one.tag].index(one.tag))
    public = [one for one in found if one.tag != AGENTS]
    agents = [one for one in found if one.tag == AGENTS]
    return {
        PATH: msgspec.json.encode(_document(TITLE, ABOUT, public)),
        AGENTS_PATH: msgspec.json.encode(_document(f"{TITLE} agents", ABOUT_AGENTS, agents)),
    }


def endpoints(app: Litestar) -> Iterator[Endpoint]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if handler.resolve_include_in_schema():
                    path = re.sub(r"{(\w+):\w+}", lambda part: f"{{{camel(part[1])}}}", route.path)
                    for method in sorted(handler.http_methods - {"OPTIONS"}):
                        yield Endpoint(path, method.lower(), handler)


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda part: part[1].upper(), name)


def _document(title: str, about: str, found: list[Endpoint]) -> dict[str, Any]:
    bodies = [one.body for one in found if one.body is not None]
    answers = [one.answer for one in found if _is_json(one.answer)]
    parameters = [_bare(field) for one in found for field in _parameters(one)]
    types = [*bodies, *answers, *parameters, ErrorAnswer]
    schemas, components = schemas_of(types, bodies)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in found:
        paths.setdefault(one.path, {})[one.method] = _operation(one, schema_of)
    used = {one.tag for one in found}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": __version__,
            "summary": "Keeps CI runners warm.",
            "description": about,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "contact": {"name": "The Bullpen authors", "url": "https://github.com/OWNER/bullpen"},
        },
        "servers": [{"url": "http://127.0.0.1:8420", "description": "`bullpen serve` with its default host and port."}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {_error_name(status): _error(status, text) for status, text in _errors_of(found).items()},
            "headers": {
                "BullpenVersion": {"description": "Version of the server.", "schema": {"type": "string"}},
                "RetryAfter": {
                    "description": "Seconds after which to try again.",
                    "schema": {"type": "integer", "minimum": 0},
                },
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `bullpen token create`, of a workflow run, or of an agent.",
                }
            },
        },
    }


def _errors_of(found: list[Endpoint]) -> dict[int, str]:
    answered = {status for one in found for status in _errors(one)}
    return {status: text for status, text in ERRORS.items() if status in answered}


def _operation(one: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    handler, example = one.handler, EXAMPLES.get(one.id, Example())
    description: dict[str, Any] = {
        "operationId": one.id,
        "summary": handler.summary,
        "description": " ".join((handler.fn.__doc__ or "").split()),
        "tags": [one.tag],
    }
    if handler.security is not None or one.tag == "health":
        description["security"] = []
    if parameters := [_parameter(field, schema_of) for field in _parameters(one)]:
        description["parameters"] = parameters
    if one.body is not None:
        content = {"schema": schema_of[one.body], "example": msgspec.to_builtins(example.request)}
        description["requestBody"] = {"required": True, "content": {"application/json": content}}
    elif handler.opt.get("body"):  # read as it comes
        content = {"schema": {"type": "string", "description": "Bytes, as they come."}, "example": example.request}
        description["requestBody"] = {"required": True, "content": {handler.opt["body"]: content}}
    headers = {"bullpen-version": {"$ref": "#/components/headers/BullpenVersion"}, **handler.opt.get("headers", {})}
    if _is_json(one.answer):
        content = {"schema": schema_of[one.answer], "example": msgspec.to_builtins(example.answer)}
        answer = {"application/json": content}
    elif handler.opt.get("answer"):  # bytes
        content = {"schema": {"type": "string", "description": "Bytes, as they come."}, "example": example.answer}
        answer = {handler.opt["answer"]: content}
    elif one.answer is Stream:
        answer = {"text/event-stream": {"schema": {"type": "string"}, "example": STREAM}}
    else:
        answer = {"text/plain": {"schema": {"type": "string"}, "example": example.answer}}
    text = handler.response_description if isinstance(handler.response_description, str) else DONE[handler.status_code]
    responses: dict[str, Any] = {str(handler.status_code): {"description": text, "headers": headers, "content": answer}}
    for status, spec in (handler.responses or {}).items():  # an answer of its own for an error
        content = {"schema": schema_of[spec.data_container], "example": msgspec.to_builtins(example.refusal)}
        responses[str(status)] = {
            "description": spec.description,
            "headers": headers,
            "content": {"application/json": content},
        }
    for status in _errors(one):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/{_error_name(status)}"})
    return {**description, "responses": dict(sorted(responses.items()))}


def _errors(one: Endpoint) -> list[int]:
    if one.tag == "health":
        return list(OF_CONNECTIONS)
    has_key = any(field.kwarg_definition.name == KEY for field in _parameters(one))
    rare = {410: one.id in GONE, 422: has_key}
    return [status for status in ERRORS if rare.get(status, True)]


def _is_json(answer: Any) -> bool:
    return answer not in (bytes, Stream)


# ---- parameters


def _parameters(one: Endpoint) -> list[Any]:
    kinds = (QueryParameter, HeaderParameter, PathParameter)
    fields = one.handler.parsed_fn_signature.parameters.values()
    return [field for field in fields if isinstance(field.kwarg_definition, kinds)]


def _bare(field: Any) -> Any:
    """The type of a parameter; one that may be left out has no other way to be null."""
    kinds = [one for one in get_args(field.annotation) if one is not type(None)]
    return kinds[0] if field.is_optional else field.annotation


def _parameter(field: Any, schema_of: dict[Any, Any]) -> dict[str, Any]:
    definition: ParameterKwarg = field.kwarg_definition
    schema = dict(schema_of[_bare(field)])
    for name, key in LIMITS.items():
        if (limit := getattr(definition, name)) is not None:
            schema[key] = limit
    is_required = field.default is Empty
    if not is_required and field.default is not None:
        schema["default"] = field.default
    return {
        "name": definition.name or camel(field.name),
        "in": definition.param_type.value,
        "description": definition.description,
        "required": is_required,
        "schema": schema,
    }


# ---- errors


@cache
def _error_name(status: int) -> str:
    if status in OWN_NAMES:
        return OWN_NAMES[status]
    code = CODES.get(status, ErrorCode.INVALID_REQUEST)
    return "".join(part.title() for part in code.value.split("-"))


def _error(status: int, text: str) -> dict[str, Any]:
    headers = {"bullpen-version": {"$ref": "#/components/headers/BullpenVersion"}}
    if status in (429, 503):
        headers["retry-after"] = {"$ref": "#/components/headers/RetryAfter"}
    code = CODES.get(status, ErrorCode.INVALID_REQUEST)
    example = {
        "code": code.value,
        "error": text.rstrip(".").lower(),
        "remedy": "See the description of this endpoint.",
    }
    schema = {"$ref": "#/components/schemas/ErrorAnswer"}
    return {
        "description": text,
        "headers": headers,
        "content": {"application/json": {"schema": schema, "example": example}},
    }
