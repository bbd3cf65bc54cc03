"""Tokens in memory."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from bullpen.engines.memory.faults import Faults
from bullpen.errors import Conflict
from bullpen.ports.tokens import StoredToken, TokenBook


@dataclass(slots=True)
class Shelf:
    """What all processes share."""

    required: bool = False
    tokens: dict[str, StoredToken] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)

    def book(self) -> TokenBook:
        return TokenBook(self.required, tuple(self.tokens[name] for name in sorted(self.tokens)))

    def require(self) -> None:
        self.required = True

    def add(self, token: StoredToken) -> None:
        self.required = True
        if self.tokens.setdefault(token.name, token).id != token.id:
            raise Conflict(f"token {token.name} already exists")

    def revoke(self, name: str, now: datetime) -> bool:
        if name not in self.tokens:
            return False
        self.tokens[name] = replace(self.tokens[name], revoked=self.tokens[name].revoked or now)
        return True

    def settle_secret(self, draft: bytes) -> bytes:
        self.secret = self.secret or draft
        return self.secret


class MemoryTokens:
    """One process's access to the tokens, which are shared."""

    def __init__(self, shelf: Shelf, faults: Faults) -> None:
        self._shelf = shelf
        self._faults = faults

    async def read(self) -> TokenBook:
        return await self._faults.call("tokens.read", self._shelf.book)

    async def require(self) -> None:
        await self._faults.call("tokens.require", self._shelf.require)

    async def add(self, token: StoredToken) -> None:
        await self._faults.call("tokens.add", lambda: self._shelf.add(token))

    async def revoke(self, name: str, now: datetime) -> bool:
        return await self._faults.call("tokens.revoke", lambda: self._shelf.revoke(name, now))

    async def secret(self, draft: bytes) -> bytes:
        return await self._faults.call("tokens.secret", lambda: self._shelf.settle_secret(draft))
