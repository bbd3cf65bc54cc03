"""Leases that run out: from the first missed beat to a worker that is declared lost, once.

The worker's record is authoritative, and the conditional write on it. Any number of sweepers run at once; none is the
leader, none holds a lock. Each keeps in memory only since when it has seen a suspect unchanged.

    deadline passes ──▶ suspect ──── confirm window, same version ────▶ lose_lease ──▶ inactive, its jobs are owed
                           │                                                │
                           └─ a beat: another version, all forgotten        └─ Conflict: it was heard, or another
                                                                               sweeper was faster

The trust window: a suspect gets no new job at once, for assigning asks for a deadline to come. It is given up when its
version has not moved for one of its own beat intervals and 2 s more, at least `liveness.confirm`, measured on the
loop's monotonic clock: a wall clock that jumps makes suspects, and none of them is confirmed. A sweeper that has just
started, or was suspended itself, has seen no suspect unchanged and waits a whole window. protection.py comes between.

What becomes of the machine is written with the loss, as the worker's fate. *Retire* if its machine is gone or ending,
or if a job with side effects runs there, which only its end makes safe to repeat: the worker does not come back, and
its machine is ended by the sweeper that pays the debt (reschedule.py), so that the pool replaces it. Otherwise *keep*:
it is silent, but may be alive behind a broken network, and comes back in a new epoch with its machine and its caches.
Until then its run may replace it; otherwise its instance's threshold ends it. In the pool it is ended and replaced at
once (lost_instances.py). One that runs a job of another CI is always kept: it may be silent here and still at work for
that CI, which decides about it (bullpen.workflows).
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness import evidence, protection
from bullpen.liveness.evidence import Evidence
from bullpen.liveness.heartbeat import BEATS_PER_LEASE, JITTER
from bullpen.liveness.protection import Protection
from bullpen.model import worker as workers
from bullpen.model.activity import names_job
from bullpen.model.control import HELD, Control
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.model.worker import Worker, WorkerFate
from bullpen.ports import Ports

BY = "sweeper"
PAGE = 5000  # suspects of one pass: more at once are a mass event, and braked
TIMERS = 50_000  # moved in one pass: with a lease of a minute, a million workers need 20,000 a second
LANDING = 100  # losses written together
HELD_JOBS = 100  # looked at for side effects
SLACK = 2.0  # seconds that a beat may travel
RETIRED_STAYS = 60.0  # seconds until a worker that cannot come back is cleaned up: it is no longer a sick one
PURGE_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one pass did. `unexpected` are those of the lost whose instances the pool has not ended itself. `alarms` are
    sentences for an operator."""

    rearmed: int = 0
    suspects: int = 0
    lost: tuple[str, ...] = ()
    unexpected: int = 0
    braked: int = 0  # confirmed, and left for later by the brake
    held: bool = False
    cleaned: int = 0
    purged: int = 0
    alarms: tuple[str, ...] = ()


