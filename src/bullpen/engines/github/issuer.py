"""The issuer of the jobs' OIDC tokens, and its keys.

The keys are fetched from where the issuer publishes them, never from where a token says. An unknown key
causes another fetch, but at most once a minute: forged tokens must not turn into requests to GitHub.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from bullpen.config import Github
from bullpen.errors import PermissionDenied, Unavailable

if TYPE_CHECKING:
    from jwt import PyJWK

KEYS_LAST = 3600.0  # seconds; a key that GitHub takes back is believed for so long at most
LOOK_AGAIN = 60.0  # seconds between two looks for a key that is not there
RETRY = 5.0  # seconds after a look that failed
PATIENCE = 5.0  # seconds for the issuer to answer
LARGEST_ANSWER = 256 * 1024  # bytes; GitHub's has about ten thousand

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets the content of a URL, or raises Unavailable."""


def issuer(github: Github) -> str:
    """As the settings say, or as GitHub's address has it."""
    if github.oidc_issuer:
        return github.oidc_issuer.rstrip("/")
    host = (urlsplit(github.url).hostname or "").removeprefix("www.")
    if host == "github.com":
        return "https://token.actions.githubusercontent.com"
    if host.endswith(".ghe.com"):
        return f"https://token.actions.{host}"
    return f"{github.url.rstrip('/')}/_services/token"


class IssuerKeys:
    def __init__(self, issuer: str, fetch: Fetch | None = None) -> None:
        self._url = f"{issuer}/.well-known/jwks"
        self._fetch = fetch or _fetched
        self._known: dict[str, PyJWK] = {}
        self._fetched_at: float | None = None
        self._failed_at: float | None = None
        self._fetching = asyncio.Lock()

    async def key(self, id: str) -> "PyJWK":
        """Raise PermissionDenied if the issuer has no such key, Unavailable if it cannot be asked."""
        if self._must_fetch(id):
            async with self._fetching:
                if self._must_fetch(id):  # else another task has fetched them during the wait
                    await self._fetch_keys()
        if id not in self._known:
            raise PermissionDenied("signed with a key that the issuer does not have")
        return self._known[id]

    def _must_fetch(self, id: str) -> bool:
        age = _since(self._fetched_at)
        return age >= KEYS_LAST or (id not in self._known and age >= LOOK_AGAIN)

    async def _fetch_keys(self) -> None:
        if _since(self._failed_at) < RETRY:
            raise Unavailable(f"{self._url} could not be read a moment ago")
        try:
            self._known = _usable(self._url, await self._fetch(self._url))
        except Unavailable:
            self._failed_at = asyncio.get_running_loop().time()
            raise
        self._fetched_at = asyncio.get_running_loop().time()


def _since(at: float | None) -> float:
    return float("inf") if at is None else asyncio.get_running_loop().time() - at


def _usable(url: str, content: bytes) -> dict[str, "PyJWK"]:
    """Those keys of a set that RS256 can be checked with."""
    import jwt

    try:
        found = jwt.PyJWKSet.from_dict(msgspec.json.decode(content, type=dict[str, Any]))
    except (jwt.PyJWTError, msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise Unavailable(f"{url}: the answer is not a key set") from exc
    usable = [key for key in found if key.key_type == "RSA" and key.public_key_use in (None, "sig")]
    return {key.key_id: key for key in usable if isinstance(key.key_id, str)}


async def _fetched(url: str) -> bytes:
    import httpx

    try:
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                raise Unavailable(f"{url}: answered {response.status_code}")
            content = b""
            async for part in response.aiter_bytes():
                content += part
                if len(content) > LARGEST_ANSWER:
                    raise Unavailable(f"{url}: the answer is too large")
            return content
    except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as exc:
        raise Unavailable(f"{url}: did not answer ({type(exc).__name__})") from exc
