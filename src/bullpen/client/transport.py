"""httpx, blocking and not, behind one Protocol; its errors become sentences with a remedy.

The methods of both transports are coroutines. Those of the blocking one never suspend, so that the synchronous client
can run the code of the asynchronous one without an event loop.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import field
from socket import gaierror
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from bullpen import __version__
from bullpen.client.address import Address, certificates
from bullpen.client.answers import IS_URL, Reply
from bullpen.errors import BullpenError, ConfigError, Unavailable
from bullpen.extras import missing_extra
from bullpen.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import httpx

CONNECTIONS = 20  # that a client keeps open at most
CONNECT = 10.0  # seconds for a connection at most


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`is_repeatable`: sent twice, it has the effect of once. `timeout`: seconds for this answer, not the client's."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer whose content arrives piece by piece; `reply` has none of it."""

    reply: Reply
    pieces: AsyncIterator[bytes]


class ServerAway(Unavailable):
    """The connection failed. The request may have had an effect if it `was_sent`."""

    def __init__(self, message: str, *, remedy: str, was_sent: bool) -> None:
        super().__init__(message, remedy=remedy)
        self.was_sent = was_sent


class Transport(Protocol):
    """Sends requests to one server over connections that it keeps open. Raise ServerAway; or ConfigError, if its
    certificate is refused or no HTTP is spoken there."""

    async def exchange(self, request: HttpRequest) -> Reply: ...

    def stream(self, request: HttpRequest, silence: float) -> AbstractAsyncContextManager[Stream]:
        """Until the server ends it, or sends nothing for `silence` seconds."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class AsyncTransport:
    """On the event loop."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._client = _made(_httpx().AsyncClient, address, timeout)

    async def exchange(self, request: HttpRequest) -> Reply:
        with _translated(self._address, request.timeout or self._timeout):
            # httpx bounds the time between two bytes: a server may send one now and then.
            async with _bounded(request.timeout):
                answer = await self._client.request(**_arguments(self._address, request))
        return _reply(answer, answer.content)

    @asynccontextmanager
    async def stream(self, request: HttpRequest, silence: float) -> AsyncIterator[Stream]:
        arguments = _arguments(self._address, request) | {"timeout": _limits(silence)}
        with _translated(self._address, silence):
            async with self._client.stream(**arguments) as answer:
                yield Stream(_reply(answer), answer.aiter_bytes())

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._client.aclose()


