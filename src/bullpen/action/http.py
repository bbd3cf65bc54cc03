"""JSON requests over HTTP with the standard library: the usual proxy variables apply, redirects are not followed."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from socket import gaierror
from types import FrameType
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

LARGEST_ANSWER = 8 * 1024 * 1024  # bytes; the answer for a thousand runners takes less than 1 MiB
BUSY = 429


class NoAnswer(Exception):
    """No answer, or one that asks to try again later. The request may have had an effect (`may_have_done`), unless the
    server is busy or was not reached."""

    def __init__(
        self, message: str, retry_after: float = 0.0, *, is_busy: bool = False, reached: bool = True, remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_busy = is_busy
        self.may_have_done = reached and not is_busy
        self.remedy = remedy


class _NoRedirects(HTTPRedirectHandler):
    """A redirect must not send the token to another server."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def exchange(
    method: str, url: str, *, token: str = "", body: dict[str, Any] | None = None, patience: float, key: str = ""
) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object of the answer, within `patience` seconds. Raise NoAnswer."""
    headers = {"Accept": "application/json", "User-Agent": "bullpen-action"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if key:
        headers["Idempotency-Key"] = key
    content = None
    if body is not None:
        content = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    request = Request(url, content, headers, method=method)
    where = f"{request.type}://{request.host}"
    try:
        with _within(patience), build_opener(_NoRedirects).open(request, timeout=patience) as response:
            return response.status, _object(response.read(LARGEST_ANSWER))
    except HTTPError as exc:
        return _declined(where, exc, patience)
    except (URLError, OSError, HTTPException) as exc:
        why = exc.reason if isinstance(exc, URLError) else str(exc) or type(exc).__name__
        reached = not isinstance(why, ConnectionRefusedError | gaierror)
        raise NoAnswer(f"{where} does not answer ({why})", reached=reached) from exc


def hurry(seconds: float) -> None:
    """Shorten the timeout of the current exchange, if any, to this time."""
    left, again = signal.getitimer(signal.ITIMER_REAL)
    if left > seconds:
        signal.setitimer(signal.ITIMER_REAL, seconds, again)


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in this block after `seconds`. A socket's own timeout restarts with every byte, and a DNS
    lookup has none."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("timed out")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # repeated, in case the first one was swallowed
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _declined(where: str, exc: HTTPError, patience: float) -> tuple[int, dict[str, Any]]:
    try:
        with _within(patience), exc:
            answer = _object(exc.read(LARGEST_ANSWER))
    except (OSError, HTTPException):
        answer = {}
    if exc.code != BUSY and exc.code < 502:
        return exc.code, answer
    after = exc.headers.get("retry-after") or "0"
    raise NoAnswer(
        f"{where} answered {exc.code}: {answer.get('error', '')}".removesuffix(": "),
        float(after) if after.isdigit() else 0.0,
        is_busy=exc.code == BUSY,
        remedy=str(answer.get("remedy", "")) if exc.code != BUSY else "",
    ) from exc


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
