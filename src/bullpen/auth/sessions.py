"""The sessions of browsers: what a cookie holds instead of an operator's token.

    bps_<claims>_<mac>    claims: the session's random id, the id of the token that it was opened with, and its end

Like an agent's token, a session is proved by its mac and stored nowhere: each process of a pool knows it, also after a
restart. It says nothing of what its holder may do. That is the scope of the token at the moment of each request, so a
session ends when its token is revoked or expires. Of a session that is ended before its time (log-out), the store keeps
the id until that time has passed; every process reads those with the tokens, once a second.

Who gets hold of a session has no token: it cannot be sent as one, and lasts hours.
"""

import base64
import binascii
import json
import secrets
from datetime import UTC, datetime

from bullpen.auth.tokens import Keys, Operator
from bullpen.lazy_dataclass import dataclass

LASTS = 12 * 3600
"""Seconds that a session lasts at most: a day's work, and no night."""
PREFIX = "bps_"
LONGEST = 512  # characters; ours have about two hundred
KIND = "session"


@dataclass(frozen=True, slots=True)
class Session:
    """A log-in. `token` is the id of the operator's token; `until` when it ends, in seconds."""

    id: str
    token: str
    until: int

    @property
    def ends_at(self) -> datetime:
        return datetime.fromtimestamp(self.until, UTC)


def opened(keys: Keys, token: str, now: float) -> Session | None:
    """A new session for the holder of an operator's token; None if the token is not valid. Raise Unavailable as
    `Keys.bearer`."""
    stored = keys.stored(token, now)
    if stored is None:
        return None
    until = now + LASTS if stored.expires is None else min(now + LASTS, stored.expires.timestamp())
    return Session(secrets.token_hex(16), stored.id, int(until))


def text_of(keys: Keys, session: Session) -> str:
    """The session as its cookie holds it."""
    claims = json.dumps([session.id, session.token, session.until]).encode()
    packed = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    return f"{PREFIX}{packed}_{keys.mac(KIND, packed)}"


def parsed(keys: Keys, text: str) -> Session | None:
    """The session that this pool once opened; None for any other text. It may have ended since."""
    packed, _, mac = text.removeprefix(PREFIX).rpartition("_")
    if not text.startswith(PREFIX) or len(text) > LONGEST or not text.isascii():
        return None
    if not secrets.compare_digest(mac, keys.mac(KIND, packed)):
        return None
    try:  # nothing of it is read before its mac is verified
        id, token, until = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (binascii.Error, ValueError):
        return None
    return Session(id, token, until)


def operator_of(keys: Keys, session: Session, now: float) -> Operator | None:
    """Whose session it is; None if it has ended. Raise Unavailable if its token may have been revoked."""
    if now >= session.until or keys.has_ended(session.id):
        return None
    return keys.operator_of(session.token, now)
