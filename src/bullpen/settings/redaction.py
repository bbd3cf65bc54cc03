"""Redaction of values in messages, which end up in CI logs: secrets are hidden, long values are shortened."""

import re
from typing import Any

HIDDEN = "(not shown)"
_SECRET = re.compile(r"token|secret|passw|key|credential", re.IGNORECASE)


def suggests_secret(text: str) -> bool:
    """True if a value with this name may be a secret. A false positive does less harm than a leak."""
    return _SECRET.search(text) is not None


def shown(name: str, value: Any) -> str:
    """The value of a setting, for an error message."""
    return HIDDEN if suggests_secret(name) else shortened(value)


def shortened(value: Any, limit: int = 60) -> str:
    """A value, short enough for a line of text."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def abridged(name: str, value: Any, limit: int = 60) -> Any:
    """A value for the list of settings: of a long text, such as a script, only the beginning and the length."""
    if suggests_secret(name) and value:
        return HIDDEN
    if not isinstance(value, str) or (len(value) <= limit and "\n" not in value and not suggests_secret(value)):
        return value
    first = value.partition("\n")[0]
    begin = HIDDEN if suggests_secret(first) else first[:limit]
    return f"{begin} … ({len(value)} characters)"
