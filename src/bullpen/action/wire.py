"""One JSON request over HTTP with the standard library: proxies as everybody finds them, and no redirects."""

import json
from http.client import HTTPException, HTTPMessage
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

LARGEST_ANSWER = 8 * 1024 * 1024  # bytes: a thousand runners take less than one


class Away(Exception):
    """No answer, or one that asks to come back later; nothing is known about what was done."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class _NoRedirects(HTTPRedirectHandler):
    """A token must not follow to wherever it is sent."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def exchange(
    method: str, url: str, *, token: str = "", body: dict[str, Any] | None = None, patience: float
) -> tuple[int, dict[str, Any]]:
    """The status and the answer's JSON object. Raise Away."""
    headers = {"Accept": "application/json", "User-Agent": "bullpen-action"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    content = None
    if body is not None:
        content = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    request = Request(url, content, headers, method=method)
    where = f"{request.type}://{request.host}"
    try:
        with build_opener(_NoRedirects).open(request, timeout=patience) as response:
            return response.status, _object(response.read(LARGEST_ANSWER))
    except HTTPError as exc:
        with exc:
            answer = _object(exc.read(LARGEST_ANSWER))
        if exc.code in (429, 502, 503, 504):
            after = exc.headers.get("retry-after") or "0"
            retry_after = float(after) if after.isdigit() else 0.0
            raise Away(f"{where} answered {exc.code}: {answer.get('error', '')}", retry_after) from exc
        return exc.code, answer
    except (URLError, OSError, HTTPException) as exc:
        why = exc.reason if isinstance(exc, URLError) else str(exc) or type(exc).__name__
        raise Away(f"{where} does not answer ({why})") from exc


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
