"""The types of inputs: every input arrives as text, and each type parses and validates it."""

import json
import re
from collections.abc import Callable
from typing import Any

from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.times import WAITS, parse_wait


class Unreadable(ValueError):
    """The value is not allowed; the message adds a detail, if there is one."""


@dataclass(frozen=True, slots=True)
class InputType:
    """`allowed` completes the sentence "it must be …"; `read` raises Unreadable."""

    allowed: str
    read: Callable[[str], Any]


def text(allowed: str = "a text", pattern: str = r"(?s:.+)") -> InputType:
    def read(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise Unreadable
        return value

    return InputType(allowed, read)


def whole(low: int, high: int, unit: str = "") -> InputType:
    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not low <= int(value) <= high:
            raise Unreadable
        return int(value)

    return InputType(f"a whole number from {low} to {high} {unit}".rstrip(), read)


def waiting() -> InputType:
    """Seconds, as the command line reads them."""

    def read(value: str) -> float:
        if (seconds := parse_wait(value)) is None:
            raise Unreadable
        return seconds

    return InputType(WAITS, read)


def one_of(*words: str) -> InputType:
    def read(value: str) -> str:
        if value.lower() not in words:
            raise Unreadable
        return value.lower()

    return InputType(f"one of {', '.join(words)}", read)


def flag() -> InputType:
    return InputType("true or false", lambda value: one_of("true", "false").read(value) == "true")


def words(allowed: str, pattern: str) -> InputType:
    """Separated by spaces, line breaks or commas."""

    def read(value: str) -> list[str]:
        found = list(dict.fromkeys(value.replace(",", " ").split()))
        if wrong := [word for word in found if re.fullmatch(pattern, word) is None]:
            raise Unreadable(f"{wrong[0][:60]!r} is not one")
        if not found:
            raise Unreadable
        return found

    return InputType(allowed, read)


def tags() -> InputType:
    """`[{"Key": …, "Value": …}]`, as AWS writes tags."""

    def read(value: str) -> dict[str, str]:
        found = _json(value)
        if not isinstance(found, list):
            raise Unreadable
        for tag in found:
            is_tag = isinstance(tag, dict) and set(tag) == {"Key", "Value"}
            if not is_tag or not all(isinstance(text, str) for text in tag.values()):
                raise Unreadable(f"{json.dumps(tag)[:60]} must have exactly the texts Key and Value")
        return _unique([(tag["Key"], tag["Value"]) for tag in found])

    return InputType('a JSON list of tags, such as [{"Key": "team", "Value": "ci"}]', read)


def classes() -> InputType:
    """`{"large": {"cpu": 4, "mmem": 8192}}`; numbers may be quoted."""

    def read(value: str) -> dict[str, dict[str, int]]:
        found = _json(value)
        if not isinstance(found, dict) or not found:
            raise Unreadable
        if wrong := [name for name in found if re.fullmatch(limits.CLASS_NAME, name) is None]:
            raise Unreadable(f"{wrong[0][:60]!r} is not a valid class name")
        return {name: _sizes(name, sizes) for name, sizes in found.items()}

    return InputType('a JSON object of classes, such as {"large": {"cpu": 4, "mmem": 8192}}', read)


def _sizes(name: str, sizes: object) -> dict[str, int]:
    if not isinstance(sizes, dict) or set(sizes) != {"cpu", "mmem"}:
        raise Unreadable(f"{name} must have exactly cpu and mmem (MiB)")
    found = {}
    for key, most in (("cpu", limits.CPU), ("mmem", limits.MEM)):
        try:
            found["mem" if key == "mmem" else key] = int(whole(1, most).read(str(sizes[key])))
        except Unreadable as exc:
            raise Unreadable(f"{key} of {name} must be a whole number from 1 to {most}") from exc
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dictionary. Raise Unreadable for a repeated name."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Unreadable(f"{next(name for name in names if names.count(name) > 1)[:60]!r} is given twice")
    return found


def _json(value: str) -> object:
    try:
        return json.loads(value, object_pairs_hook=_unique)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as exc:
        raise Unreadable("not valid JSON") from exc
