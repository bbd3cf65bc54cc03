"""What all groups of methods share: how they ask."""

import secrets
from typing import TypeVar
from urllib.parse import quote

import msgspec

from bullpen.client.requester import Requester
from bullpen.client.transport import HttpRequest
from bullpen.errors import ConfigError

PAGE = 500  # entries of a list that are asked for at once
T = TypeVar("T")


class Methods:
    """A group of the client's methods. They wait only in the requester, so that the synchronous client can run them."""

    _requester: Requester

    async def _get(self, path: str, kind: type[T], /, **query: str | int) -> T:
        """Empty values are not sent."""
        found = {name: value for name, value in query.items() if value != ""}
        return await self._requester.ask(HttpRequest("GET", path, found), kind)

    async def _post(self, path: str, kind: type[T], body: msgspec.Struct | None = None, key: str = "") -> T:
        """With a key the request is repeated if its answer is lost, and the server acts once."""
        content = msgspec.json.encode(body) if body is not None else None
        headers = {"idempotency-key": key} if key else {}
        request = HttpRequest("POST", path, content=content, headers=headers, is_repeatable=bool(key))
        return await self._requester.ask(request, kind)


def drawn_key() -> str:
    return secrets.token_hex(16)


def part(text: str) -> str:
    """An id as a part of a path, with its slashes. Raise ConfigError for what clients and proxies take out of paths."""
    if text in ("", ".", ".."):
        raise ConfigError(f"{text!r} is not an id", remedy="Give an id that the server has answered or listed.")
    return quote(text, safe="")
