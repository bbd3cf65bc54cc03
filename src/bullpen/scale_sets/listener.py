"""The listener of one set: it polls the set's messages, writes down what they say, and only then acknowledges them.

    open ──▶ poll ──▶ count ──▶ acquire what it can serve ──▶ record_message ──▶ acknowledge ──▶ poll …
     ▲        │ 202: nothing                                        │ Conflict: recorded before     │
     └────────┴── the session is gone ──────────────────────────────┴──────────────────────────────┘

A message that was recorded and not acknowledged comes again, and is acknowledged then. One that was acknowledged is
durable. So a process may be killed anywhere: the next holder opens a session, whose answer has the counts of now.

No message stops the listener. An entry that cannot be read is reported and skipped, and a message without a readable id
is passed over in the end (unreadable.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from bullpen.errors import (
    BullpenError,
    Conflict,
    NotFound,
    Outdated,
    Refused,
    SessionGone,
    Throttled,
    Unavailable,
    UnreadableMessage,
)
from bullpen.model import set_session as sessions
from bullpen.model.scale_set import RETIRING, ScaleSet
from bullpen.model.set_session import JobCounts, WaitingJob
from bullpen.ports import MessageSession, Ports, SetMessage, SetStatistics
from bullpen.ports.demand import JobDemand
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.scale_sets.job_board import JobBoard, leaves_waiting
from bullpen.scale_sets.job_tally import JobTally
from bullpen.scale_sets.offers import JobOffers, acquire
from bullpen.scale_sets.ownership import session_taken
from bullpen.scale_sets.rules import UNNAMED_TABLE
from bullpen.scale_sets.session import SessionLost, SessionRecord
from bullpen.scale_sets.unreadable import Remedy, UnreadableMessages
from bullpen.structured_log import get_logger

SILENT = 45.0
"""Seconds after the last counts after which a poll without a message is followed by the question for them. A poll takes
50: so long a lost message costs, and at most 45 + 50 where the CI answers a poll sooner."""
REST = 1.0  # seconds before a poll if nothing waits and a runner idles: messages gather, and the next job needs none
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 30.0  # seconds after a failure
TAKEN_WAITS = (2.0, 4.0, 8.0, 10.0)  # seconds while another session is open: one whose holder was killed ends after 50
GIVEN_UP_AFTER = 180.0  # seconds without an answer of the CI: another process may reach it
ALARMED_AFTER = 150.0  # seconds of failure after which an operator should know
SHORT_LIFE = 5.0  # seconds: a session that ends sooner is not opened again at once

log = get_logger("bullpen.scale_sets")


class SetListener:
    """A `Demand`. `on_news` is called after each change of it."""

    def __init__(
        self,
        ports: Ports,
        scale_set: ScaleSet,
        record: SessionRecord,
        on_news: Callable[[], None],
        note: NoteActions = unnoted,
    ) -> None:
        self._ports = ports
        self.scale_set = scale_set
        self.record = record
        self.board = JobBoard(record.stored, ports.ci.instance_of)
        self.is_missing = False  # the CI does not have the set any more
        self.rests: Callable[[], bool] = lambda: False
        self.table = UNNAMED_TABLE  # of the set in the settings
        self.tally = JobTally()
        self.statistics: SetStatistics | None = None  # the last ones that could be read
        self._on_news = on_news
        self._note = note
        self._session: MessageSession | None = None
        self._last = 0
        self._demand: JobDemand | None = None
        self._failures = 0
        self._failing_since: float | None = None
        self._is_limited = False
        self._alarmed = False
        self._unreadable = UnreadableMessages(record.stored.message)
        self._opened_at = 0.0
        self._recorded: list[int] = []  # messages of this session that are not acknowledged yet
        self._offers = JobOffers(record.stored.offered)
        self.is_paused = False  # by an operator: the CI is asked for no further job
        self._unacquired = ""  # why offers could not be acquired the last time: the same reason is an error once
        self._acquire_at = 0.0  # not before

    @property
    def name(self) -> str:
        return self.scale_set.name

    def current(self) -> JobDemand | None:
        return self._demand

    def trouble(self) -> str:
        return self.record.stored.why if self._failing_since is not None else ""

    def is_limited(self) -> bool:
        return self._failing_since is not None and self._is_limited

    def waiting(self, now: datetime) -> Sequence[WaitingJob]:
        return self.board.waiting(now)

    def failing_for(self) -> float:
        """Seconds since the CI last answered, if it does not."""
        return self._time() - self._failing_since if self._failing_since is not None else 0.0

    async def run(self) -> None:
        """Listen until it is cancelled, the set is missing, or the CI has not answered for long. Raise SessionLost if
        another process holds the set, and Outdated if a newer program has taken over the store.

        A set that retires needs no session to give its runners back: if it is missing, nothing is left to hear."""
        while self.is_missing or self.failing_for() < GIVEN_UP_AFTER:
            if not self.is_missing:
                await self._turn()
            elif self.scale_set.state is RETIRING:
                await asyncio.sleep(LONGEST_BACKOFF)
            else:
                return

    async def close(self) -> bool:
        """End the session, if one is open; returns whether none is."""
        open_ids = {self.record.stored.ci_session, self._session.id if self._session else ""} - {""}
        try:
            for id in sorted(open_ids):
                await self._ports.scale_sets.close(self.scale_set.ci_id, id)
        except BullpenError:  # the next holder closes it
            return False
        self._session = None
        return True

    async def _turn(self) -> None:
        """One step: open, or poll and record. A failure is recorded, and makes the next one later."""
        try:
            if self._session is None:
                await self._open()
            else:
                await self._listen(self._session)
        except (SessionLost, Outdated):
            raise
        except SessionGone as exc:
            self._session = None
            if self._time() - self._opened_at < SHORT_LIFE:
                await self._fail(exc, FIRST_BACKOFF)
        except UnreadableMessage as exc:
            await self._meet_unreadable(exc)
        except NotFound as exc:
            self.is_missing = True
            await self._fail(exc, 0.0)
            if self.scale_set.state is RETIRING:
                self._demand = None
                self._on_news()
        except Throttled as exc:
            await self._fail(exc, max(exc.retry_after, FIRST_BACKOFF))
        except Conflict as exc:
            await self._fail(exc, TAKEN_WAITS[min(self._failures, len(TAKEN_WAITS) - 1)])
        except BullpenError as exc:
            await self._fail(exc, min(FIRST_BACKOFF * 2.0 ** min(self._failures, 8), LONGEST_BACKOFF))

    # ---- sessions

    async def _open(self) -> None:
        sets, stored = self._ports.scale_sets, self.record.stored
        if stored.ci_session:  # of the holder before, or one that this process has lost
            # Whether the service lets it be closed is not known. If it is still open, the next call says so.
            with suppress(Refused, Unavailable):
                await sets.close(self.scale_set.ci_id, stored.ci_session)
        try:
            session = await sets.open(self.scale_set.ci_id, self.record.by)
        except Conflict as exc:
            raise session_taken(exc, self.table, self.name) from exc
        try:
            counts = _counts(session.statistics)
            await self.record.write(
                sessions.open_, sessions.SessionOpened, ci_session=session.id, statistics=counts, why="it listens"
            )
        except (BullpenError, SessionLost):
            # Whether it is in the record is not known: it must not keep the place of one that is.
            with suppress(BullpenError):  # the error of the write is raised; if it stays open, `open` says so
                await sets.close(self.scale_set.ci_id, session.id)
            raise
        self._session, self._last, self._recorded = session, 0, []
        self._opened_at = now = self._time()
        self._demand = JobDemand(0, 0, now, now, listens_since=now)
        if session.statistics is not None:
            self.board.settle(session.statistics.running, session.statistics.assigned)
            self._count(session.statistics, assigns=False)
        self._on_news()
        log.info("listens to scale set", set=self.name, session=session.id)
        self._note([SetAction("listen", self.name, "the CI opened a session of messages")])
        if session.statistics is not None:
            await self._acquire(session, session.statistics)  # what the holder before had no room for

    # ---- messages

    async def _listen(self, session: MessageSession) -> None:
        if self.rests():
            await asyncio.sleep(REST)
        await self._acknowledge(session)
        capacity = 0 if self.scale_set.state is RETIRING else self.scale_set.rules.max
        if self.is_paused and capacity:
            # No job beyond those that run. But not 0: the CI would never announce what is queued meanwhile.
            capacity = max(1, self._demand.running if self._demand is not None else 0)
        began = self._time()
        message = await self._ports.scale_sets.poll(session, self._last, capacity)
        self._heard()
        if message is None and self._time() - began < FIRST_BACKOFF:
            await asyncio.sleep(FIRST_BACKOFF)  # an empty answer that was not held
        if message is not None:
            self._unreadable.end()
            await self._take(session, message)
        elif self._time() - (self._demand.counted_at if self._demand else 0.0) >= SILENT:
            await self._ask_counts(session)

    async def _take(self, session: MessageSession, message: SetMessage) -> None:
        if message.id <= self._last:  # a double of one that was dealt with
            await self._ports.scale_sets.acknowledge(session, message.id)
            return
        if message.trouble:
            log.error("message of scale set cannot be read", set=self.name, message=message.id, error=message.trouble)
        statistics = message.statistics or _as_statistics(self.record.stored.statistics)
        now = self._ports.clock.now()
        for job in message.jobs:
            self.tally.note(job)
            if alarm := self.board.hear(job, now, self._time()):
                alarm.log(log, logging.WARNING, set=self.name)
        self.board.settle(statistics.running, statistics.assigned)
        assigns = leaves_waiting(message.jobs)
        if message.statistics is not None or assigns:
            self._count(statistics, assigns=assigns)
        self._on_news()  # the claims begin beside the requests and the write
        self._offers.hear(message.jobs)
        await self._acquire(session, statistics)
        with suppress(Conflict):  # recorded before, and not acknowledged
            await self._record(statistics, message.id)
        self._last = message.id
        self._unreadable.highest = max(self._unreadable.highest, message.id)
        self._recorded.append(message.id)
        await self._acknowledge(session)

    async def _acquire(self, session: MessageSession, counts: SetStatistics) -> None:
        """The offers that the set can serve. A failure does not stop the listener: the rest of the message counts. If
        it is the session that has ended, the next call says so, too."""
        if self.is_paused or self._time() < self._acquire_at:
            return
        try:
            report = await acquire(self._ports.scale_sets, session, self._offers, self.scale_set, counts)
        except (SessionGone, Unavailable) as exc:
            self._report_unacquired(exc)
            if isinstance(exc, Unavailable):  # each call may take a minute, and messages wait behind it
                again = exc.retry_after if isinstance(exc, Throttled) else 0.0
                self._acquire_at = self._time() + max(again, LONGEST_BACKOFF)
            return
        if report.acquired:
            self._note([SetAction("acquire jobs", self.name, f"the CI offered {report.acquired}, and it has room")])
        if report.refusal is not None:
            self._report_unacquired(report.refusal)
        elif report.has_asked:
            self._unacquired = ""
        if report.gave_up:
            self._acquire_at = self._time() + LONGEST_BACKOFF

    def _report_unacquired(self, failure: BullpenError) -> None:
        is_known = str(failure) == self._unacquired
        level = log.debug if is_known else log.error
        level("jobs of scale set cannot be acquired", set=self.name, error=failure)
        if not is_known:
            self._note([SetAction("acquire jobs", self.name, str(failure), is_done=False)])
        self._unacquired = str(failure)

    async def _acknowledge(self, session: MessageSession) -> None:
        """All that is recorded; what fails is tried again before the next poll."""
        while self._recorded:
            try:
                await self._ports.scale_sets.acknowledge(session, self._recorded[0])
            except Refused as exc:  # it may come again, and is known by its id then
                log.warning("message of scale set is not acknowledged", set=self.name, error=exc)
            del self._recorded[0]

    async def _ask_counts(self, session: MessageSession) -> None:
        """A message may have been lost: the counts decide."""
        found = await self._ports.scale_sets.find(self.scale_set.ci_id)
        if found is None:
            raise NotFound(f"scale set {self.name} does not exist any more")
        statistics = found.statistics or (await self._ports.scale_sets.renew(session)).statistics
        if statistics is None:
            return
        self.board.settle(statistics.running, statistics.assigned)
        self._count(statistics, assigns=False)
        self._on_news()
        await self._acquire(session, statistics)
        await self._record(statistics, 0)

    async def _record(self, statistics: SetStatistics, message: int) -> None:
        await self.record.write(
            sessions.record_message,
            sessions.MessageRecorded,
            statistics=_counts(statistics),
            message=message,
            started=self.board.started(),
            offered=self._offers.all(),
        )

    def _heard(self) -> None:
        self._failures, self._failing_since, self._alarmed = 0, None, False
        if self._demand is not None:
            self._demand = replace(self._demand, heard_at=self._time())

    def _count(self, statistics: SetStatistics, *, assigns: bool) -> None:
        now, before = self._time(), self._demand
        self.statistics = statistics
        self._demand = JobDemand(
            assigned=statistics.assigned,
            running=statistics.running,
            counted_at=now,
            heard_at=now,
            announced_at=now if assigns and not statistics.assigned else None,
            listens_since=before.listens_since if before else now,
            starts=tuple(self.board.starts),
        )

    # ---- failures

    async def _meet_unreadable(self, failure: UnreadableMessage) -> None:
        """Try again, then in another session, then pass over it."""
        remedy, id = self._unreadable.meet()
        if remedy is Remedy.OTHER_SESSION:
            log.error("message of scale set cannot be read", set=self.name, error=failure)
            await self.close()
            self._session = None
        elif remedy is Remedy.PASS_OVER and self._session is not None:
            self._last = id
            with suppress(BullpenError):  # a message that still comes back is passed over with the next id
                await self._ports.scale_sets.acknowledge(self._session, id)
        await self._fail(failure, FIRST_BACKOFF)

    async def _fail(self, failure: BullpenError, pause: float) -> None:
        self._failures += 1
        self._failing_since = self._time() if self._failing_since is None else self._failing_since
        self._is_limited = isinstance(failure, Throttled)
        why = str(failure)
        is_known = self.record.stored.why == why[: sessions.WHY_LIMIT]
        level = log.debug if is_known else log.warning
        level("cannot listen to scale set", set=self.name, error=why)
        if not is_known:
            self._note([SetAction("listen", self.name, why, is_done=False)])
        if not self._alarmed and self.failing_for() >= ALARMED_AFTER:
            self._alarmed = True
            log.error("scale set has no listener", set=self.name, seconds=round(self.failing_for()), error=why)
        if self.record.stored.why != why[: sessions.WHY_LIMIT]:
            with suppress(BullpenError):  # without the store nothing is acknowledged, and nothing is lost
                await self.record.write(sessions.record_failure, sessions.SessionFailed, why=why)
        await asyncio.sleep(pause)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


def _counts(statistics: SetStatistics | None) -> JobCounts | None:
    if statistics is None:
        return None
    return JobCounts(statistics.assigned, statistics.running, statistics.available, statistics.acquired)


def _as_statistics(counts: JobCounts | None) -> SetStatistics:
    return SetStatistics(counts.assigned, counts.running) if counts else SetStatistics(0, 0)
