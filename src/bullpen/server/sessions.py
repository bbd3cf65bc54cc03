"""Sessions of browsers at this server: the cookie that holds one, and the pages that may use it.

The cookie is HttpOnly, so no script reads it, and SameSite=Strict, so no other site sends it. Unless the browser is on
loopback it is Secure and `__Host-` too, so neither an unencrypted connection nor a neighbouring host name can set or
read it. Its name has a mark of the pool: two pools on one machine differ only by their port, and cookies know no ports.

A request that a session authenticates must come from a page of this very server:

    Origin            if it is sent, it is this host's
    Sec-Fetch-Site    if it is sent, it is `same-origin`; `none` too, an address that a person typed, unless it writes
    one of the two    must be sent with every request that writes

Browsers send them of themselves, and no script can forge them. What is not a browser sends a token.
"""

import zlib
from collections.abc import Iterator
from datetime import datetime

from bullpen.auth import sessions
from bullpen.auth.sessions import Session
from bullpen.auth.tokens import Keys, Operator
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock
from bullpen.server.head import Head
from bullpen.server.problems import Problem

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
SECURE_PREFIX = "__Host-"
MOST_OF_A_NAME = 4  # cookies of our name that are looked at: another path or domain may have set one, too


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """`cookie` is the header that makes the browser keep it."""

    operator: Operator
    ends_at: datetime
    cookie: str


class Sessions:
    """Opens, finds and ends the sessions of a pool. None of it asks the store, but ending."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._name = f"bullpen-{zlib.crc32(keys.mac('cookie', 'name').encode()):08x}"

    def open(self, token: str, head: Head) -> OpenedSession | None:
        """A session for the holder of an operator's token; None if the token is not valid. Raise Unavailable if it may
        have been revoked."""
        now = self._clock.now().timestamp()
        session = sessions.opened(self._keys, token, now)
        operator = None if session is None else sessions.operator_of(self._keys, session, now)
        if session is None or operator is None:
            return None
        cookie = self._cookie(head, sessions.text_of(self._keys, session), session.until - int(now))
        return OpenedSession(operator, session.ends_at, cookie)

    def find(self, head: Head) -> Session | None:
        """The session that the request's cookie holds. It may have ended."""
        texts = () if head.cookie is None else self._texts(head)
        return next((found for text in texts if (found := sessions.parsed(self._keys, text)) is not None), None)

    def operator_of(self, session: Session) -> Operator | None:
        """Whose it is; None if it has ended. Raise Unavailable if its token may have been revoked."""
        return sessions.operator_of(self._keys, session, self._clock.now().timestamp())

    async def end(self, session: Session) -> None:
        """Raise Unavailable if only this process will know of it."""
        await self._keys.end_session(session.id, session.ends_at, self._clock.now())

    def gone(self, head: Head) -> str:
        """The header that makes the browser forget its cookie."""
        return self._cookie(head, "", 0)

    def check_page(self, head: Head) -> None:
        """Raise a 403 for a request that does not come from a page of this server."""
        if head.origin is not None and not is_same_origin(head.origin, head.host):
            raise _foreign("the request comes from a page of another origin")
        if head.site is not None and head.site not in (("same-origin",) if head.writes else ("same-origin", "none")):
            raise _foreign("the request comes from a page of another origin")
        if head.writes and head.origin is None and head.site is None:
            raise _foreign("the request does not say which page it comes from")

    def _texts(self, head: Head) -> Iterator[str]:
        """The values of our cookies. Off loopback a browser has only one that it would not have taken from others."""
        names = [SECURE_PREFIX + self._name, *([self._name] if is_loopback_name(head.host) else [])]
        left = MOST_OF_A_NAME
        for part in (head.cookie or "").split(";"):
            name, _, value = part.strip().partition("=")
            if name in names and left > 0:
                left -= 1
                yield value

    def _cookie(self, head: Head, value: str, lasts: int) -> str:
        attributes = f"Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict"
        if is_plain(head):
            return f"{self._name}={value}; {attributes}"
        return f"{SECURE_PREFIX}{self._name}={value}; {attributes}; Secure"


def is_plain(head: Head) -> bool:
    """Whether the browser is on loopback without encryption. The server does not see whether a proxy before it
    encrypts; the origin that the browser names shows it."""
    return is_loopback_name(head.host) and not (head.origin or "").lower().startswith("https://")


def is_loopback_name(host: str | None) -> bool:
    """Whether a Host header names this machine, with or without a port."""
    text = (host or "").lower()
    name = text.rpartition(":")[0] if ":" in text and not text.endswith("]") else text
    return name in LOOPBACK_NAMES


def is_same_origin(origin: str, host: str | None) -> bool:
    """Whether an Origin header is that of a page at this Host. A browser leaves the usual port of a scheme out of both;
    a proxy may add it."""
    scheme, separator, name = origin.lower().partition("://")
    usual = {"http": ":80", "https": ":443"}.get(scheme)
    if not separator or usual is None or not name or not host:
        return False
    return name.removesuffix(usual) == host.lower().removesuffix(usual)


def _foreign(error: str) -> Problem:
    remedy = "Use the dashboard at the address of this server; programs send a token in the header `Authorization`."
    return Problem(403, error, remedy=remedy)
