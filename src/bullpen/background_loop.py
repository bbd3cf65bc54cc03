"""A loop of a service: does its work again and again, and reports when it keeps failing.

run_once ──▶ succeeded: the next pause is the loop's own
    │
    └──────▶ failed: logged, once for the same error, and the next pause is twice as long
                 └──▶ for FAILS_FOR seconds in a row: it counts as failing, with an error log and in `failing()`
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from bullpen.concurrency import on_event
from bullpen.errors import BullpenError, Outdated
from bullpen.lazy_dataclass import dataclass
from bullpen.pool.setbacks import reason_of
from bullpen.ports import Chance
from bullpen.ports.health import FailingLoop
from bullpen.structured_log import get_logger

JITTER = 0.2  # of each pause, either way: replicas that started together do not stay together
LONGEST_PAUSE = 60.0  # seconds between attempts of a duty that keeps failing
LONGEST_RUN = 300.0  # seconds for one run of a duty: longer than any engine's own time-outs together
FAILS_FOR = 30.0  # seconds without a success after which a loop counts as failing
TURNS_KEPT = 60
SAID_AGAIN_AFTER = 600.0  # seconds between two error logs of a loop that keeps failing

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class LoopTurn:
    """One run of the work: when it began by the event loop's clock, how many seconds it took, and whether it worked."""

    began: float
    seconds: float
    works: bool

    @property
    def ended(self) -> float:
        return self.began + self.seconds


@dataclass(slots=True)
class LoopPace:
    """All turns of a loop since it began, counted, and when one last succeeded by the event loop's clock."""

    turns: int = 0
    failures: int = 0
    succeeded_at: float | None = None

    def note(self, turn: LoopTurn) -> None:
        self.turns += 1
        if turn.works:
            self.succeeded_at = turn.ended
        else:
            self.failures += 1


log = get_logger("bullpen.controllers")


class Unpaid(BullpenError):
    """Some debts could not be paid. Each has its own pause, and all others were paid: the loop keeps its pace."""


class Loop:
    """One loop and its pace. A failure is logged and makes the next pause longer. Only Outdated ends the loop: a newer
    program has taken over the store."""

    def __init__(self, name: str, every: float, work: Work, chance: Chance) -> None:
        self.name = name
        self.every = every
        self._work = work
        self._chance = chance
        self._failures = 0  # in a row, as far as they lengthen the pause
        self._times = 0  # in a row, since `_since` on the loop's clock
        self._since = 0.0
        self._error = ""
        self._said_at: float | None = None  # when the error was last logged
        self._alive_at: float | None = None
        self._woken = asyncio.Event()
        self.pace = LoopPace()
        self.turns: deque[LoopTurn] = deque(maxlen=TURNS_KEPT)  # the last ones, oldest first

    def wake(self) -> None:
        """Work again soon: there is something to do."""
        self._woken.set()

    async def run_once(self) -> bool:
        """Do the work once; returns whether it succeeded. Raises nothing but Outdated."""
        self._alive_at = began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(LONGEST_RUN):
                await self._work()
        except Outdated:
            raise
        except TimeoutError:
            self._note_failure(TimeoutError(f"did not end within {LONGEST_RUN:g} s and was cancelled"))
        except Exception as exc:
            self._note_failure(exc)
        else:
            self._note_success()
        self._alive_at = asyncio.get_running_loop().time()
        self.turns.append(LoopTurn(began, self._alive_at - began, self._times == 0))
        self.pace.note(self.turns[-1])
        return self._times == 0

    async def run(self, stop: asyncio.Event) -> None:
        """Do the work until `stop`; a run that has begun is finished first."""
        call_off = on_event(stop, self.wake)
        try:
            while not stop.is_set():
                self._woken.clear()
                await self.run_once()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await self._woken.wait()
        finally:
            call_off()

    @property
    def error(self) -> str:
        """Why its last run failed; empty if it worked."""
        return self._error if self._times else ""

    @property
    def quiet_since(self) -> float | None:
        """When its last turn ended, by the event loop's clock; when its first one began, if none has ended yet."""
        return self.turns[-1].ended if self.turns else self._alive_at

    def is_alive(self) -> bool:
        """True if it ran recently; False before its first run."""
        allowed = LONGEST_RUN + 2 * max(self.every, LONGEST_PAUSE)
        return self._alive_at is not None and asyncio.get_running_loop().time() - self._alive_at < allowed

    def failing(self, now: datetime) -> FailingLoop | None:
        """Since when, and why, if it keeps failing; `now` is the wall clock's time."""
        if not self._is_failing():
            return None
        return FailingLoop(self.name, now - timedelta(seconds=self._lasts()), self._error)

    def _lasts(self) -> float:
        return asyncio.get_running_loop().time() - self._since

    def _is_failing(self) -> bool:
        return self._times > 1 and self._lasts() >= FAILS_FOR

    def _note_failure(self, failure: Exception) -> None:
        now, error = asyncio.get_running_loop().time(), reason_of(failure)
        self._log(failure, is_known=self._times > 0 and error == self._error)
        self._since = self._since if self._times else now
        self._times, self._error = self._times + 1, error
        if self._is_failing() and (self._said_at is None or now - self._said_at >= SAID_AGAIN_AFTER):
            self._said_at = now
            lasts = round(self._lasts())
            log.error("controller keeps failing", controller=self.name, times=self._times, seconds=lasts, error=error)
        # Each debt that could not be paid has a pause of its own.
        self._failures = 0 if isinstance(failure, Unpaid) else self._failures + 1

    def _log(self, failure: Exception, *, is_known: bool) -> None:
        """Once for the same error: a loop that fails again for the same reason says nothing new."""
        if not isinstance(failure, BullpenError | TimeoutError):
            log.error("controller failed unexpectedly", exc_info=failure, controller=self.name)
        elif not isinstance(failure, Unpaid):  # the payer of debts has logged it
            level = logging.DEBUG if is_known else logging.WARNING
            log.log(level, "controller failed", controller=self.name, error=failure)

    def _note_success(self) -> None:
        if self._said_at is not None:
            log.info("controller works again", controller=self.name, seconds=round(self._lasts()))
        self._times, self._failures, self._said_at = 0, 0, None

    def _pause(self) -> float:
        pause = min(self.every * 2.0 ** min(self._failures, 16), max(self.every, LONGEST_PAUSE))
        return pause * self._chance.uniform(1 - JITTER, 1 + JITTER)
