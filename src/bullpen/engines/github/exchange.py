"""One exchange over HTTP: a request, and its whole answer within bounds of time and size."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any

from bullpen.engines.github.answers import GithubCall, cut
from bullpen.errors import Unavailable
from bullpen.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import httpx

LARGEST = 16 * 1024 * 1024  # bytes of an answer: a hundred jobs with all their steps have one million
CONNECTING = 5.0  # seconds


@dataclass(frozen=True, slots=True)
class RawAnswer:
    status: int
    headers: Mapping[str, str] = field(repr=False)  # by lower-case name
    content: bytes = field(repr=False)  # it carries tokens

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


async def exchange(
    client: "httpx.AsyncClient",
    call: GithubCall,
    url: "str | httpx.URL",
    *,
    headers: Mapping[str, str],
    body: Any,
    within: float,
    turns: AbstractAsyncContextManager[Any],
) -> RawAnswer:
    """Send a request when it is its turn. Raise Unavailable if there is no whole answer `within` so many seconds."""
    import httpx

    timeouts = httpx.Timeout(within - CONNECTING, connect=CONNECTING)
    try:
        async with (
            asyncio.timeout(within),
            turns,
            client.stream(call.method, url, json=body, headers=headers, timeout=timeouts) as response,
        ):
            content = await _content(call, response)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as exc:
        # A local error quotes the header that cannot be sent, and with it the token.
        is_local = isinstance(exc, httpx.LocalProtocolError)
        reason = "the request cannot be sent" if is_local else cut(str(exc)) or type(exc).__name__
        raise Unavailable(f"{call}: {reason}", remedy="See github.url, github.api-url and the network.") from exc
    named = {name.lower(): value for name, value in response.headers.items()}
    return RawAnswer(response.status_code, named, content)


async def _content(call: GithubCall, response: "httpx.Response") -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > LARGEST:
            raise Unavailable(f"{call}: the answer has more than {LARGEST} bytes")
    return bytes(content)
