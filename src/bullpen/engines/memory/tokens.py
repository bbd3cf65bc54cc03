"""Tokens in memory."""

from dataclasses import field, replace
from datetime import datetime

from bullpen.engines.memory.faults import Faults, request
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.ports.tokens import StoredToken, TokenBook


@dataclass(slots=True)
class Shelf:
    """What all processes share."""

    required: bool = False
    tokens: dict[str, StoredToken] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    ended: dict[str, datetime] = field(default_factory=dict)  # sessions, until when they would have lasted

    def book(self) -> TokenBook:
        tokens = tuple(self.tokens[name] for name in sorted(self.tokens))
        return TokenBook(self.required, tokens, tuple(sorted(self.ended)))

    def add(self, token: StoredToken) -> None:
        self.required = True
        if self.tokens.setdefault(token.name, token).id != token.id:
            raise Conflict(f"token {token.name} already exists")


class MemoryTokens:
    def __init__(self, shelf: Shelf, faults: Faults) -> None:
        self._shelf = shelf
        self._faults = faults

    @request("tokens.read")
    def read(self) -> TokenBook:
        return self._shelf.book()

    @request("tokens.require")
    def require(self) -> None:
        self._shelf.required = True

    @request("tokens.add")
    def add(self, token: StoredToken) -> None:
        self._shelf.add(token)

    @request("tokens.revoke")
    def revoke(self, name: str, now: datetime) -> bool:
        found = self._shelf.tokens.get(name)
        if found is None:
            return False
        self._shelf.tokens[name] = replace(found, revoked=found.revoked or now)
        return True

    @request("tokens.end_session")
    def end_session(self, session: str, until: datetime, now: datetime) -> None:
        self._shelf.ended = {id: end for id, end in self._shelf.ended.items() if end > now} | {session: until}

    @request("tokens.secret")
    def secret(self, draft: bytes) -> bytes:
        self._shelf.secret = self._shelf.secret or draft
        return self._shelf.secret
