"""Operators' tokens, as hashes, and the secret from which the tokens of agents and workflow runs are derived."""

from dataclasses import field
from datetime import datetime, timedelta
from typing import Protocol

from bullpen.lazy_dataclass import dataclass

KEPT = timedelta(days=400)
"""How long a token that was revoked or has expired is still listed. Longer than any old file of tokens should wait to
be imported: what is still known is not added again."""


@dataclass(frozen=True, slots=True)
class StoredToken:
    """What the store holds of an operator's token. `id` is the part of it by which it is found; `scope` a word."""

    name: str
    id: str
    scope: str
    sha256: str = field(repr=False)
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class TokenBook:
    """Everything that is known of tokens at one moment. `required`: whether there was ever one. From then on
    every operator needs one; no later event takes that back. `ended` are the ids of sessions that were ended before
    their time, in order; one whose time has passed may be missing."""

    required: bool = False
    tokens: tuple[StoredToken, ...] = ()
    ended: tuple[str, ...] = ()


class Tokens(Protocol):
    """Only the control plane reads and writes these; neither workflows nor instances can."""

    async def read(self) -> TokenBook:
        """Consistent; tokens by name, also those that are no longer valid."""

    async def require(self) -> None:
        """From now on every operator needs a token, whether or not one exists."""

    async def add(self, token: StoredToken) -> None:
        """Add a token; from then on every operator needs one. The same token again (by its id) changes nothing, even
        if it was revoked since. Raise Conflict if another one has the name."""

    async def revoke(self, name: str, now: datetime) -> bool:
        """The token is not valid any more; False if there is none of that name. The name stays taken."""

    async def end_session(self, session: str, until: datetime, now: datetime) -> None:
        """Note that the session of this id, which would last until `until`, is over. Ended twice is ended. What was
        noted of sessions whose time has passed may be forgotten: the notes are bounded by how long sessions last."""

    async def secret(self, draft: bytes) -> bytes:
        """The agents' secret of this pool. If there is none, the draft becomes it: of several at once one, for all."""
