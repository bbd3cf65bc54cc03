"""Since when the jobs of a set wait for a runner, and why: for the record, which `status` shows, and for the log.

How many wait is the CI's count. Which ones is known by messages, as far as these arrive: a lost message, or a holder
that dies a moment after one, leaves jobs of which only the count is known. They wait since the count has included them;
where the holder before had the same count, since then.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bullpen.lazy_dataclass import dataclass
from bullpen.model.set_session import WAITING_LIMIT, SetSession, WaitingJob
from bullpen.model.times import later
from bullpen.scale_sets.wait_reason import WaitReason

SHOWN_AFTER = 10.0  # seconds: most jobs get a runner sooner, and the record should not change for each
LATE_AFTER = 60.0  # seconds: the CI takes an assignment back after five minutes
LAPSES = 3  # so often the CI assigns a job; after that only a runner that registers by chance gets it
JobKey = tuple[str, str, str]
"""Repository, run and name."""
UNKNOWN = "no runner has taken it yet"


@dataclass(frozen=True, slots=True)
class WaitAlarm:
    what: str
    is_final: bool = False  # the CI does not announce the job again


class Waits:
    def __init__(self, stored: SetSession) -> None:
        self._known: Sequence[WaitingJob] = [job for job in stored.waiting if job.id]
        self._unnamed = _unnamed(stored)  # since when each of them waits, the oldest first
        fresh = [job for job in stored.waiting if not job.lapses]
        self._why = fresh[0].why if fresh else ""
        self._cause = fresh[0].cause if fresh else ""
        self._lapses = {_key(job): (job.lapses, job.why, job.cause) for job in stored.waiting if job.lapses}
        self._late: set[tuple[JobKey, datetime]] = set()

    def note(
        self, known: Sequence[WaitingJob], count: int | None, reason: WaitReason, now: datetime
    ) -> list[WaitAlarm]:
        """Take note of the jobs that are known one by one, of how many wait by the CI's count, None if that is not
        known, and of the reason; returns what an operator should know, once for each job."""
        self._known = known
        if count is not None:
            more = max(0, min(count - sum(job.taken_back_at is None for job in known), WAITING_LIMIT))
            # The CI gives a runner the oldest one.
            self._unnamed = self._unnamed[max(0, len(self._unnamed) - more) :]
            self._unnamed += [now] * (more - len(self._unnamed))
        # While none waits, the reason of one that lapsed is the one before.
        if count or (count is None and reason.words):
            self._why, self._cause = reason.words, reason.cause.value
        return [*self._lapsed(), *self._newly_late(now)]

    def shown(self, now: datetime) -> tuple[WaitingJob, ...]:
        """Those that are worth a record, the oldest first, each with its reason. Those that the CI has taken back come
        last: the record has room for a few, and people look for the jobs that a runner would get now."""
        jobs = [job for job in self._all() if later(job.since, SHOWN_AFTER) <= now]
        jobs.sort(key=lambda job: (job.taken_back_at is not None, job.since, job.id))
        return tuple(replace(job, why=self._reason(job), cause=self._cause_of(job)) for job in jobs)

    def _all(self) -> list[WaitingJob]:
        return [*self._known, *(WaitingJob("", since) for since in self._unnamed)]

    def _reason(self, job: WaitingJob) -> str:
        if job.taken_back_at is not None:
            return self._lapses[_key(job)][1]
        again = f"; GitHub took it back {job.lapses} of {LAPSES} times" if job.lapses else ""
        return f"{self._why or UNKNOWN}{again}"

    def _cause_of(self, job: WaitingJob) -> str:
        return self._lapses[_key(job)][2] if job.taken_back_at is not None else self._cause

    def _lapsed(self) -> list[WaitAlarm]:
        """What to say about jobs that the CI has taken back since the last time."""
        before = self._lapses
        self._lapses = {}
        alarms = []
        for job in [one for one in self._known if one.lapses]:
            lapses, why, cause = before.get(_key(job), (0, "", ""))
            if job.lapses > lapses:
                is_final, cause = job.lapses >= LAPSES, self._cause
                why = f"GitHub took it back {job.lapses} of {LAPSES} times: {self._why or UNKNOWN}"
                if is_final:
                    why = f"GitHub took it back {LAPSES} times and does not announce it again: {self._why or UNKNOWN}"
                alarms.append(WaitAlarm(f"{_named(job)}: {why}", is_final))
            self._lapses[_key(job)] = (job.lapses, why, cause)
        return alarms

    def _newly_late(self, now: datetime) -> list[WaitAlarm]:
        found = [job for job in self._all() if later(job.since, LATE_AFTER) <= now and not job.lapses]
        fresh = [job for job in found if (_key(job), job.since) not in self._late]
        self._late = {(_key(job), job.since) for job in found}
        why, unnamed = self._why or UNKNOWN, sum(not job.id for job in fresh)
        lines = [f"{_named(job)} has waited for {LATE_AFTER:g} s: {why}" for job in fresh if job.id]
        if unnamed:
            jobs = "1 job" if unnamed == 1 else f"{unnamed} jobs"
            lines.append(f"GitHub counts {jobs} that no message named and that waited for {LATE_AFTER:g} s: {why}")
        return [WaitAlarm(line) for line in lines]


def _unnamed(stored: SetSession) -> list[datetime]:
    """What the holder before knew by the CI's count alone, also those that it had no time to write down."""
    counts, listed = stored.statistics, [job for job in stored.waiting if job.taken_back_at is None]
    waiting = counts.assigned - counts.running - stored.phantom if counts is not None else 0
    latest = [stored.heard_at] * max(0, min(waiting, WAITING_LIMIT) - len(listed)) if stored.heard_at else []
    return [*(job.since for job in listed if not job.id), *latest]


def _key(job: WaitingJob) -> JobKey:
    """The same for all assignments of a job: its id is another each time."""
    return job.repository, job.run, job.name


def _named(job: WaitingJob) -> str:
    return f"job {job.name!r} of {job.repository}, run {job.run}"
