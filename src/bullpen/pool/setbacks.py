"""Setbacks: which records a process could not work on, why, and when it tries again. Each waits longer each time.

Kept in memory only: another process, or this one after a restart, tries at once.
"""

import asyncio
import logging
from collections.abc import Iterable

from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass
from bullpen.structured_log import get_logger

FIRST_PAUSE = 1.0  # seconds; doubled with each failure
LONGEST_PAUSE = 60.0
FORGOTTEN_AFTER = 3 * LONGEST_PAUSE
"""Seconds past its time after which a setback is forgotten: another process has done the work, so the record is not due
any more."""
SAID_AGAIN_AFTER = 600.0  # seconds between two logs of the same record

log = get_logger("bullpen.pool.debts")


@dataclass(slots=True)
class _Setback:
    failures: int
    retry_at: float
    reason: str
    said_at: float


class Setbacks:
    def __init__(self) -> None:
        self._of: dict[str, _Setback] = {}

    def note(self, id: str, failure: Exception) -> None:
        """The attempt failed: log it, the first time and then rarely, and wait before the next."""
        now = _now()
        before = self._of.get(id)
        failures = before.failures + 1 if before else 1
        pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
        said_at = before.said_at if before else now
        if before is None or now - said_at >= SAID_AGAIN_AFTER:
            said_at = now
            unexpected = not isinstance(failure, BullpenError)
            log.log(
                logging.ERROR if unexpected else logging.WARNING,
                "debt not paid",
                record=id,
                attempt=failures,
                error=reason_of(failure),
                exc_info=failure if unexpected else None,
            )
        self._of[id] = _Setback(failures, now + pause, reason_of(failure), said_at)

    def forget(self, ids: Iterable[str]) -> None:
        """It was done, or is not owed any more."""
        for id in ids:
            self._of.pop(id, None)

    def waiting(self) -> set[str]:
        """The records whose next attempt is not due yet."""
        now = _now()
        return {id for id, setback in self._of.items() if setback.retry_at > now}

    def reasons(self) -> dict[str, str]:
        """Every record with a lasting setback, and the last reason."""
        now = _now()
        self._of = {id: one for id, one in self._of.items() if now - one.retry_at < FORGOTTEN_AFTER}
        return {id: one.reason for id, one in self._of.items()}


def reason_of(failure: BaseException) -> str:
    """One line for people: the message of Bullpen's own errors, or the type and text of any other."""
    text = str(failure) if isinstance(failure, BullpenError) else f"{type(failure).__name__}: {failure}"
    return " ".join(text.split())[:300]


def _now() -> float:
    return asyncio.get_running_loop().time()
