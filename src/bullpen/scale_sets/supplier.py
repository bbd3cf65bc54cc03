"""The supplier of one set: it reads demand and members, asks `supply` what to do, and does it.

It works while the listener polls: at each message, at each changed heartbeat, and at least every few seconds. All that
it does is conditional on the records, so a process that lost the set meanwhile does no harm: it engages nothing more,
and the next holder counts what it claimed.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated
from bullpen.model import set_session as sessions
from bullpen.model.instance import CLAIMED
from bullpen.model.pause import Pause, words_of
from bullpen.model.registration_failure import RegistrationFailure
from bullpen.model.scale_set import ScaleSet
from bullpen.model.served_set import mismatch
from bullpen.model.signal import Kind
from bullpen.ports import Ports
from bullpen.ports.demand import Demand
from bullpen.provision.launch_report import LaunchReport
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.scale_sets.claims import ClaimBurst, engage
from bullpen.scale_sets.member_changes import MemberChanges
from bullpen.scale_sets.members import MemberState, MemberWatch, SetMember, runners_at_work
from bullpen.scale_sets.refused_versions import RefusedVersions
from bullpen.scale_sets.session import SessionLost, SessionRecord
from bullpen.scale_sets.started_jobs import StartedJobs
from bullpen.scale_sets.supply import QueuedHint, SupplyMemory, SupplyPlan, plan
from bullpen.scale_sets.wait_reason import SupplyFacts, WaitReason, wait_reason
from bullpen.scale_sets.waits import Waits
from bullpen.structured_log import get_logger

SOON = 1.0  # seconds between two turns while a job waits or a member starts
QUIET = 5.0  # seconds otherwise; a message or a heartbeat comes first
FAILED = 2.0  # seconds after a turn that failed
TIDIED = 60.0  # seconds between two looks at whether a rescue still needs what is known of a job
OWING = 1000  # lost workers looked through

log = get_logger("bullpen.scale_sets")


class Supplier:
    """`demand` is what the CI asks for, and `record` the session of this process. `started` are the jobs that the CI
    gave to runners; those that no rescue needs are forgotten here."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        scale_set: ScaleSet,
        demand: Demand,
        record: SessionRecord,
        started: StartedJobs,
        *,
        linger: float,
        on_missing: Callable[[], None],
        note: NoteActions = unnoted,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._set = scale_set
        self._demand = demand
        self._record = record
        self._started = started
        self.linger = linger
        self._on_missing = on_missing
        self._note_actions = note
        phantom = record.stored.phantom
        # Since when is not known: from now on, one job that was queued before ends it.
        self._memory = SupplyMemory(phantom, ports.clock.now() if phantom else None)
        self._waits = Waits(record.stored)
        self._watch = MemberWatch(ports, settings, scale_set.run_id)
        self._news = asyncio.Event()
        self._bursts: dict[asyncio.Task[int], ClaimBurst] = {}
        self._pause: Pause | None = None
        self._launch: LaunchReport | None = None  # the last one for its class since it has lacked runners
        self._lacking = 0  # claims of the last burst that found nothing in the pool
        self._claim_at = 0.0  # not before: a pool that had nothing a moment ago has nothing now
        self._tidy_at = 0.0
        self._dropped = record.stored.dropped
        self._changes = MemberChanges(ports, settings, lambda: self._set, by=record.by, note=note)
        self._versions = RefusedVersions(ports, settings, scale_set.name, by=record.by, note=note)
        self.members: list[SetMember] = []
        self.plan: SupplyPlan | None = None

    def wake(self) -> None:
        self._news.set()

    def adopt(self, scale_set: ScaleSet, *, linger: float) -> None:
        """The record of the set has changed."""
        self._set, self.linger = scale_set, linger
        self.wake()

    def heed(self, pause: Pause | None) -> None:
        """While an operator has paused it, the set claims nothing, and keeps no runner for jobs to come."""
        if (pause is None) != (self._pause is None):
            self.wake()
        self._pause = pause

    def note_queued(self, time: float) -> None:
        """A job of the set was queued, as something other than the CI's messages shows."""
        before = self._memory.queued
        hint = before.again(time) if before is not None else QueuedHint(time, time)
        self._memory = replace(self._memory, queued=hint)

    def note_launches(self, launches: Sequence[LaunchReport]) -> None:
        """What launches for the pool came to. Only one since the set has lacked runners says why they are missing."""
        rules = self._set.rules
        own = [
            one
            for one in launches
            if (one.resource_class, one.usage_class) == (rules.resource_class, rules.usage_class)
        ]
        if own and self._record.stored.missing:
            self._launch = own[-1]

    async def run(self) -> None:
        """Supply until it is cancelled. Raise SessionLost and Outdated."""
        try:
            while True:
                try:
                    pause = await self.turn()
                except (SessionLost, Outdated):
                    raise
                except BullpenError as exc:
                    log.warning("cannot supply scale set", set=self._set.name, error=exc)
                    pause = FAILED
                await self._wait(pause)
        finally:
            for task in list(self._bursts):
                task.cancel()
            await asyncio.gather(*self._bursts, return_exceptions=True)

    async def turn(self) -> float:
        """One look and what follows from it; returns for how many seconds there is nothing to do unless something
        happens."""
        self._news.clear()
        self._reap()
        loop = asyncio.get_running_loop()
        # Before the members are read: what is engaged meanwhile counts here, because that list may not have it.
        held, claiming = self._held(), sum(burst.open_places for burst in self._bursts.values())
        self._watch.expect([id for burst in self._bursts.values() for id in burst.tried])
        self.members = members = await self._watch.read()
        self._dropped += len(self._watch.take_idle_ends({job.runner for job in self._started.all()}))
        known = [one for one in members if one.id not in held | self._held()]
        await self._finish_claims(known, claiming)
        self.plan = made = plan(
            self._set if self._pause is None else _without_min(self._set),
            self._demand.current(),
            known,
            self._memory,
            needs=self._settings.set_requirements(self._set.rules),
            claiming=claiming,
            linger=self.linger,
            time=loop.time(),
            now=self._ports.clock.now(),
        )
        self._memory = made.memory
        await self._versions.retire([one.instance for one in known], self._watch.pulses)
        most = self._most(self._failing())
        claims = min(made.claims, max(0, most - claiming))
        # A place that holds a machine already lacks none, however long that takes to register.
        empty = sum(max(0, burst.open_places - len(burst.held)) for burst in self._bursts.values())
        lacking = min(self._lacking, made.claims + empty, most)
        await self._forget_started(members)
        waiting = None if made.is_frozen else made.waiting
        now = self._ports.clock.now()
        for alarm in self._waits.note(self._demand.waiting(now), waiting, self._why(made, lacking), now):
            level = log.error if alarm.is_final else log.warning
            level("job of scale set waits", set=self._set.name, what=alarm.what)
            self._note_actions([SetAction("alarm", self._set.name, alarm.what, is_done=False)])
        if claims and loop.time() >= self._claim_at:
            self._begin(claims)
        by_id = {one.id: one for one in members}
        await self._changes.renew([by_id[id] for id in made.renew])
        await self._changes.recall([by_id[id] for id in made.outdated], "the rules of its scale set have changed")
        await self._changes.recall([by_id[id] for id in made.recall], "a job waits although its runner listens")
        await self._changes.withdraw([by_id[id] for id in made.withdraw])
        await self._changes.give_back([by_id[id].instance for id in made.release])
        await self._note(lacking)
        doubtful = [one for one in self._changes.doubtful(members) if one.id not in made.withdraw]
        if doubtful and not made.is_frozen:
            await self._changes.recall(doubtful, "its registration may have been removed")
        is_busy = made.waiting or made.claims or self._bursts or any(_is_on_its_way(one) for one in members)
        return SOON if is_busy else QUIET

    # ---- claims

    def _failing(self) -> RegistrationFailure | None:
        return self._ports.ci.failing(self._set.run_id)

    def _most(self, failure: RegistrationFailure | None) -> int:
        """How many runners may be claimed or launched at once. While the CI registers none, one now and then shows
        whether it does again; while new machines have a runner that it refuses, none helps."""
        if (
            self._pause is not None
            or self._versions.hindrance
            or (failure is not None and not failure.is_due(asyncio.get_running_loop().time()))
        ):
            return 0
        return self._set.rules.max if failure is None else 1

    def _begin(self, count: int) -> None:
        burst = ClaimBurst(
            self._ports,
            self._settings,
            lambda: self._set,
            self._failing,
            self._record,
            self._note_actions,
        )
        burst.open_places = count  # before its task begins
        task = asyncio.get_running_loop().create_task(burst.run(count, self.wake))
        self._bursts[task] = burst
        task.add_done_callback(lambda _: self.wake())

    def _reap(self) -> None:
        """Take note of bursts that have ended."""
        for task in [task for task in self._bursts if task.done()]:
            burst = self._bursts.pop(task)
            self._watch.expect(burst.tried)
            for id, version in burst.refused_versions.items():
                self._versions.note(id, version)
            if task.cancelled():
                continue
            failure = task.exception()
            if failure is None:
                self._lacking = task.result()
                self._claim_at = asyncio.get_running_loop().time() + SOON if self._lacking else 0.0
            elif isinstance(failure, Outdated) or not isinstance(failure, BullpenError):
                raise failure
            else:
                self._claim_at = asyncio.get_running_loop().time() + FAILED
                log.warning("cannot claim for scale set", set=self._set.name, error=failure)

    def _held(self) -> set[str]:
        """Instances that bursts have claimed, and not engaged yet."""
        return {id for burst in self._bursts.values() for id in burst.held}

    async def _finish_claims(self, members: Sequence[SetMember], claiming: int) -> None:
        """Engage what an earlier holder claimed, and whose runner is registered, as far as `max` allows. It may have
        had several claims for one place, and some may have landed after this process took the set. Refresh takes back
        the others at their threshold."""
        scale_set = self._set
        left = [one.instance for one in members if one.instance.state is CLAIMED]
        if left and len(members) + claiming > scale_set.rules.max:
            now = await self._ports.records.instances([one.id for one in left])  # a list may be older
            left = [one for one in now.values() if one.run_id == scale_set.run_id and one.state is CLAIMED]
        room = scale_set.rules.max - (len(members) - len(left)) - claiming
        needs = self._settings.set_requirements(scale_set.rules)
        for one in [one for one in left if not mismatch(one, scale_set, needs)]:
            signal = self._watch.pulses[one.id].signal
            if signal is not None and signal.proves(Kind.REG_OK, one.round):
                if room <= 0:
                    break
                room -= 1
                await engage(self._ports, scale_set, one, self._record, self._note_actions)

    async def recall_idle(self, why: str) -> None:
        """Let every member that waits register again."""
        await self._changes.recall([one for one in self.members if one.state is MemberState.IDLE], why)

    # ---- the record

    async def _forget_started(self, members: Sequence[SetMember]) -> None:
        """Forget jobs that the CI gave to runners once records of workers have them, or no rescue needs them."""
        given, time = self._started, asyncio.get_running_loop().time()
        given.bound(runners_at_work(members))
        given.hear(self._watch.words())
        left = given.left({one.id for one in members}, self._ports.clock.now())
        if left and time >= self._tidy_at:
            self._tidy_at = time + TIDIED
            owing = {one.instance_id for one in await self._ports.workers.owing(OWING)}
            given.forget([id for id in left if id not in owing])

    async def _note(self, missing: int) -> None:
        """Write what others act on, if it has changed."""
        news = {
            "missing": missing,
            "phantom": self._memory.phantom,
            "waiting": sessions.fitting_waiting(self._waits.shown(self._ports.clock.now())),
            "started": sessions.fitting_started(self._started.all()),
            "dropped": self._dropped,
        }
        stored = self._record.stored
        self._launch = self._launch if missing else None
        rises = missing > stored.missing
        told = (stored.missing, stored.phantom, stored.waiting, stored.started, stored.dropped)
        if tuple(news.values()) != told:
            await self._record.write(sessions.renew, sessions.SessionRenewed, **news)
        if rises:
            self._on_missing()

    # ---- helpers

    def _why(self, made: SupplyPlan, lacking: int) -> WaitReason:
        """Why jobs wait."""
        failure = self._failing()
        facts = SupplyFacts(
            unheard=self._demand.trouble(),
            paused=words_of(self._pause) if self._pause is not None else "",
            unregistered=failure.why if failure is not None else "",
            is_limited=self._demand.is_limited() or (failure is not None and failure.is_limit),
            refused=self._versions.hindrance,
            is_capped=made.capped,
            lacking=lacking,
            launch=self._launch if lacking else None,
            registering=sum(one.state is MemberState.STARTING for one in self.members),
            idle=sum(one.state is MemberState.IDLE for one in self.members),
        )
        return wait_reason(self._settings, self._set, facts)

    def may_rest(self) -> bool:
        """Whether the next job needs nothing of this process: then messages may gather for a moment."""
        idles = any(one.state is MemberState.IDLE for one in self.members)
        return idles and self.plan is not None and not self.plan.waiting

    async def _wait(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()


def _without_min(scale_set: ScaleSet) -> ScaleSet:
    return replace(scale_set, rules=replace(scale_set.rules, min=0))


def _is_on_its_way(one: SetMember) -> bool:
    return one.state in (MemberState.STARTING, MemberState.CLEANING)
