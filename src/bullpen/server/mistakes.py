"""What is wrong with a body or a parameter, in the words of the API: the field, the value as it was sent, what is
allowed, and what was probably meant.

msgspec and litestar say it in the words of their types. Only the place of the mistake, and whether a field is missing
or unknown, is taken from their texts; what is allowed follows from the type, whose limits are in `model.limits`.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, get_args

import msgspec
from litestar.exceptions import ValidationException
from msgspec import inspect

from bullpen.liveness.schema import BadText, located
from bullpen.model import limits
from bullpen.schema.requests import RunId
from bullpen.schema.sources import Sha256
from bullpen.server.problems import LONGEST_MISSPELT, ONE_OF, Problem, bad_input, meant, nearest, shown

SECRETS = frozenset({"token", "authorization", "sessionToken"})
"""Fields whose texts no answer repeats, however they are spelled."""
FOLDED_SECRETS = sorted(name.lower() for name in SECRETS)
PATTERNS = {
    limits.whole(limits.TRUST_DOMAIN): limits.TRUST_DOMAIN_ALLOWED,
    limits.whole(limits.TYPE_PATTERN): limits.TYPE_PATTERN_ALLOWED,
    limits.whole(f"({limits.REPOSITORY})?"): "OWNER/NAME, as GitHub calls it, or empty",
    r"^[0-9A-Za-z-]*\Z": f"up to {limits.ROUND_LENGTH} letters, digits and dashes",
    get_args(RunId)[1].pattern: limits.run_id_allowed(),
    get_args(Sha256)[1].pattern: "64 hexadecimal digits in lower case",
}
NO_FIELD, UNKNOWN = "object missing required field", "object contains unknown field"
NUMBERS: dict[type[inspect.Type], str] = {inspect.IntType: "a whole number", inspect.FloatType: "a number"}
CONTAINERS = {list: "a list", dict: "an object", type(None): "null"}
MOST_VALUES = 20  # that a message names
ANY_ENTRY = "[...]"  # in a path of msgspec: one of the values of an object, which one it does not say
STEP = re.compile(r"\[\.\.\.\]|[^.\[\]]+")
NAME_IN = "key` in `$."  # begins a path of msgspec: of a name in an object


class _UnknownValue:
    """Stands for a value that cannot be told from the body, or that no answer repeats."""


UNKNOWN_VALUE: Final = _UnknownValue()


def of_decoding(
    error: msgspec.DecodeError | UnicodeDecodeError | RecursionError, kind: Any = None, body: bytes = b""
) -> Problem:
    """A body that cannot be decoded as a `kind`."""
    if isinstance(error, RecursionError):
        return bad_input("the body is nested too deeply", "body")
    if isinstance(error, msgspec.ValidationError):
        return mistake(error, kind, body)
    return bad_input(f"the body is not JSON: {str(error).lower()}", "body")


def of_validation(
    error: ValidationException, parameter: Callable[[str, bool], Problem | None], kind: Any, body: bytes
) -> Problem:
    """What the router finds wrong with a body of this kind, or with a parameter. `parameter` has what is wrong with the
    parameter of a name, which may be missing; nothing if there is no such one."""
    if isinstance(error.__cause__, KeyError):
        name = str(error.__cause__.args[0])
        return parameter(name, True) or bad_input(f"{name}: is missing", name)
    found = error.extra[0] if isinstance(error.extra, list) and error.extra else {}
    if problem := parameter(str(found.get("key")), False):
        return problem
    if isinstance(error.__cause__, msgspec.ValidationError):
        return mistake(error.__cause__, kind, body, root="data")
    return bad_input(f"body: {str(found.get('message') or error.detail).lower()}", "body")


def mistake(error: msgspec.ValidationError, kind: Any = None, body: bytes = b"", root: str = "") -> Problem:
    """A body that is no `kind`. `root` is what the decoder calls the whole body."""
    path, text = located(error)
    if root and not isinstance(error.__cause__, BadText):
        path = re.sub(rf"^{root}\.?", "", path)
    if not body.strip():
        allowed = allowed_at(kind, "") or "JSON"
        return bad_input(f"body: is missing: must be {allowed}", "body", allowed=allowed)
    if isinstance(error.__cause__, BadText):
        allowed = text.partition(" must ")[2].removeprefix("be ")
        return bad_input(f"{path}: {text}", path, _single(_given(body, path)), allowed)
    if text.startswith((NO_FIELD, UNKNOWN)):
        name = text.rpartition(" '")[2].rstrip("'")
        parent = "" if path == name else path
        field = f"{parent}.{name}".removeprefix(".")
        if text.startswith(NO_FIELD):
            allowed = allowed_at(kind, field)
            return bad_input(f"{field}: is missing{_must_be(allowed)}", field, allowed=allowed)
        return unknown(field, name, fields_at(kind, parent), _entry(_given(body, parent), name), "field")
    if path.startswith(NAME_IN):
        path = path.removeprefix(NAME_IN)
        allowed = _allowed_names(kind, path)
        return bad_input(f"{shown(path)}: each name must be {allowed}", shown(path), allowed=allowed)
    allowed = allowed_at(kind, path)
    value = _given(body, path)
    if type(value) not in CONTAINERS and _may_be_secret(kind, path):
        value = UNKNOWN_VALUE
    if not allowed:
        field = shown(path) or "body"
        return bad_input(f"{field}: {shown(text)}", field, _single(value))
    return wrong(path or "body", value, allowed)


def wrong(field: str, value: object, allowed: str) -> Problem:
    """A value that is not allowed."""
    if (kind := CONTAINERS.get(type(value))) is not None:
        is_of_kind = any(one.startswith(kind) for one in allowed.split(" or "))  # only too long or too short
        but = "" if is_of_kind else f", not {kind}"
        return bad_input(f"{field}: must be {allowed}{but}", field, allowed=allowed)
    is_number = isinstance(value, int | float) and allowed.startswith(tuple(NUMBERS.values()))
    if value is UNKNOWN_VALUE or (field.rpartition(".")[2] in SECRETS and not is_number):
        return bad_input(f"{field}: must be {allowed}", field, allowed=allowed)
    if isinstance(value, bool):
        value = str(value).lower()
    found = repr(shown(value)) if isinstance(value, str) else shown(value)
    return bad_input(f"{field} {found}: must be {allowed}", field, value, allowed, remedy=meant(value, allowed))


def unknown(field: str, name: str, known: list[str], value: object, what: str) -> Problem:
    """A field or a parameter that there is not."""
    near = nearest(name, known) or _with_part(name, known)
    is_secret = not SECRETS.isdisjoint(known) or _looks_secret(name)
    return bad_input(
        f"{shown(field)}: no such {what}",
        shown(field),
        None if is_secret else _single(value),
        f"one of {', '.join(known)}" if known else f"no {what}s",
        remedy=f"Did you mean {near}?" if near else "Leave it out.",
    )


def _with_part(name: str, known: list[str]) -> str:
    """The first known name that this one is a part of."""
    part = name.lower() if 0 < len(name) <= LONGEST_MISSPELT else ""
    return next((one for one in known if part in one.lower()), "") if part else ""


def _looks_secret(name: str) -> bool:
    """Whether this may be meant as the name of a secret. A name too long to compare may be."""
    if len(name) > LONGEST_MISSPELT:
        return True
    folded = name.replace("_", "").replace("-", "").lower()
    return any(one in folded for one in FOLDED_SECRETS) or bool(nearest(folded, FOLDED_SECRETS))


def _may_be_secret(kind: Any, path: str) -> bool:
    """Whether the value there stands in an object with secrets, or in its place: it may be one in the wrong field.
    The token of a heartbeat is a number, and no secret."""
    parent = path.rpartition(".")[0]
    return any(
        field.encode_name in SECRETS and any(isinstance(one, inspect.StrType) for one in _parts(field.type))
        for place in {path, parent}
        for struct in _structs_at(kind, place)
        for field in struct.fields
    )


def _single(value: object) -> object:
    """A value to show, if it is neither unknown nor has others in it."""
    return None if isinstance(value, list | dict | _UnknownValue) else value


def allowed_by(kind: Any, **bounds: Any) -> str:
    """What a parameter of this type may be, within these bounds."""
    found = inspect.type_info(kind)
    if isinstance(found, inspect.IntType | inspect.FloatType | inspect.StrType):
        found = msgspec.structs.replace(found, **{name: value for name, value in bounds.items() if value is not None})
    return _allowed(found)


def allowed_at(kind: Any, path: str) -> str:
    """What the value at a path may be; empty if that is not known."""
    found = _type_at(kind, path)
    return _allowed(found) if found is not None else ""


def fields_at(kind: Any, path: str) -> list[str]:
    return [field.encode_name for struct in _structs_at(kind, path) for field in struct.fields]


def _structs_at(kind: Any, path: str) -> list[inspect.StructType]:
    return [one for one in _parts(_type_at(kind, path)) if isinstance(one, inspect.StructType)]


def _allowed_names(kind: Any, path: str) -> str:
    """What each name in the object at a path may be."""
    objects = [one for one in _parts(_type_at(kind, path)) if isinstance(one, inspect.DictType)]
    return " or ".join(_allowed(one.key_type) for one in objects) or "a text"


def _must_be(allowed: str) -> str:
    return f": must be {allowed}" if allowed else ""


@cache
def _info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


def _type_at(kind: Any, path: str) -> inspect.Type | None:
    found: inspect.Type | None = _info(kind) if kind is not None else None
    for step in STEP.finditer(path):
        if found is None:  # the rest of the path may be long
            break
        found = next((inner for one in _parts(found) if (inner := _inner(one, step[0])) is not None), None)
    return found


def _inner(outer: inspect.Type, step: str) -> inspect.Type | None:
    match outer:
        case inspect.StructType():
            return next((field.type for field in outer.fields if field.encode_name == step), None)
        case inspect.ListType() | inspect.VarTupleType():
            return outer.item_type
        case inspect.DictType():
            return outer.value_type
    return None


def _parts(found: inspect.Type | None) -> list[inspect.Type]:
    """Without annotations, and each member of a union."""
    match found:
        case None:
            return []
        case inspect.Metadata():
            return _parts(found.type)
        case inspect.UnionType():
            return [part for one in found.types for part in _parts(one)]
    return [found]


def _allowed(found: inspect.Type) -> str:
    return " or ".join(filter(None, map(_one_allowed, _parts(found))))


def _one_allowed(found: inspect.Type) -> str:
    match found:
        case inspect.IntType() | inspect.FloatType():
            return f"{NUMBERS[type(found)]}{_range(found.ge, found.le)}"
        case inspect.StrType():
            if found.pattern:
                return PATTERNS.get(found.pattern, "a text of another form")
            return f"a text{_length(found.min_length, found.max_length, 'characters')}"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.EnumType():
            values = [str(one.value) for one in found.cls if one.value and one.value != "absent"]
            return f"{ONE_OF}{', '.join(values[:MOST_VALUES])}"
        case inspect.ListType() | inspect.VarTupleType():
            return f"a list{_length(found.min_length, found.max_length, 'entries')}"
        case inspect.DictType():
            return f"an object{_length(None, found.max_length, 'entries')}"
        case inspect.StructType():
            return "an object"
        case inspect.DateTimeType():
            return "a time with its zone, such as 2026-01-31T12:00:00Z"
    return ""


def _range(least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return f" from {least} on" if least is not None else f" up to {most}" if most is not None else ""


def _length(least: int | None, most: int | None, what: str) -> str:
    if least and most:
        return f" of {least} to {most} {what}"
    return f" of at least {least} {what}" if least else f" of at most {most} {what}" if most else ""


def _given(body: bytes, path: str) -> object:
    """What the body has there, if that can be told: not in a body with a number that no float or int can hold."""
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNKNOWN_VALUE
    for step in STEP.finditer(path):
        if found is UNKNOWN_VALUE:
            break
        found = UNKNOWN_VALUE if step[0] == ANY_ENTRY else _entry(found, step[0])
    return found


def _entry(found: object, step: str) -> object:
    if isinstance(found, dict):
        return found.get(step, UNKNOWN_VALUE)
    # No list of a body has more entries than this has digits for.
    if isinstance(found, list) and len(step) < 10 and step.isdecimal() and int(step) < len(found):
        return found[int(step)]
    return UNKNOWN_VALUE
