"""How jobs come to sets, and what their listeners hear of it. All functions expect the state's lock to be held.

    queued ──► waits ──► assigned ──► started ──► completed        messages: JobAssigned, JobStarted, JobCompleted
                 ▲           │
                 └── 5 min ──┘ JobCompleted without a runner; after the third time no message tells of it again

As on github.com, a job is assigned while the set has fewer than its session's announced capacity, and one that is
queued at a capacity of 0 is never announced. With `offers`, as on GitHub Enterprise Server, jobs come as JobAvailable
and are assigned when they are acquired, whatever the capacity.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

from fakes.github.scale_sets.records import (
    ASSIGNED,
    AVAILABLE,
    COMPLETED,
    MOST_ENTRIES,
    QUEUE_TOKENS_LAST,
    STARTED,
    Json,
    Message,
    ScaleSet,
    Session,
    SetJob,
    counted,
    entry,
)
from fakes.github.state import QUEUED, Job, Run, Runner, State

LAPSES = 3


class Sets:
    """The fields are what a test may change; times are seconds."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.sets: dict[int, ScaleSet] = {}
        self.jobs: list[SetJob] = []
        self.ids, self.requests = itertools.count(17), itertools.count(70_000_000_001)
        self.url = ""  # of acquiring
        self.offers = False
        self.silence = 50.0  # after which a session without a poll ends
        self.lapse = 300.0  # for which an assignment waits for a runner
        self.forgotten = 7 * 86400.0  # for which a set lives without a listener
        self.statistics_lag = 0.0
        self.reruns_are_announced = False  # to a set without a registered runner
        self.frees_on_delete = True  # whether the end of a dead session, asked for by another process, frees its place
        self.spoil: Callable[[str, Json], float | None] = lambda kind, entry: 0.0  # seconds late; None: never sent
        self.garble: Callable[[Message], str] = lambda message: ""
        state.on_event.append(self._happened)

    # ---------------------------------------------------------------------------------------------------------- sets

    def create(self, scope: str, name: str, group: int, labels: tuple[str, ...], disable_update: bool) -> ScaleSet:
        now = self.state.clock()
        made = ScaleSet(next(self.ids), scope, name, group, labels or (name,), disable_update, now, now)
        self.sets[made.id] = made
        for run in self.state.runs.values():
            for job in run.attempts[-1]:
                if job.status == QUEUED and job.runner is None and self._of(job) is None:
                    self._queue(job)
        self.state.changed()
        return made

    def delete(self, found: ScaleSet) -> None:
        self.end_session(found)
        del self.sets[found.id]
        self.jobs = [one for one in self.jobs if one.set is not found]
        for runner in self.runners(found):
            if not runner.busy:
                self.state.remove_runner(runner)
        self.state.changed()

    def runners(self, found: ScaleSet) -> list[Runner]:
        return [one for one in self.state.runners.values() if one.scale_set == found.id]

    def statistics(self, found: ScaleSet) -> Json:
        """As they are shown: late if they lag."""
        now = counted([one for one in self.jobs if one.set is found], self.runners(found), found.phantoms)
        if not found.history or found.history[-1][1] != now:
            found.history.append((self.state.clock(), now))
        since = self.state.clock() - timedelta(seconds=self.statistics_lag)
        return next((shown for at, shown in reversed(found.history) if at <= since), found.history[0][1])

    # ------------------------------------------------------------------------------------------------------- sessions

    def open(self, found: ScaleSet, owner: str) -> Session | None:
        """None while another one is open."""
        if found.session is not None:
            return None
        now = self.state.clock()
        found.session = Session(found, owner, now, now + QUEUE_TOKENS_LAST)
        found.heard_at = now
        return found.session

    def end_session(self, found: ScaleSet) -> None:
        found.session = found.capacity = None
        self.state.changed()

    def announce(self, session: Session, capacity: int) -> None:
        session.set.capacity = capacity
        session.seen_at = session.set.heard_at = self.state.clock()
        self.admit(session.set)

    # ------------------------------------------------------------------------------------------------------- messages

    def next_message(self, found: ScaleSet, last: int) -> Message | None:
        """The oldest that is not acknowledged, or one that comes once more, or a new one of what is due."""
        found.messages = [one for one in found.messages if one.repeats or not one.is_acknowledged]
        for message in found.messages:
            if message.repeats and message.is_acknowledged:
                message.repeats -= 1
                return message
            if not message.is_acknowledged and message.id > last:
                return message
        now = self.state.clock()
        due = [one for one in found.entries if one[0] <= now][:MOST_ENTRIES]
        if not due:
            return None
        found.entries = [one for one in found.entries if one not in due]
        message = Message(next(found.message_ids), [shown for _, shown in due], self.statistics(found))
        message.garbled = self.garble(message)
        found.messages.append(message)
        return message

    def acknowledge(self, found: ScaleSet, id: int) -> None:
        for message in found.messages:
            if message.id == id:
                message.is_acknowledged = True
        self.state.changed()

    def tell(self, kind: str, held: SetJob) -> None:
        told = entry(kind, held, self.url)
        if (late := self.spoil(kind, told)) is not None:
            held.set.entries.append((self.state.clock() + timedelta(seconds=late), told))

    # ----------------------------------------------------------------------------------------------------------- jobs

    def admit(self, found: ScaleSet) -> None:
        """Assign what waits, as far as the announced capacity allows."""
        mine = [one for one in self.jobs if one.set is found]
        room = (found.capacity or 0) - sum(one.assigned_at is not None for one in mine)
        waiting = [one for one in mine if one.assigned_at is None and not one.is_silent and not one.request]
        for one in waiting[: max(0, room)]:
            self._assign(one)

    def acquire(self, found: ScaleSet, requests: list[int]) -> list[int]:
        mine = {one.request: one for one in self.jobs if one.set is found and one.request}
        for request in requests:
            if request in mine and mine[request].assigned_at is None:
                self._assign(mine[request])
        self.state.changed()
        return [request for request in requests if request in mine]

    def sweep(self) -> None:
        """What time does by itself."""
        now = self.state.clock()
        for found in list(self.sets.values()):
            session = found.session
            if session is not None and session.polls:
                session.seen_at = found.heard_at = now
            if session is not None and _is_over(session.seen_at, self.silence, now):
                self.end_session(found)
            if found.session is None and _is_over(found.heard_at, self.forgotten, now):
                self.delete(found)
            if found.entries and found.entries[0][0] <= now:
                self.state.changed()
        for one in self.jobs:
            if one.assigned_at and one.job.runner is None and _is_over(one.assigned_at, self.lapse, now):
                self._lapse(one)

    def _lapse(self, held: SetJob) -> None:
        self.tell(COMPLETED, held)
        held.assigned_at, held.lapses = None, held.lapses + 1
        held.is_silent = held.lapses >= LAPSES
        if held.request and not held.is_silent:
            self.tell(AVAILABLE, held)
        self.admit(held.set)
        self.state.changed()

    def _happened(self, event: str, action: str, run: Run, job: Job | None) -> None:
        if event != "workflow_job" or job is None:
            return
        held = self._of(job)
        if action == "queued":
            self._queue(job)
        elif held is not None and action == "in_progress":
            self._started(held)
        elif held is not None and action == "completed":
            self.jobs.remove(held)
            if held.assigned_at is not None:
                self.tell(COMPLETED, held)
            self.admit(held.set)

    def _queue(self, job: Job) -> None:
        found = next((one for one in self.sets.values() if one.fits(self.state, job)), None)
        if found is None:
            return
        held = SetJob(job, found, request=next(self.requests) if self.offers else 0)
        held.is_silent = found.session is not None and found.capacity == 0
        if job.attempt > 1 and not self.runners(found):
            held.is_silent = not self.reruns_are_announced
        self.jobs.append(held)
        if self.offers:
            self.tell(AVAILABLE, held)
        else:
            self.admit(found)

    def _assign(self, held: SetJob) -> None:
        held.assign(self.state.clock())
        self.tell(ASSIGNED, held)
        self.state.changed()

    def _started(self, held: SetJob) -> None:
        runner = held.job.runner
        if runner is None or runner.scale_set != held.set.id:  # another kind of runner has taken it
            self.jobs.remove(held)
            return
        if held.assigned_at is None:
            held.assign(self.state.clock())
        self.tell(STARTED, held)

    def _of(self, job: Job) -> SetJob | None:
        return next((one for one in self.jobs if one.job is job), None)


def _is_over(since: datetime, seconds: float, now: datetime) -> bool:
    return now - since >= timedelta(seconds=seconds)
