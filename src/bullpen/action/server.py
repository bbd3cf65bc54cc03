"""`bullpen serve` as a step sees it: provisions and releases are begun there, watched, and called off.

An answer that is lost on the way is asked for again: a provision that is asked for twice only tops up, and a release
has nothing left to do. What the server refuses is raised as what it asks for: ConfigError, PermissionDenied, Refused.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from bullpen.action.stopping import Stopping
from bullpen.action.wire import Away, exchange
from bullpen.errors import BullpenError, ConfigError, NotFound, PermissionDenied, Refused, Unavailable

PATIENCE = 30.0  # seconds without an answer, a restart of the server included
ANSWERS_WITHIN = 5.0  # seconds; the server begins an operation and answers at once
PAUSES = (0.5, 1.0, 2.0, 5.0)
FIRST_LOOK, LONGEST_LOOK, GROWTH = 0.1, 1.0, 1.3
Answer = dict[str, Any]
T = TypeVar("T")


class Server:
    """`sign_in` gives the token to show, and a fresh one when the old one is refused."""

    def __init__(self, url: str, sign_in: Callable[[], str], stopping: Stopping) -> None:
        self.url = url.rstrip("/")
        self._sign_in = sign_in
        self._token = ""
        self._stopping = stopping

    def enter(self) -> None:
        """Sign in."""
        self._token = self._repeated(self._sign_in, time.monotonic() + PATIENCE)

    def begin(self, verb: str, label: str, body: Mapping[str, Any] | None) -> Answer:
        """Start provisioning or releasing a label; the operation."""
        return self._ask("POST", f"/v1/runs/{quote(label, safe='')}/{verb}", dict(body) if body is not None else None)

    def follow(self, operation: Answer, tell: Callable[[str], None], until: float = float("inf")) -> Answer:
        """Watch it until it has ended, or the time is up; the operation as it is then."""
        pause = FIRST_LOOK
        while operation.get("state") == "running" and time.monotonic() < until:
            if progress := operation.get("progress"):
                tell(str(progress))
            time.sleep(min(pause, max(0.0, until - time.monotonic())))
            pause = min(LONGEST_LOOK, pause * GROWTH)
            operation = self._ask("GET", f"/v1/operations/{operation['id']}", until=until)
        return operation

    def call_off(self, operation: Answer, until: float) -> None:
        self._ask("DELETE", f"/v1/operations/{operation['id']}", until=until)

    def _ask(self, method: str, path: str, body: Answer | None = None, until: float = float("inf")) -> Answer:
        def once() -> tuple[int, Answer]:
            patience = min(ANSWERS_WITHIN, max(0.2, until - time.monotonic()))
            return exchange(method, f"{self.url}{path}", token=self._token, body=body, patience=patience)

        last = min(until, time.monotonic() + PATIENCE)
        status, answer = self._repeated(once, last)
        if status == 401 and self._token:  # a run's token lasts for a quarter of an hour
            self._token = self._repeated(self._sign_in, last)
            status, answer = self._repeated(once, last)
        if 200 <= status < 300:
            return answer
        raise _refusal(self.url, status, answer)

    def _repeated(self, attempt: Callable[[], T], last: float) -> T:
        failures = 0
        while True:
            try:
                return attempt()
            except Away as away:
                pause = max(PAUSES[min(failures, len(PAUSES) - 1)], away.retry_after)
                failures += 1
                if time.monotonic() + pause >= last or self._stopping.is_pending:
                    raise Unavailable(str(away), remedy="Is `bullpen serve` up, and reachable from this job?") from away
                time.sleep(pause)


def _refusal(url: str, status: int, answer: Answer) -> BullpenError:
    says, remedy = str(answer.get("error") or f"answered {status}"), str(answer.get("remedy", ""))
    match status:
        case 401:
            return PermissionDenied(f"{url}: does not know the token", remedy="Is server-token right, and not expired?")
        case 403:
            return PermissionDenied(f"{url}: {says}", remedy=remedy or "The token needs the scope operate.")
        case 404:
            return NotFound(f"{url}: {says}", remedy=remedy or "Is server the URL of a `bullpen serve`?")
        case 400 | 413 | 415 | 422:
            return ConfigError(f"{url}: {says}", remedy=remedy)
    return Refused(f"{url}: {says}", remedy=remedy)