class BlockingTransport:
    """In the calling thread."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._client = _made(_httpx().Client, address, timeout)

    async def exchange(self, request: HttpRequest) -> Reply:
        with _translated(self._address, request.timeout or self._timeout):
            answer = self._client.request(**_arguments(self._address, request))
        return _reply(answer, answer.content)

    @asynccontextmanager
    async def stream(self, request: HttpRequest, silence: float) -> AsyncIterator[Stream]:
        arguments = _arguments(self._address, request) | {"timeout": _limits(silence)}
        with _translated(self._address, silence), self._client.stream(**arguments) as answer:
            yield Stream(_reply(answer), _each(answer.iter_bytes()))

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  # no event loop runs here

    async def close(self) -> None:
        self._client.close()


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as exc:
        raise missing_extra("bullpen.client", exc, "client") from exc
    return httpx


def _made(kind: Any, address: Address, timeout: float) -> Any:
    """A client of httpx. Raise ConfigError for a proxy of the environment that it cannot use."""
    options = _options(address, timeout)
    try:
        return kind(**options)
    except (ImportError, ValueError, _httpx().InvalidURL) as exc:  # its text may have the password of the proxy
        says = "this client cannot use a SOCKS proxy" if isinstance(exc, ImportError) else "is not the URL of a proxy"
        raise ConfigError(
            f"HTTPS_PROXY or ALL_PROXY: {says}",
            remedy="Set HTTPS_PROXY to the http:// or https:// URL of a proxy; or add the server's host to NO_PROXY.",
        ) from exc


def _options(address: Address, timeout: float) -> dict[str, Any]:
    return {
        "timeout": _limits(timeout),
        "limits": _httpx().Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        "verify": certificates(address) if address.is_encrypted else False,
        "trust_env": False,  # httpx fails on any proxy that it cannot use, also on one that this server is not behind
        "proxy": _proxy(address),
        "follow_redirects": False,  # a redirect must not send the token to another server
    }


@asynccontextmanager
async def _bounded(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as exc:
        raise _httpx().ReadTimeout("") from exc


def _limits(timeout: float) -> Any:
    return _httpx().Timeout(timeout, connect=min(timeout, CONNECT))


def _proxy(address: Address) -> str | None:
    """The proxy that the environment names for this server. It would read what is not encrypted; without encryption the
    server is on this machine."""
    found = getproxies()
    proxy = found.get("https") or found.get("all")
    if not proxy or not address.is_encrypted or proxy_bypass(urlsplit(address.url).netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _arguments(address: Address, request: HttpRequest) -> dict[str, Any]:
    headers = {"accept": "application/json", "user-agent": f"bullpen-client/{__version__}", **request.headers}
    if request.content is not None:
        headers.setdefault("content-type", "application/json")
    if address.token:
        headers["authorization"] = f"Bearer {address.token}"
    found: dict[str, Any] = {
        "method": request.method,
        "url": address.url + request.path,
        "params": dict(request.query) or None,
        "content": request.content,
        "headers": headers,
    }
    return found if request.timeout is None else found | {"timeout": _limits(request.timeout)}


def _reply(answer: "httpx.Response", content: bytes = b"") -> Reply:
    return Reply(answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, content)


@contextmanager
def _translated(address: Address, timeout: float) -> Iterator[None]:
    httpx = _httpx()
    try:
        yield
    except httpx.HTTPError as exc:
        raise _error_of(httpx, address, exc, timeout) from exc


def _error_of(httpx: Any, address: Address, exc: Exception, timeout: float) -> BullpenError:
    url, causes = address.url, _causes(exc)
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConfigError(
                f"{url}: the server's certificate is refused ({cause.verify_message})",
                remedy="Correct the host name in the URL; or name the authority that signed it with --ca-file or"
                " SSL_CERT_FILE.",
                field="server",
            )
        if isinstance(cause, ssl.SSLError):
            reason = (cause.reason or str(cause)).lower().replace("_", " ")
            remedy = "Check the port; use http:// if the server there is on this machine and has no TLS."
            return ConfigError(
                f"{url}: speaks no TLS that this client accepts ({reason})", remedy=remedy, field="server"
            )
        if isinstance(cause, gaierror):
            remedy = "Check the host name in the URL, and the network."
            return ServerAway(f"{url}: the host name is not known ({cause.strerror})", remedy=remedy, was_sent=False)
    if isinstance(exc, httpx.RemoteProtocolError) and "without sending" not in str(exc) and "closed" not in str(exc):
        return ConfigError(f"{url}: speaks no HTTP ({exc})", remedy=IS_URL, field="server")
    why = next((text for cause in reversed(causes) if (text := _said(cause))), type(exc).__name__)
    if isinstance(exc, httpx.TimeoutException):
        connects = isinstance(exc, httpx.ConnectTimeout)
        what, limit = ("connection", min(timeout, CONNECT)) if connects else ("answer", timeout)
        why = f"no {what} in {round(limit, 1):g} s"
    remedy = "Check that `bullpen serve` runs there and that this machine can reach it."
    if isinstance(exc, httpx.RemoteProtocolError):
        why = "it hung up without an HTTP answer"
    if isinstance(exc, httpx.RemoteProtocolError | httpx.ReadError) and not address.is_encrypted:
        remedy = "If the server uses TLS, write https:// in its URL. " + remedy
    was_sent = not isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return ServerAway(f"{url}: does not answer ({why})", remedy=remedy, was_sent=was_sent)


def _causes(exc: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = exc
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _said(exc: BaseException) -> str:
    # asyncio writes its own text, with the address, into `strerror`.
    text = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
    return "" if "All connection attempts failed" in text else text
