"""GitHub's service of scale sets in memory, shared by all simulated processes. Nothing here awaits.

    queued ──► waits ──► assigned ──► started ──► completed        messages: JobAssigned, JobStarted, JobCompleted
                 ▲           │
                 └── LAPSE ──┘ JobCompleted without a runner; after the third time no message tells of it again

A job is assigned while the set has fewer than the capacity that its session announced. One that is queued at capacity 0
is never announced, and a re-run is not announced to a set without a runner; a runner gets any of them. `MemoryGithub`
says which runner takes which job.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from random import Random  # noqa: TID251  seeded: the same seed gives the same history

from bullpen.engines.memory.clock import LoopClock
from bullpen.engines.memory.set_messages import NO_TROUBLE, SetQueue, SetTroubles
from bullpen.engines.memory.set_records import OpenSession, QueuedJob, StoredSet, told
from bullpen.errors import Conflict, NotFound, Refused, SessionGone
from bullpen.ports import Conclusion, JobMessageKind, RegisteredSet, ScaleSetSpec, SetMessage, SetStatistics

HOLD = 50.0
"""Seconds for which a poll without a message is held."""
SILENCE = 50.0
"""Seconds after a poll, or after it was opened, for which a session lasts without the next one."""
NOTICED = 10.0
"""Seconds after the time of a poll until the service notices that its caller was killed meanwhile."""
LAPSE = 300.0
"""Seconds for which an assigned job waits for a runner."""
LAPSES = 3
FORGOTTEN = 7 * 86400.0
"""Seconds without a listener after which a set is deleted."""
GROUPS = {"": 1, "default": 1, "special": 2}
RESULTS = {Conclusion.SUCCESS: "succeeded", Conclusion.FAILURE: "failed"}


class SetService:
    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.sets: dict[int, StoredSet] = {}
        self.on_delete: Callable[[StoredSet], None] = lambda found: None
        self.frees_on_close = True
        """Whether a session that is closed frees its place at once; otherwise by its silence."""
        self._troubles = NO_TROUBLE
        self._clock = LoopClock()
        self._number = 16

    @property
    def troubles(self) -> SetTroubles:
        return self._troubles

    @troubles.setter
    def troubles(self, troubles: SetTroubles) -> None:
        self._troubles = troubles
        for found in self.sets.values():
            found.queue.troubles = troubles

    def happens(self, rate: float) -> bool:
        return rate > 0.0 and self.random.random() < rate

    def number(self) -> int:
        self._number += 1
        return self._number

    # ---- sets

    def create(self, spec: ScaleSetSpec) -> StoredSet:
        self._check_free(spec, None)
        made = StoredSet(spec, self.number(), SetQueue(self.random, self._troubles), self._time())
        self.sets[made.id] = made
        return made

    def correct(self, id: int, spec: ScaleSetSpec) -> StoredSet:
        found = self.of(id)
        self._check_free(spec, found)
        found.spec = spec
        return found

    def delete(self, id: int) -> None:
        """As its owner asks for, or in an incident."""
        if (found := self.sets.get(id)) is not None:
            found.session = None
            self.on_delete(found)
            del self.sets[id]
            found.bell.ring()

    def of(self, id: int) -> StoredSet:
        """Raise NotFound if there is none."""
        found = self.sets.get(id)
        if found is not None and self._live(found) is None and self._time() - found.heard_at > FORGOTTEN:
            self.delete(id)
            found = None
        if found is None:
            raise NotFound(f"scale set {id} does not exist")
        return found

    def named(self, name: str, group: str) -> StoredSet | None:
        wanted = (_group(group), name.casefold())
        all = self.sets.values()
        return next((one for one in all if (_group(one.spec.group), one.spec.name.casefold()) == wanted), None)

    def shown(self, found: StoredSet) -> RegisteredSet:
        spec = found.spec
        labels = spec.labels or (spec.name,)
        return RegisteredSet(
            found.id, spec.name, _group(spec.group), labels, spec.disable_update, self.statistics(found)
        )

    def statistics(self, found: StoredSet) -> SetStatistics:
        """As they are shown: late if they lag."""
        running = sum(job.started_at is not None for job in found.jobs.values())
        assigned, registered = len(found.assigned), len(found.runners)
        now = SetStatistics(assigned + found.phantoms, running, 0, assigned, registered, running, registered - running)
        if not found.history or found.history[-1][1] != now:
            found.history.append((self._time(), now))
        since = self._time() - self._troubles.statistics_lag
        while len(found.history) > 1 and found.history[1][0] <= since:
            found.history.pop(0)
        return found.history[0][1]

    # ---- sessions and messages

    def open(self, id: int, owner: str) -> OpenSession:
        found = self.of(id)
        if self._live(found) is not None:
            raise Conflict(f"scale set {id}: another session is open")
        found.session = OpenSession(f"s-{self.number()}", owner, self._time() + SILENCE)
        found.capacity, found.heard_at = None, self._time()
        return found.session

    def session(self, id: int, session_id: str) -> StoredSet:
        """The set that has this session. Raise SessionGone."""
        found = self.sets.get(id)
        session = self._live(found) if found is not None else None
        if found is None or session is None or session.id != session_id:
            raise SessionGone(f"scale set {id}: its session has ended")
        return found

    def close(self, id: int, session_id: str) -> None:
        """Gone already is success."""
        found = self.sets.get(id)
        if found is not None and found.session is not None and found.session.id == session_id and self.frees_on_close:
            self.drop(id)

    def acknowledge(self, id: int, session_id: str, message: int) -> None:
        found = self.sets.get(id)
        if found is not None and found.session is not None and found.session.id == session_id:
            found.queue.acknowledge(message)

    def drop(self, id: int) -> None:
        """Its session has ended, for no visible reason."""
        found = self.of(id)
        found.session = found.capacity = None
        found.bell.ring()

    def begin_poll(self, id: int, session_id: str, last: int, capacity: int) -> SetMessage | None:
        found = self.session(id, session_id)
        if self.happens(self._troubles.dropped):
            self.drop(id)
        found = self.session(id, session_id)
        assert found.session is not None
        found.session.ends_at, found.heard_at = self._time() + HOLD + NOTICED, self._time()
        found.capacity = capacity
        self.admit(found)
        return self.next_message(id, session_id, last)

    def next_message(self, id: int, session_id: str, last: int) -> SetMessage | None:
        found = self.session(id, session_id)
        return found.queue.next(last, self._time(), self.statistics(found))

    def end_poll(self, id: int, session_id: str) -> None:
        """It was answered. The poll of a killed process never is."""
        found = self.sets.get(id)
        if found is not None and found.session is not None and found.session.id == session_id:
            found.session.ends_at = self._time() + SILENCE

    # ---- jobs, as `MemoryGithub` moves them

    def queued(self, key: int, repository: str, run: int, name: str, label: str, is_rerun: bool) -> None:
        found = next((one for one in self.sets.values() if label.casefold() in one.labels), None)
        if found is None:
            return
        job = QueuedJob(key, repository, run, name, label, self._clock.now())
        listens = self._live(found) is not None
        job.silent = (listens and found.capacity == 0) or (is_rerun and not found.runners)
        if not listens and self.happens(self._troubles.unannounced):
            job.silent = True
        found.jobs[key] = job
        self.admit(found)

    def started(self, key: int, runner: str) -> None:
        if (held := self._holding(key)) is None:
            return
        found, job = held
        job.runner, job.started_at = runner, self._clock.now()
        if job.assigned_at is None:
            self._give(job)
        self._tell(found, job, JobMessageKind.STARTED)
        if self.happens(self._troubles.false_end):
            self._tell(found, job, JobMessageKind.COMPLETED, "succeeded")

    def completed(self, key: int, conclusion: Conclusion) -> None:
        if (held := self._holding(key)) is None:
            return
        found, job = held
        del found.jobs[key]
        if job.assigned_at is not None:
            self._tell(found, job, JobMessageKind.COMPLETED, RESULTS.get(conclusion, "canceled"))
        self.admit(found)

    def set_of(self, runner: str) -> StoredSet | None:
        """The set that a runner is registered for."""
        return next((one for one in self.sets.values() if runner in one.runners), None)

    def admit(self, found: StoredSet) -> None:
        """Assign what waits, as far as the announced capacity allows."""
        if self._live(found) is None or not found.capacity:
            return
        room = found.capacity - len(found.assigned)
        waiting = [job for job in found.jobs.values() if job.assigned_at is None and not job.silent]
        for job in waiting[: max(0, room)]:
            self._give(job)
            self._tell(found, job, JobMessageKind.ASSIGNED)
            self._later(LAPSE, self._lapse, found, job, job.id)

    def _give(self, job: QueuedJob) -> None:
        job.id, job.assigned_at = f"job-{self.number()}", self._clock.now()

    def _lapse(self, found: StoredSet, job: QueuedJob, id: str) -> None:
        if job.id != id or job.started_at is not None or found.jobs.get(job.key) is not job:
            return
        self._tell(found, job, JobMessageKind.COMPLETED, "canceled")
        job.assigned_at, job.lapses = None, job.lapses + 1
        job.silent = job.lapses >= LAPSES
        self.admit(found)

    def _tell(self, found: StoredSet, job: QueuedJob, kind: JobMessageKind, result: str = "") -> None:
        entry = told(found, job, kind, result, self._clock.now())
        due = found.queue.add(entry, self._time())
        if due <= self._time():
            found.bell.ring()
        else:
            self._later(due - self._time(), found.bell.ring)

    def _holding(self, key: int) -> tuple[StoredSet, QueuedJob] | None:
        return next(((one, one.jobs[key]) for one in self.sets.values() if key in one.jobs), None)

    def _live(self, found: StoredSet) -> OpenSession | None:
        if found.session is not None and self._time() > found.session.ends_at:
            found.session = found.capacity = None
        return found.session

    def _check_free(self, spec: ScaleSetSpec, own: StoredSet | None) -> None:
        taken = self.named(spec.name, spec.group)
        if taken is not None and taken is not own:
            raise Conflict(f"{spec.group or 'the default group'} has a scale set named {spec.name} already")

    def _later(self, seconds: float, call: Callable[..., None], *args: object) -> None:
        """No process's timer: GitHub outlives them all."""
        asyncio.get_running_loop().call_later(seconds, call, *args, context=Context())

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


def _group(name: str) -> int:
    """Raise Refused if there is no runner group of this name."""
    if name.casefold() not in GROUPS:
        raise Refused(f"there is no runner group {name!r}")
    return GROUPS[name.casefold()]
