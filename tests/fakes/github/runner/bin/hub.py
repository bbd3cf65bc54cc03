"""The wire between the stand-in for GitHub's runner and the GitHub of our tests."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit


class Refused(Exception):
    def __init__(self, word: str, status: int, message: str) -> None:
        super().__init__(message)
        self.word = word
        self.status = status


class Away(Exception):
    """There is no answer."""


class Hub:
    """Speaks for one runner, if it is known by now."""

    def __init__(self, url: str, **known: Any) -> None:
        self._netloc = urlsplit(url).netloc
        self.known = known

    def say(self, word: str, **more: Any) -> dict[str, Any]:
        """The answer; empty if it has no content."""
        connection = HTTPConnection(self._netloc, timeout=60)
        try:
            content = json.dumps({**self.known, **more})
            connection.request("POST", f"/_runner/{word}", content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as exc:
            raise Away(f"{self._netloc}: {exc}") from exc
        finally:
            connection.close()
        found: dict[str, Any] = json.loads(body) if body else {}
        if answer.status >= 300:
            raise Refused(word, answer.status, found.get("message", ""))
        return found
