"""DynamoDB over one kept-alive connection: signature version 4 and JSON.

It also travels in user data. Each request is sent once, and the caller decides what a failure means; only a kept
connection that went stale is replaced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from bullpen.agent.aws.sigv4 import Credentials, signed

LATER = ("Throttling", "ThroughputExceeded", "LimitExceeded", "TransactionConflict", "TransactionInProgress")


class DynamoUnanswered(Exception):
    """No answer that says anything: whether the request was carried out is not known."""


class DynamoThrottled(DynamoUnanswered):
    """Not now; nothing was done."""


class DynamoRefused(Exception):
    """The same again will not help."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class ConditionFailed(Exception):
    """Nothing was written. `items`: what each write met, where asked for."""

    def __init__(self, message: str, items: list[dict[str, Any] | None]) -> None:
        super().__init__(message)
        self.items = items


class DynamoDB:
    """The tables of one region. Not for two threads."""

    def __init__(
        self, region: str, credentials: Callable[[], Credentials], endpoint: str = "", patience: float = 3.0
    ) -> None:
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        self._url = urlsplit(endpoint or f"https://dynamodb.{region}.{domain}")
        self._region, self._credentials, self._patience = region, credentials, patience
        self._connection: HTTPConnection | None = None

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Raise DynamoUnanswered, DynamoThrottled, ConditionFailed or DynamoRefused, and what `credentials` raises."""
        body = json.dumps(request).encode()
        kind = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"DynamoDB_20120810.{operation}"}
        host = self._url.netloc
        headers = signed(self._credentials(), self._region, "dynamodb", host, kind, body, time.time())
        try:
            status, found = self._exchange(body, headers)
        except (OSError, HTTPException, ValueError) as exc:
            self.close()
            raise DynamoUnanswered(f"{operation}: {host}: {exc!r}") from exc
        if status == 200:
            return found
        raise _error(operation, status, found)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        is_kept = self._connection is not None
        try:
            return self._send(body, headers)
        except (ConnectionError, HTTPException):
            if not is_kept:
                raise
            self.close()
            return self._send(body, headers)

    def _send(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if self._connection is None:
            kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
            self._connection = kind(self._url.netloc, timeout=self._patience)
        self._connection.request("POST", "/", body, headers)
        response = self._connection.getresponse()
        content = response.read()
        found = json.loads(content) if response.status < 500 else {}
        if not isinstance(found, dict):
            raise ValueError("the answer is not a JSON object")
        return response.status, found


def _error(operation: str, status: int, found: dict[str, Any]) -> Exception:
    code = str(found.get("__type", "")).rpartition("#")[2]
    message = f"{operation}: {found.get('message') or found.get('Message') or f'answered {status}'}"
    reasons = found.get("CancellationReasons") or [{"Code": code, "Item": found.get("Item")}]
    codes = [reason.get("Code") or "" for reason in reasons]
    if any(said.startswith("ConditionalCheckFailed") for said in codes):
        return ConditionFailed(message, [reason.get("Item") for reason in reasons])
    if any(word in said for said in (code, *codes) for word in LATER):
        return DynamoThrottled(message)
    return DynamoUnanswered(message) if status >= 500 else DynamoRefused(code or str(status), message)
