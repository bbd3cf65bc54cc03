"""How values are shown: never a secret, never a screenful. What we print ends up in the logs of CI systems."""

import re
from typing import Any

HIDDEN = "(not shown)"
_SECRET = re.compile(r"token|secret|passw|key|credential", re.IGNORECASE)


def suggests_secret(text: str) -> bool:
    """True if what goes by this name may be a secret. Better once too often."""
    return _SECRET.search(text) is not None


def shown(name: str, value: Any) -> str:
    """The value of a setting as an error message shows it."""
    return HIDDEN if suggests_secret(name) else shortened(value)


def shortened(value: Any, limit: int = 60) -> str:
    """A value within a line of text."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def abridged(name: str, value: Any, limit: int = 60) -> Any:
    """A value as a list of settings shows it: of a long text, such as a script, how it begins and how long it is."""
    if suggests_secret(name) and value:
        return HIDDEN
    if not isinstance(value, str) or (len(value) <= limit and "\n" not in value and not suggests_secret(value)):
        return value
    first = value.partition("\n")[0]
    begin = HIDDEN if suggests_secret(first) else first[:limit]
    return f"{begin} … ({len(value)} characters)"
