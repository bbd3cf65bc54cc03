"""Client of `bullpen serve`: starts provisions and releases, follows them, and cancels them.

If an answer is lost, the request is repeated with the same key, and the server starts the operation only once. A
refusal is raised by its kind: ConfigError, PermissionDenied, NotFound, Conflict, Refused.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeVar
from urllib.parse import quote

from bullpen.action import workflow_commands
from bullpen.action.cancellation import HELD_BACK, Stopping
from bullpen.action.http import NoAnswer, exchange
from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    NotFound,
    PermissionDenied,
    Refused,
    Unavailable,
)
from bullpen.lazy_dataclass import dataclass
from bullpen.model.progress import ProgressReport, Tell, WorkPhase

PATIENCE = 30.0  # seconds without an answer: enough for a restart of the server
BUSY_PATIENCE = 300.0  # seconds of "too many requests": other operations end meanwhile
ANSWERS_WITHIN = 5.0  # seconds; the server starts an operation and answers at once
PAUSES = (0.5, 1.0, 2.0, 5.0)
FIRST_LOOK, LONGEST_LOOK, GROWTH = 0.1, 1.0, 1.3
RUNNING, SUCCEEDED, LOST = "running", "succeeded", "lost"  # states of an operation; the others are failures
IS_UP = "Check that `bullpen serve` runs and that this job can reach it."
IS_BUSY = "The server is at its limit of operations: start fewer workflows at once, or run the job again later."
Answer = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Server:
    """`sign_in` returns a token within the given seconds; it is called again when the server refuses the token. `words`
    map fields of a request to the workflow's inputs, so that a refusal names the input. `unanswered`: the answer of a
    request was lost, and its operation may have begun."""

    url: str
    _sign_in: Callable[[float], str]
    _stopping: Stopping
    _words: Mapping[str, str] = field(default_factory=dict)
    _token: str = field(default="", repr=False)
    unanswered: bool = False

    def enter(self, until: float | None = None) -> None:
        """Sign in."""
        until = time.monotonic() + PATIENCE if until is None else until
        self._token = self._repeated(lambda: self._sign_in(max(0.2, until - time.monotonic())), until)

    def begin(
        self, verb: str, label: str, body: Mapping[str, Any] | None, key: str, until: float = float("inf")
    ) -> Answer:
        """Start a provision or release of a label, once for each key; return the operation."""
        path = f"/v1/runs/{quote(label, safe='')}/{verb}"
        operation = self._ask("POST", path, dict(body) if body is not None else None, until, key)
        if not isinstance(operation.get("id"), str):
            raise ConfigError(
                f"server {self.url}: does not answer like `bullpen serve`",
                remedy="Set server to the URL of `bullpen serve`, without the path of an endpoint.",
            )
        return operation

    def follow(self, operation: Answer, tell: Tell, until: float = float("inf")) -> Answer:
        """Follow an operation until it has ended, or the time is up; return its last state."""
        pause, path = FIRST_LOOK, f"/v1/operations/{operation['id']}"
        while operation.get("state") == RUNNING and time.monotonic() < until:
            if (report := report_of(operation.get("progress"))) is not None:
                tell(report)
            time.sleep(min(pause, max(0.0, until - time.monotonic())))
            pause = min(LONGEST_LOOK, pause * GROWTH)
            operation = self._ask("GET", path, until=until)
        return operation

    def call_off(self, operation: Answer, until: float) -> Answer:
        return self._ask("DELETE", f"/v1/operations/{operation['id']}", until=until)

    def _ask(
        self, method: str, path: str, body: Answer | None = None, until: float = float("inf"), key: str = ""
    ) -> Answer:
        def once() -> tuple[int, Answer]:
            longest = HELD_BACK if self._stopping.is_pending else ANSWERS_WITHIN
            patience = min(longest, max(0.2, until - time.monotonic()))
            try:
                return exchange(method, f"{self.url}{path}", token=self._token, body=body, patience=patience, key=key)
            except NoAnswer as away:
                self.unanswered |= method == "POST" and away.may_have_done
                raise

        status, answer = self._repeated(once, until)
        if status == 401 and self._token:  # a run's token expires after 15 minutes
            self.enter(until)
            status, answer = self._repeated(once, until)
        if 200 <= status < 300:
            return answer
        self.unanswered |= method == "POST" and not 400 <= status < 500  # only these prove that nothing began
        raise _refusal(self.url, status, answer, self._words)

    def _repeated(self, attempt: Callable[[], T], until: float) -> T:
        failures, since, was_busy = 0, time.monotonic(), False
        while True:
            try:
                return attempt()
            except NoAnswer as away:
                if away.is_busy != was_busy:
                    failures, since, was_busy = 0, time.monotonic(), away.is_busy
                    if was_busy:
                        workflow_commands.say(f"{away}; waiting for up to {BUSY_PATIENCE:.0f} s")
                pause = max(PAUSES[min(failures, len(PAUSES) - 1)], away.retry_after)
                failures += 1
                last = min(until, since + (BUSY_PATIENCE if away.is_busy else PATIENCE))
                is_over = time.monotonic() + pause >= last
                if not is_over:
                    self._stopping.pause(pause)
                if is_over or self._stopping.is_pending:
                    remedy = away.remedy or (IS_BUSY if away.is_busy else IS_UP)
                    raise Unavailable(str(away), remedy=remedy) from away


def report_of(progress: object) -> ProgressReport | None:
    """What an operation's `progress` says; None for nothing. An older server sends a sentence, a newer one may know
    phases that this release does not: both are shown as they are."""
    if isinstance(progress, str) and progress:
        return ProgressReport(WorkPhase.ACQUIRE, progress, about=progress)
    if not isinstance(progress, dict):
        return None
    phase, known = progress.get("phase", ""), {one.value: one for one in WorkPhase}
    waiting = found if isinstance(found := progress.get("waiting"), dict) else {}
    return ProgressReport(
        known.get(phase, WorkPhase.ACQUIRE),
        str(progress.get("text", "")),
        _count(progress.get("done")),
        _count(progress.get("total")),
        waiting={known[name]: _count(count) for name, count in waiting.items() if name in known},
        about=str(progress.get("about", "")) if phase in known else str(phase),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _refusal(url: str, status: int, answer: Answer, words: Mapping[str, str]) -> BullpenError:
    says, remedy = str(answer.get("error") or f"answered {status}"), str(answer.get("remedy", ""))
    field = str(answer.get("field", "")).partition("[")[0]  # of a list, whichever entry it is
    if field in words and says.startswith(field):
        says = words[field] + says.removeprefix(field)
    match status:
        case 401:
            remedy = "Check that server-token is right and has not expired."
            return PermissionDenied(f"{url}: refused the token", remedy=remedy)
        case 403:
            return PermissionDenied(f"{url}: {says}", remedy=remedy)
        case 404:
            return NotFound(f"{url}: {says}", remedy=remedy or "Check that server is the URL of `bullpen serve`.")
        case 409:
            return Conflict(f"{url}: {says}")
        case 400 | 413 | 415 | 422:
            return ConfigError(f"{url}: {says}", remedy=remedy)
    if status >= 500:
        return Unavailable(f"{url}: {says}", remedy=remedy or "See the server's log.")
    return Refused(f"{url}: {says}", remedy=remedy)
