"""Error answers: one JSON object that names the field, without a trace or a secret."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from litestar.exceptions import HTTPException, SerializationException

from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    Refused,
    Throttled,
    Unavailable,
)
from bullpen.model.worker import Code, Rejected
from bullpen.schema.error import ErrorAnswer, ErrorCode
from bullpen.schema.remedies import ANOTHER_STATE, DESCRIBED, UNKNOWN_ID, over_http

CODES = {
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
    409: ErrorCode.CONFLICT,
    410: ErrorCode.GONE,
    413: ErrorCode.TOO_LARGE,
    422: ErrorCode.IDEMPOTENCY_MISMATCH,
    429: ErrorCode.TOO_BUSY,
    431: ErrorCode.TOO_LARGE,
    503: ErrorCode.UNAVAILABLE,
}
"""By status; any other one below 500 is an invalid request, and any above an internal error."""
RENAMED = {"timeout": "timeoutSeconds"}  # of a job: in JSON a number names its unit
STATUS = {Code.MISMATCH: 409, Code.CLEANED_UP: 410, Code.RETIRED: 410, Code.UNKNOWN: 404}
REMEDY = {  # of a beat
    Code.MISMATCH: "Send the beat again with this token.",
    Code.CLEANED_UP: "Take a new key and begin with token 0.",
    Code.RETIRED: "Stop: its instance is being ended.",
    Code.UNKNOWN: "Take a new key and begin with token 0.",
}
REMEDIES = {  # of a request that does not get as far as the pool
    ErrorCode.INVALID_REQUEST: DESCRIBED,
    ErrorCode.UNAUTHENTICATED: "Send a valid token in the header `Authorization: Bearer TOKEN`.",
    ErrorCode.FORBIDDEN: "Use a token whose scope or run allows it.",
    ErrorCode.NOT_FOUND: UNKNOWN_ID,
    ErrorCode.NO_SUCH_ENDPOINT: "Correct the path: GET /v1/openapi.json lists the endpoints.",
    ErrorCode.METHOD_NOT_ALLOWED: "Use a method that the header `Allow` names.",
    ErrorCode.CONFLICT: ANOTHER_STATE,
    ErrorCode.TOO_LARGE: "Send less in one request.",
    ErrorCode.TOO_BUSY: "Try again after the seconds in the header `Retry-After`.",
    ErrorCode.UNAVAILABLE: "Try again after the seconds in the header `Retry-After`.",
    ErrorCode.INTERNAL: "See the log of the server.",
}
ONE_OF = "one of "
SHOWN = 100  # characters of a caller's own value: enough to recognise it, too few to fill a log
LONGEST_MISSPELT = 64  # characters of a text whose near misses are looked for: the time grows with its length


class Problem(Exception):
    """An answer other than success; raise it anywhere in a request. Without a remedy it has the usual one of its
    code; with an empty one it has none."""

    def __init__(
        self,
        status: int,
        error: str,
        field: str = "",
        *,
        value: object = None,
        allowed: str = "",
        remedy: str | None = None,
        rejected: Rejected | None = None,
        headers: dict[str, str] | None = None,
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        code = code or CODES.get(status) or (ErrorCode.INVALID_REQUEST if status < 500 else ErrorCode.INTERNAL)
        self.answer = ErrorAnswer(
            code,
            error,
            field,
            shown(value),
            allowed,
            REMEDIES.get(code, "") if remedy is None else remedy,
            token=rejected.token if rejected else None,
            state=rejected.state if rejected else None,
        )


def bad_input(
    error: str, field: str = "", value: object = None, allowed: str = "", status: int = 400, remedy: str | None = None
) -> Problem:
    return Problem(status, error, field, value=value, allowed=allowed, remedy=remedy)


def too_large(largest: int) -> Problem:
    return bad_input("the body is too large", "body", allowed=f"at most {largest} bytes", status=413)


def too_busy(seconds: float) -> Problem:
    return Problem(
        429,
        "too many requests are being served",
        remedy=f"Try again in {seconds:g} s.",
        headers={"retry-after": f"{seconds:.0f}"},
    )


def key_mismatch(id: str, key: str, what: str) -> Problem:
    return Problem(
        422,
        f"Idempotency-Key: {id} was {what} with this key and another body",
        "Idempotency-Key",
        value=key,
        remedy="Send the same body again, or use a new key for another request.",
    )


def of_error(error: BullpenError) -> Problem:
    """The status that asks for the reaction which the error was raised for."""
    match error:
        case ConfigError(field=field):
            name = _on_the_wire(field)
            text = name + str(error).removeprefix(field) if str(error).startswith(field) else str(error)
            remedy = over_http(error.remedy) or meant(error.value, error.allowed)
            return Problem(400, text, name, value=error.value, allowed=error.allowed, remedy=remedy)
        case NotFound():
            return Problem(404, str(error), remedy=over_http(error.remedy) or None)
        case Throttled():
            return _later(error, max(1.0, error.retry_after))
        case Unavailable():
            return _later(error, 1.0)
        case PermissionDenied():
            return Problem(403, str(error), remedy=over_http(error.remedy) or None)
        case Conflict() | InvalidTransition() | Refused():
            return Problem(409, str(error), remedy=over_http(error.remedy) or None)
    return Problem(500, str(error), remedy=over_http(error.remedy) or None)


def meant(value: object, allowed: str) -> str | None:
    """A remedy with the one of the allowed values that looks like this one, if one does."""
    if not allowed.startswith(ONE_OF):
        return None
    near = nearest(shown(value, LONGEST_MISSPELT + 1).lower(), allowed.removeprefix(ONE_OF).split(", "))
    return f"Did you mean {near}?" if near else None


def nearest(text: str, known: Sequence[str]) -> str:
    """The one of the known texts that looks most like this one; empty if none does, or if this one is long."""
    near = get_close_matches(text, known, 1) if 0 < len(text) <= LONGEST_MISSPELT else []
    return near[0] if near else ""


def _later(error: BullpenError, seconds: float) -> Problem:
    remedy = over_http(error.remedy) or None
    return Problem(503, str(error), remedy=remedy, headers={"retry-after": f"{seconds:.0f}"})


def _on_the_wire(field: str) -> str:
    """What a field of a request is called in JSON: `resource-class`, or `resource_class`, is resourceClass."""
    head, *rest = re.split("[-_]", field)
    return RENAMED.get(field) or head + "".join(part.title() for part in rest)


def of_http(error: HTTPException) -> Problem:
    """A request that the router refused."""
    kinds = {404: "no such endpoint", 405: "the endpoint does not support this method", 413: "the body is too large"}
    text = kinds.get(
        error.status_code, "the request cannot be read" if error.status_code < 500 else "an internal error"
    )
    if isinstance(error.__cause__, SerializationException):
        text = f"the body is not JSON: {str(error.__cause__).lower()}"
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    field = "body" if error.status_code in (400, 413) else ""
    code = ErrorCode.NO_SUCH_ENDPOINT if error.status_code == 404 else None
    return Problem(error.status_code, text, field, headers=headers, code=code)


def of_rejection(rejected: Rejected, remedies: Mapping[Code, str] = REMEDY) -> Problem:
    """A worker's beat, or its stop, that was not applied."""
    code = rejected.code
    return Problem(STATUS[code], code.value, remedy=remedies[code], rejected=rejected)


def shown(value: object, most: int = SHOWN) -> str:
    """A caller's value as the answer shows it: printable, and of at most so many characters."""
    if value is None:
        return ""
    found = (value if isinstance(value, str) else str(value))[: most + 1]  # first: a body may be one long text
    text = "".join(char if char.isprintable() else "?" for char in found)
    return text if len(text) <= most else f"{text[: most - 1]}…"
