"""What an answer means: the struct that was asked for, an error with its remedy, or that no Bullpen of this version
answers there."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import msgspec

from bullpen import __version__
from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    NotFound,
    PermissionDenied,
    Refused,
    Throttled,
    Unavailable,
)
from bullpen.extras import DISTRIBUTION
from bullpen.lazy_dataclass import dataclass
from bullpen.schema.error import ErrorCode

VERSION_HEADER = "bullpen-version"
BUSY = 429
GATEWAYS = (502, 503, 504)  # a proxy's own answers, too: the server behind it does not answer
LONGEST_PAUSE = 30.0  # seconds that a Retry-After is obeyed for
IS_URL = "Set --server (BULLPEN_SERVER) to the URL of `bullpen serve`, without the path of an endpoint."
NEW_TOKEN = "Create another one with `bullpen token create`, in the pool of this server."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer. The names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type", "").partition(";")[0].strip() == "application/json"

    @property
    def retry_after(self) -> float:
        after = self.headers.get("retry-after", "")
        return min(float(after), LONGEST_PAUSE) if after.isdigit() else 0.0


def read(url: str, reply: Reply, kind: type[T]) -> T:
    """The answer as `kind`. Raise the error that it stands for."""
    check(url, reply)
    try:
        return msgspec.json.decode(reply.content, type=kind)
    except msgspec.MsgspecError as exc:
        says = f"{url}: the server's answer cannot be read ({exc})"
        raise Refused(says, remedy="Check that no proxy changes the answers; else this is a bug: report it.") from exc


def check(url: str, reply: Reply) -> None:
    """Raise unless a Bullpen of this version did what was asked."""
    if check_speaker(url, reply) and not 200 <= reply.status < 300:
        raise error_of(url, reply)
    if not 200 <= reply.status < 300:
        remedy = "Check that `bullpen serve` runs behind the proxy, and try again."
        raise Unavailable(f"{url}: a proxy in front of the server answered {reply.status}", remedy=remedy)


def check_speaker(url: str, reply: Reply) -> bool:
    """Raise ConfigError unless a Bullpen of this version answered; False if a proxy in front of it did."""
    if reply.status in GATEWAYS and VERSION_HEADER not in reply.headers and not _looks_like_ours(reply):
        return False
    check_version(url, reply)
    return True


def check_version(url: str, reply: Reply) -> None:
    """Raise ConfigError if the answer is not of a Bullpen with this release's API."""
    theirs = reply.headers.get(VERSION_HEADER, "")[:40]
    if not theirs:
        if 300 <= reply.status < 400 and (elsewhere := reply.headers.get("location")):
            _refuse(f"{url}: redirects to {elsewhere[:100]}", f"Set --server (BULLPEN_SERVER) to {_origin(elsewhere)}.")
        if not _looks_like_ours(reply):
            shown = reply.headers.get("content-type") or "without content"
            _refuse(f"{url}: is not a Bullpen server (it answered {reply.status}, {shown[:40]})", IS_URL)
        _refuse(f"{url}: the server is older than this client ({__version__})", "Upgrade the server.")
    server, client = release_of(theirs), release_of(__version__)
    if server == client:
        return
    fitting = f"install version {'.'.join(map(str, server))} of {DISTRIBUTION}[client] from its checkout or wheel"
    if server > client:
        says, remedy = "newer", f"Upgrade the client: {fitting}."
    else:
        says, remedy = "older", f"Upgrade the server; or, for the client, {fitting}."
    _refuse(f"{url}: the server's version is {theirs}, {says} than this client ({__version__})", remedy)


def release_of(version: str) -> tuple[int, ...]:
    """Major and minor: releases that share them have one API."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


def error_of(url: str, reply: Reply) -> BullpenError:
    """The error that asks for the right reaction. Its text is the server's."""
    answer = _object(reply)
    says, remedy, field = (str(answer.get(name) or "") for name in ("error", "remedy", "field"))
    says = says or f"{url}: answered {reply.status}"
    if answer.get("code") == ErrorCode.NO_SUCH_ENDPOINT:
        _refuse(f"{url}: the server has no such endpoint", IS_URL)
    if answer.get("code") == ErrorCode.UNAUTHENTICATED:
        remedy = ""  # the server speaks of the header, and users of this client set a variable or an option
    found = _by_status(reply, says, remedy, field)
    found.code, found.field = str(answer.get("code") or ""), field
    return found


def _by_status(reply: Reply, says: str, remedy: str, field: str) -> BullpenError:
    match reply.status:
        case 401:
            if says == "a token is needed":
                remedy = remedy or "Set BULLPEN_TOKEN, or --token-file to a file that contains the token."
            return PermissionDenied(says, remedy=remedy or NEW_TOKEN)
        case 403:
            return PermissionDenied(says, remedy=remedy)
        case 404:
            return NotFound(says, remedy=remedy)
        case 409:
            conflict = Conflict(says)
            conflict.remedy = remedy
            return conflict
        case 429:
            return Throttled(says, retry_after=reply.retry_after, remedy=remedy)
        case 400 | 405 | 413 | 415 | 422 | 431:
            return ConfigError(says, remedy=remedy, field=field)
    if reply.status >= 500:
        return Unavailable(says, remedy=remedy or "See the log of the server.")
    return Refused(says, remedy=remedy)


def _looks_like_ours(reply: Reply) -> bool:
    """An older server sends no version: its errors have a text, and every other answer is an object too."""
    answer = _object(reply) if reply.is_json else {}
    return bool(answer) and (200 <= reply.status < 300 or isinstance(answer.get("error"), str))


def _object(reply: Reply) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(reply.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "that URL"


def _refuse(says: str, remedy: str) -> NoReturn:
    raise ConfigError(says, remedy=remedy, field="server")
