"""Answers of GitHub, and what its errors mean: they become Bullpen's in this one place. Pure.

A message names the call, which names the scope, and what is missing; it never shows a secret. Bodies carry tokens: an
answer shows only its status.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from typing import Any

from bullpen.engines.github.permissions import Right
from bullpen.errors import BullpenError, PermissionDenied, Refused, Unavailable
from bullpen.lazy_dataclass import dataclass

_LONGEST = 400  # characters of a message of GitHub's
_SKEW = ("'exp'", "'iat'", "Expiration time", "Issued at")  # what a wrong clock does to an App's signature


@dataclass(frozen=True, slots=True)
class GithubCall:
    """One endpoint, spelt out, and the permission that it takes."""

    method: str
    path: str
    right: Right | None = None

    def __str__(self) -> str:
        return f"GitHub {self.method} {self.path}"

    @property
    def kind(self) -> str:
        """What calls of one rate limit have in common: the end of the path, if that is no number."""
        last = self.path.rpartition("/")[2]
        return "" if last.isdigit() else last


@dataclass(frozen=True, slots=True)
class GithubAnswer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # by lower-case name
    body: Any = field(default=None, repr=False)

    @property
    def message(self) -> str:
        """GitHub's own words, on one line."""
        if not isinstance(self.body, dict):
            return "no message"
        details = self.body.get("errors")
        parts = [self.body.get("message"), *(details if isinstance(details, list) else ())]
        return cut("; ".join(part if isinstance(part, str) else _detail(part) for part in parts if part))


def failure(call: GithubCall, answer: GithubAnswer, credentials: str) -> BullpenError:
    """The error that an answer amounts to. `credentials` says whose they are, by the settings' names."""
    said = f"{call}: {answer.message} ({answer.status})"
    match answer.status:
        case 401 if any(sign in answer.message for sign in _SKEW):
            return PermissionDenied(said, remedy="Set the clock of this machine.")
        case 401:
            return PermissionDenied(f"{said}: {credentials} is invalid, has expired, or was revoked", remedy=_RENEW)
        case 403:
            needed = _needed(call, answer)
            return PermissionDenied(f"{said}; the call needs {needed}", remedy=f"Grant {credentials} that permission.")
        case 404:
            return Refused(f"{said}: it does not exist, or {credentials} may not see it", remedy=_SEEN)
        case 301 | 302 | 307 | 308:
            return Refused(f"{said}: it was renamed or moved", remedy=_MOVED)
        case status if status >= 500 or status < 200:
            return Unavailable(said)
        case _:
            return Refused(said)


def derived_failure(call: GithubCall, answer: GithubAnswer, credentials: str) -> BullpenError:
    """The same for a call with a token that GitHub made from the credentials: a user can renew the credentials only."""
    if answer.status != 401 or any(sign in answer.message for sign in _SKEW):
        return failure(call, answer, credentials)
    return PermissionDenied(
        f"{call}: {answer.message} (401): GitHub refuses a token that it has made from {credentials}",
        remedy=f"Check with `bullpen doctor` that {credentials} is accepted and was not revoked.",
    )


@contextmanager
def understood(call: GithubCall) -> Iterator[None]:
    """Around the reading of an answer. One that is not made as GitHub describes is as good as none: Unavailable."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        # Not as the cause: it may quote what it could not read.
        raise Unavailable(f"{call}: the answer cannot be read ({type(exc).__name__})") from None


def rows(body: Any, key: str = "") -> list[dict[str, Any]]:
    """The objects that an answer lists, under a key if it is not the list itself. Raise LookupError or TypeError."""
    found = body[key] if key else body
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise TypeError("no list of objects")
    return found


def moment(text: Any) -> datetime:
    """A time as GitHub writes it. Raise ValueError or TypeError, also for one that could be anywhere."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found


def cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


_RENEW = "Renew it, and check it with `bullpen doctor`."
_MOVED = "Correct github.scope or github.url; runs that began under the old name are released by their labels."
_SEEN = "Check github.scope and github.url, and that an App is installed there."


def _needed(call: GithubCall, answer: GithubAnswer) -> str:
    """GitHub reports what would do, as `key=level` and alternatives behind semicolons; if not, the call names it."""
    accepted = answer.headers.get("x-accepted-github-permissions", "")
    if call.right is None or (accepted and f"{call.right.key}={call.right.level}" not in accepted):
        return f"permission {accepted}" if accepted else "more permission"
    return f"the {call.right}"


def _detail(part: object) -> str:
    """One of the errors that go with a 422."""
    if not isinstance(part, dict):
        return ""
    return str(part.get("message") or f"{part.get('field', '')} {part.get('code', '')}".strip())
