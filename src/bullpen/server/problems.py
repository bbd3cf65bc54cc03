"""Error answers: one JSON object that names the field, without a trace or a secret."""

import re
from collections.abc import Mapping

import msgspec
from litestar.exceptions import HTTPException, SerializationException, ValidationException

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
from bullpen.liveness.schema import located
from bullpen.model.worker import Code, Rejected
from bullpen.schema.error import ErrorAnswer

RENAMED = {"timeout": "timeoutSeconds"}  # of a job: in JSON a number names its unit
STATUS = {Code.MISMATCH: 409, Code.CLEANED_UP: 410, Code.RETIRED: 410, Code.UNKNOWN: 404}
REMEDY = {  # of a beat
    Code.MISMATCH: "Send the beat again with this token.",
    Code.CLEANED_UP: "Take a new key and begin with token 0.",
    Code.RETIRED: "Stop: its instance is being ended.",
    Code.UNKNOWN: "Take a new key and begin with token 0.",
}
SHOWN = 100  # characters of a caller's own value: enough to recognise it, too few to fill a log


class Problem(Exception):
    """An answer other than success; raise it anywhere in a request."""

    def __init__(self, status: int, answer: ErrorAnswer, headers: dict[str, str] | None = None) -> None:
        super().__init__(answer.error)
        self.status = status
        self.answer = answer
        self.headers = headers or {}


def bad_input(error: str, field: str = "", value: object = None, allowed: str = "", status: int = 400) -> Problem:
    return Problem(status, ErrorAnswer(error, field, shown(value), allowed))


def too_large(largest: int) -> Problem:
    return bad_input("the body is too large", "body", allowed=f"at most {largest} bytes", status=413)


def too_busy(seconds: float) -> Problem:
    answer = ErrorAnswer("too many requests are being served", remedy=f"Try again in {seconds:g} s.")
    return Problem(429, answer, {"retry-after": f"{seconds:.0f}"})


def of_error(error: BullpenError) -> Problem:
    """The status that asks for the reaction which the error was raised for."""
    answer = ErrorAnswer(str(error), remedy=error.remedy)
    match error:
        case ConfigError(field=field):
            name = _on_the_wire(field)
            text = name + str(error).removeprefix(field) if str(error).startswith(field) else str(error)
            return Problem(400, ErrorAnswer(text, name, remedy=error.remedy))
        case NotFound():
            return Problem(404, answer)
        case Throttled():
            return Problem(503, answer, {"retry-after": f"{max(1.0, error.retry_after):.0f}"})
        case Unavailable():
            return Problem(503, answer, {"retry-after": "1"})
        case PermissionDenied():
            return Problem(403, answer)
        case Conflict() | InvalidTransition() | Refused():
            return Problem(409, answer)
    return Problem(500, answer)


def _on_the_wire(field: str) -> str:
    """What a field of a request is called in JSON: `resource-class`, or `resource_class`, is resourceClass."""
    head, *rest = re.split("[-_]", field)
    return RENAMED.get(field) or head + "".join(part.title() for part in rest)


def of_decoding(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> Problem:
    """What msgspec finds wrong with a body. `located` finds the field in the text of the error, which has it nowhere
    else."""
    if isinstance(error, RecursionError):
        return bad_input("the body is nested too deeply", "body")
    if isinstance(error, msgspec.ValidationError):
        field, text = located(error)
        return bad_input(f"{field or 'body'}: {text}", field or "body")
    return bad_input(f"the body is not JSON: {str(error).lower()}", "body")


def of_validation(error: ValidationException) -> Problem:
    """What the router finds wrong with a body or a parameter. Its `key` is the parameter or the place in the body; that
    of a missing or unknown field is the whole body, and `located` finds the field."""
    if isinstance(error.__cause__, KeyError):  # a parameter that is missing
        field = str(error.__cause__.args[0])
        return bad_input(f"{field}: {error.detail[:1].lower()}{error.detail[1:]}", field)
    found = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    named, text = located(msgspec.ValidationError(str(found.get("message") or error.detail)))
    if text == str(KeyError("data")):  # how the router says that there is no body
        text = "expected 'object', got nothing"
    key = str(found.get("key") or "data")
    field = named or "body" if key == "data" else re.sub("_([a-z])", lambda part: part[1].upper(), key)
    return bad_input(f"{field}: {text}", field)


def of_http(error: HTTPException) -> Problem:
    """A request that the router refused."""
    kinds = {404: "no such endpoint", 405: "the endpoint does not support this method", 413: "the body is too large"}
    text = kinds.get(
        error.status_code, "the request cannot be read" if error.status_code < 500 else "an internal error"
    )
    if isinstance(error.__cause__, SerializationException):
        text = f"the body is not JSON: {str(error.__cause__).lower()}"
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return Problem(error.status_code, ErrorAnswer(text, "body" if error.status_code in (400, 413) else ""), headers)


def of_rejection(rejected: Rejected, remedies: Mapping[Code, str] = REMEDY) -> Problem:
    """A worker's beat, or its stop, that was not applied."""
    code = rejected.code
    answer = ErrorAnswer(code.value, remedy=remedies[code], token=rejected.token, state=rejected.state.value)
    return Problem(STATUS[code], answer)


def shown(value: object) -> str:
    """A caller's value as the answer shows it: short and printable."""
    if value is None:
        return ""
    text = "".join(char if char.isprintable() else "?" for char in str(value))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