class Sweeper:
    """One sweeper; `run_once()` about every second. One that `receives` beats for others notes that it can hear."""

    def __init__(self, ports: Ports, settings: Settings, *, receives: bool = False, page: int = PAGE) -> None:
        self._ports = ports
        self._settings = settings
        self._rules = settings.liveness
        self._receives = receives
        self._page = page
        self._stillness = Stillness(settings)
        self._purged_at: float | None = None

    def adopt(self, settings: Settings) -> None:
        """Between two passes: what was seen of suspects stays."""
        self._settings, self._rules = settings, settings.liveness
        self._stillness.adopt(settings)

    async def run_once(self) -> Sweep:
        """One pass of bounded work. Killed anywhere, it has done a part of it, and the next pass does the rest."""
        if not self._rules.tracking:
            return Sweep()
        ports, page = self._ports, self._page
        now = ports.clock.now()
        stored = await ports.workers.controls()
        if self._receives:
            stored = await protection.note_ingest(ports, self._rules, stored, now)
        rearmed = await ports.workers.rearm(now, TIMERS)
        suspects = await ports.workers.suspects(now, page)
        recovered_at = protection.fresh_lease_from(stored, now)
        silent = [one for one in suspects if protection.is_past_due(one, recovered_at, now)]
        confirmed = self._stillness.confirmed(silent, asyncio.get_running_loop().time())
        held = _is_held(stored)
        lost: list[str] = []
        unexpected = braked = 0
        if confirmed or held:
            seen = await evidence.gather(ports, [one.instance_id for one in silent])
            explained = [one for one in silent if seen.is_ending(one.instance_id)]
            mute = [one for one in silent if not seen.is_ending(one.instance_id)]
            judged = protection.tally(await ports.workers.census(), mute, explained)
            guard = Protection(self._rules, judged, flooded=len(suspects) >= page)
            held = await protection.hold_or_lift(ports, guard, stored, mute, now)
            lost, braked = await self._give_up(confirmed, seen, guard, stored, held, now)
            unexpected = sum(one.id in lost and not seen.was_ended(one.instance_id) for one in confirmed)
        return Sweep(
            rearmed=rearmed,
            suspects=len(silent),
            lost=tuple(lost),
            unexpected=unexpected,
            braked=braked,
            held=held,
            cleaned=await self._clean_up(now),
            purged=await self._purge(now),
            alarms=tuple(f"{one.id} is active without a deadline" for one in suspects if one.deadline is None),
        )

    async def _give_up(
        self,
        confirmed: Sequence[Worker],
        seen: Evidence,
        guard: Protection,
        stored: dict[str, Control],
        held: bool,
        now: datetime,
    ) -> tuple[list[str], int]:
        """Declare lost the workers that the protection allows; returns them, and how many the brake left."""
        condemned = [one for one in confirmed if seen.is_ending(one.instance_id)]
        left = 0
        for domain in dict.fromkeys(one.domain for one in confirmed):
            mute = [one for one in confirmed if one.domain == domain and not seen.is_ending(one.instance_id)]
            if held or not mute:
                continue
            granted = len(mute)
            if guard.brakes(domain):
                granted = await protection.spend(self._ports, self._rules, stored, domain, len(mute), now)
            condemned += mute[:granted]
            left += len(mute) - granted
        lost: list[str] = []
        for start in range(0, len(condemned), LANDING):
            lost += await self._lose(condemned[start : start + LANDING], seen, now)
        return lost, left

    async def _lose(self, condemned: Sequence[Worker], seen: Evidence, now: datetime) -> list[str]:
        changes = [
            self._loss(one, fate, seen, now)
            for one, fate in zip(condemned, await self._fates(condemned, seen), strict=True)
        ]
        landed = await self._ports.records.apply_each(changes)
        return [one.id for one in landed if not isinstance(one, Conflict)]

    async def _fates(self, condemned: Sequence[Worker], seen: Evidence) -> list[WorkerFate]:
        async def fate(one: Worker) -> WorkerFate:
            if seen.is_ending(one.instance_id):
                return WorkerFate.RETIRE
            if names_job(one.activity):
                return WorkerFate.KEEP
            held = await self._ports.jobs.held(one.id, one.epoch, HELD_JOBS)
            # Without an instance of this pool there is nothing to end: such a worker may come back.
            return WorkerFate.RETIRE if one.instance_id and any(job.side_effects for job in held) else WorkerFate.KEEP

        return await asyncio.gather(*(fate(one) for one in condemned))

    def _loss(self, one: Worker, fate: WorkerFate, seen: Evidence, now: datetime) -> Change[Worker]:
        assert one.deadline is not None
        stays = self._rules.cleanup if fate is WorkerFate.KEEP else min(self._rules.cleanup, RETIRED_STAYS)
        heard = f"no beat since {one.beat_at:%H:%M:%S}" if one.beat_at else "no beat"
        event = workers.LeaseExpired(
            at=now,
            by=BY,
            why=f"{heard}, and its machine is gone" if seen.is_gone(one.instance_id) else heard,
            deadline=one.deadline,
            cleanup_at=later(now, stays),
            fate=fate,
        )
        return workers.lose_lease(one, event)

    async def _clean_up(self, now: datetime) -> int:
        """The time was stored with the loss: a delay that was changed since does not move it."""
        due = await self._ports.workers.to_clean(now, self._page)
        purge_at = later(now, self._rules.tombstone)
        changes = [
            workers.clean_up(
                one,
                workers.CleanupDue(
                    at=now, by=BY, why="it did not come back", cleanup_at=one.cleanup_at, purge_at=purge_at
                ),
            )
            for one in due
            if one.state is workers.INACTIVE and one.cleanup_at is not None and one.cleanup_at <= now
        ]
        landed = await self._ports.records.apply_each(changes) if changes else []
        return sum(not isinstance(one, Conflict) for one in landed)

    async def _purge(self, now: datetime) -> int:
        time = asyncio.get_running_loop().time()
        if self._purged_at is not None and time < self._purged_at + PURGE_EVERY:
            return 0
        self._purged_at = time
        return await self._ports.records.purge(now, self._page)


class Stillness:
    """Since when each suspect has stood still, on the loop's clock and as this process has seen it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._since: dict[str, tuple[int, float]] = {}
        self._looked_at: float | None = None

    def adopt(self, settings: Settings) -> None:
        self._settings = settings

    def confirmed(self, suspects: Sequence[Worker], time: float) -> list[Worker]:
        """Remember these and forget all others; returns those that did not move for their whole window."""
        if self._looked_at is not None and time > self._looked_at + self._settings.liveness.grace_gap:
            # This process was suspended, perhaps with the whole machine: what it saw before proves nothing now.
            self._since = {}
        self._looked_at = time
        seen = {}
        for one in suspects:
            version, since = self._since.get(one.id, (one.version, time))
            seen[one.id] = (one.version, since if version == one.version else time)
        self._since = seen
        return [one for one in suspects if time - seen[one.id][1] >= self.window(one)]

    def window(self, worker: Worker) -> float:
        """A worker that lives beats at least once in it, however long its lease."""
        return max(self._settings.liveness.confirm, worker.lease / BEATS_PER_LEASE * (1 + JITTER) + SLACK)


def _is_held(stored: dict[str, Control]) -> bool:
    control = stored.get(protection.EVERYBODY)
    return control is not None and control.state is HELD
