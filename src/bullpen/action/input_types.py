"""How the values of inputs are read: every input is a text, and one that cannot be meant is refused in one sentence."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bullpen.model import limits
from bullpen.model.times import WAITS, parse_wait


class Unreadable(ValueError):
    """The value is not what the input allows; the text says more than that, if there is more to say."""


@dataclass(frozen=True, slots=True)
class InputReader:
    """`allowed` completes the sentence "it must be …"; `read` raises Unreadable."""

    allowed: str
    read: Callable[[str], Any]


def text(allowed: str = "a text", pattern: str = r"(?s:.+)") -> InputReader:
    def read(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise Unreadable
        return value

    return InputReader(allowed, read)


def whole(low: int, high: int, unit: str = "") -> InputReader:
    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not low <= int(value) <= high:
            raise Unreadable
        return int(value)

    return InputReader(f"a whole number from {low} to {high} {unit}".rstrip(), read)


def waiting() -> InputReader:
    """Seconds, as the command line reads them."""

    def read(value: str) -> float:
        if (seconds := parse_wait(value)) is None:
            raise Unreadable
        return seconds

    return InputReader(WAITS, read)


def one_of(*words: str) -> InputReader:
    def read(value: str) -> str:
        if value.lower() not in words:
            raise Unreadable
        return value.lower()

    return InputReader(f"one of {', '.join(words)}", read)


def flag() -> InputReader:
    return InputReader("true or false", lambda value: one_of("true", "false").read(value) == "true")


def words(allowed: str, pattern: str) -> InputReader:
    """Separated by spaces, line breaks or commas."""

    def read(value: str) -> list[str]:
        found = list(dict.fromkeys(value.replace(",", " ").split()))
        if wrong := [word for word in found if re.fullmatch(pattern, word) is None]:
            raise Unreadable(f"{wrong[0][:60]!r} is none")
        if not found:
            raise Unreadable
        return found

    return InputReader(allowed, read)


def tags() -> InputReader:
    """`[{"Key": …, "Value": …}]`, as AWS writes tags."""

    def read(value: str) -> dict[str, str]:
        found = _json(value)
        if not isinstance(found, list):
            raise Unreadable
        for tag in found:
            if (
                not isinstance(tag, dict)
                or set(tag) != {"Key", "Value"}
                or not all(isinstance(v, str) for v in tag.values())
            ):
                raise Unreadable(f"{json.dumps(tag)[:60]} has not just the texts Key and Value")
        return _unique([(tag["Key"], tag["Value"]) for tag in found])

    return InputReader('a JSON list of tags, such as [{"Key": "team", "Value": "ci"}]', read)


def classes() -> InputReader:
    """`{"large": {"cpu": 4, "mmem": 8192}}`; numbers may be quoted."""

    def read(value: str) -> dict[str, dict[str, int]]:
        found = _json(value)
        if not isinstance(found, dict) or not found:
            raise Unreadable
        return {_class_name(name): _sizes(name, sizes) for name, sizes in found.items()}

    return InputReader('a JSON object of classes, such as {"large": {"cpu": 4, "mmem": 8192}}', read)


def _class_name(name: str) -> str:
    if re.fullmatch(limits.CLASS_NAME, name) is None:
        raise Unreadable(f"{name[:60]!r} is no name of a class")
    return name


def _sizes(name: str, sizes: object) -> dict[str, int]:
    if not isinstance(sizes, dict) or set(sizes) != {"cpu", "mmem"}:
        raise Unreadable(f"{name} needs cpu and mmem (MiB), and nothing else")
    found = {}
    for key, most in (("cpu", limits.CPU), ("mmem", limits.MEM)):
        try:
            found["mem" if key == "mmem" else key] = int(whole(1, most).read(str(sizes[key])))
        except Unreadable as exc:
            raise Unreadable(f"{key} of {name} is no whole number from 1 to {most}") from exc
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values for one name neither can be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Unreadable(f"{next(name for name in names if names.count(name) > 1)[:60]!r} is there twice")
    return found


def _json(value: str) -> object:
    try:
        return json.loads(value, object_pairs_hook=_unique)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as exc:
        raise Unreadable("it is no JSON") from exc
