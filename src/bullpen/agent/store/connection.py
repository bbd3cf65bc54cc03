"""Requests to `bullpen serve` over one kept-alive connection, with time-outs and a pause after each failure; and the
output of a job on its way there.

Only the standard library, and no retries behind the caller's back: the agent's loop decides what to do next. After a
failure the next attempt waits for a random part of a time that doubles from 1 to 30 seconds, so that a service that
comes back is not met by all its agents at once.
"""

from __future__ import annotations

import json
import random
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds
LARGEST_ANSWER = 4 * 1024 * 1024  # bytes
GATHERED_FOR = 0.5  # seconds of a job's output, or
CHUNK = 64 * 1024  # bytes, whichever comes first: a request for each line would cost more than the line
MOST_KEPT = 1024 * 1024  # bytes that wait for a service that is away; what comes after them is lost
Answer = dict[str, Any]


class ServiceAway(Exception):
    """The service did not answer, or not now; nothing is known about what it did."""


class FixedToken:
    """What lets the agent in: one token for good. A subclass may fetch another one when that was refused."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token to show. Raise ServiceAway if there is none now."""
        return self._token

    def refused(self, token: str) -> None:
        """The service does not know it (any more)."""


class Caller:
    """One connection to the service. Not for two threads."""

    def __init__(self, url: str, shown: FixedToken, patience: float) -> None:
        self._url = urlsplit(url)
        self._badge = shown
        self._patience = patience
        self._connection: HTTPConnection | None = None
        self._failures = 0
        self._not_before = 0.0

    def pause_left(self) -> float:
        """Seconds until the next attempt may be made."""
        return max(0.0, self._not_before - time.monotonic())

    def call(self, method: str, path: str, body: Answer | bytes | None = None) -> tuple[int, Answer]:
        """The status and the answer; ServiceAway for none, or one that asks to come back later."""
        if self.pause_left() > 0:
            raise ServiceAway("waiting before the next attempt")
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            token = self._badge.token()
            status, answer, retry_after = self._exchange(method, path, content, token)
        except ServiceAway:
            self._failed()
            raise
        except (OSError, HTTPException, ValueError) as exc:
            self._failed()
            raise ServiceAway(f"{self._url.netloc}: {str(exc) or type(exc).__name__}") from exc
        if status == 401:
            self._badge.refused(token)
        if status in (401, 403, 429) or status >= 500:
            self._failed(at_least=retry_after)
            raise ServiceAway(f"{self._url.netloc} answered {status}: {answer.get('error', '')}")
        self._failures = 0
        return status, answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, content: bytes | None, token: str) -> tuple[int, Answer, float]:
        is_fresh = self._connection is None
        try:
            return self._send(method, path, content, token)
        except (ConnectionError, HTTPException):
            # A kept connection that the service closed meanwhile says nothing about the service.
            if is_fresh:
                raise
            self.close()
            return self._send(method, path, content, token)

    def _send(self, method: str, path: str, content: bytes | None, token: str) -> tuple[int, Answer, float]:
        if self._connection is None:
            kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
            self._connection = kind(self._url.netloc, timeout=self._patience)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        found = json.loads(response.read(LARGEST_ANSWER) or b"{}")
        retry_after = response.getheader("retry-after") or "0"
        if not isinstance(found, dict):
            raise ValueError("the answer is not a JSON object")
        return response.status, found, float(retry_after) if retry_after.isdigit() else 0.0

    def _failed(self, at_least: float = 0.0) -> None:
        self.close()
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._not_before = time.monotonic() + max(at_least, random.uniform(0, longest))


class HttpLog:
    """Where the output of one assignment goes: gathered for a moment, and kept while the server does not answer. Never
    an error: what cannot be kept is lost."""

    def __init__(self, caller: Caller, path: str, fence: int) -> None:
        self._caller = caller
        self._path = path
        self._fence = fence
        self._offset = 0
        self._waiting = b""
        self._since = 0.0
        self._closed = self._refused = False

    @property
    def is_over(self) -> bool:
        return self._refused or (self._closed and not self._waiting)

    def write(self, content: bytes) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += content[: MOST_KEPT - len(self._waiting)]
        self.flush()

    def close(self) -> None:
        self._closed = True
        self.flush(at_once=True)

    def flush(self, *, at_once: bool = False) -> None:
        """Send what has been gathered for long enough."""
        while self._waiting and not self._refused:
            if not at_once and len(self._waiting) < CHUNK and time.monotonic() < self._since + GATHERED_FOR:
                return
            chunk = self._waiting[:CHUNK]
            where = urlencode({"fence": self._fence, "offset": self._offset})
            try:
                status, _ = self._caller.call("POST", f"{self._path}?{where}", chunk)
            except ServiceAway:
                return
            # Refused for good: the job belongs to another, or its log is full.
            self._refused = status >= 300
            self._offset += len(chunk)
            self._waiting = self._waiting[len(chunk) :]
