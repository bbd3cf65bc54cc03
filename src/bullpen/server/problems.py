"""Error answers: one JSON object that names the field, without a trace or a secret."""

from collections.abc import Mapping

import msgspec

from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    InvalidTransition,
    LimitReached,
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
        case ConfigError(field=field) if field:
            name = _on_the_wire(field)
            text = name + str(error).removeprefix(field) if str(error).startswith(field) else str(error)
            return Problem(400, ErrorAnswer(text, name, remedy=error.remedy))
        case ConfigError():
            return Problem(400, answer)
        case NotFound():
            return Problem(404, answer)
        case Conflict() | InvalidTransition():
            return Problem(409, answer)
        case Throttled():
            return Problem(503, answer, {"retry-after": f"{max(1.0, error.retry_after):.0f}"})
        case Unavailable():
            return Problem(503, answer, {"retry-after": "1"})
        case PermissionDenied():
            return Problem(403, answer)
        case LimitReached():
            return Problem(409, answer)
        case Refused():
            return Problem(409, answer)
    return Problem(500, answer)


def _on_the_wire(field: str) -> str:
    """What a field of a request is called in JSON: `resource-class` is resourceClass."""
    head, *rest = field.split("-")
    return RENAMED.get(field) or head + "".join(part.title() for part in rest)


def of_decoding(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> Problem:
    """What msgspec says of a body, with the field it says it of: `Expected `int`, got `str` - at `$.token``."""
    if isinstance(error, RecursionError):
        return bad_input("the body is nested too deeply", "body")
    if isinstance(error, msgspec.ValidationError):
        field, text = located(error)
        return bad_input(f"{field or 'body'}: {text}", field or "body")
    return bad_input(f"the body is not JSON: {str(error).lower()}", "body")


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
