"""Selection: fill one place of the request with an instance of the pool.

One runs for each requested instance. It draws candidates, claims one with a single conditional write, and waits until
it is verified: registered in this round, and alive. A claim that is not acknowledged soon is *hedged* with one more
candidate, so that a silent instance costs one wait and not several. If the first read after the claim finds an old
heartbeat, it is hedged at once: an instance that died in the pool costs almost nothing while there is another.
"""

import asyncio
from collections.abc import Callable
from dataclasses import field

from bullpen.config import Settings, Timings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model.instance import Instance, InstanceFate
from bullpen.model.provision import Origin, Provision
from bullpen.model.signal import Kind, Pulse
from bullpen.model.times import later
from bullpen.pool import busy, lifecycle
from bullpen.pool.watcher import HeartbeatStale, Judge, SignalFailed, Watcher, reaching
from bullpen.ports import Ports
from bullpen.provision.holdings import Holdings
from bullpen.provision.lanes import LaneStage
from bullpen.provision.outcome import Member
from bullpen.provision.pickup import TicketPickup

HEDGES = 4
"""Extra claims that one place holds at a time. If no instance answers, the fault may be in the control plane: the limit
keeps the pool."""


SLOW = 0.75
"""The part of the registration time after which an acknowledged claim is hedged, too. Half of it would be too early:
healthy runners take 5 to 6 of the 10 seconds, and the whole pool would be claimed twice."""


@dataclass(slots=True)
class _Contender:
    """A claim of one place, in the event loop's time. It may draw one more candidate at `hedge_at`."""

    claimed: Instance
    since: float
    until: float
    hedge_at: float | None
    acknowledged: bool = False

    @property
    def wakes_at(self) -> float:
        return self.until if self.hedge_at is None else min(self.until, self.hedge_at)

    def awaited(self, is_stale: Callable[[Pulse], bool]) -> Judge:
        reached = reaching(Kind.REG_OK if self.acknowledged else Kind.CLAIM_SEEN, self.claimed.round)
        if self.acknowledged or self.hedge_at is None:
            return reached
        return lambda pulse: reached(pulse) or (HeartbeatStale() if is_stale(pulse) else None)

    def acknowledge(self, timings: Timings) -> None:
        """It is alive: its hedge, if not drawn yet, waits until the registration takes longer than it should."""
        self.acknowledged = True
        if self.hedge_at is not None:
            self.hedge_at = self.since + timings.registration * SLOW


@dataclass(slots=True)
class ClaimWorker:
    """Turns candidates into verified instances, one for each place that asks."""

    ports: Ports
    settings: Settings
    provision: Provision
    pickup: TicketPickup
    watcher: Watcher
    holdings: Holdings
    by: str
    excuse: Callable[[], str] = lambda: ""  # why no runner can register now; one that is late for it is not ended
    is_hindered: Callable[[], bool] = lambda: False  # no other instance could register either: none is drawn
    on_claim: Callable[[Instance], None] = lambda claimed: None  # called as soon as a claim has landed
    unanswered: set[str] = field(default_factory=set)  # places without an acknowledged claim

    async def select(self) -> Member | None:
        """A verified instance of the pool; None if the pool has none (left) for this request."""
        while (claimed := await self._claim_next()) is not None:
            if (winner := await self._verify(claimed)) is not None:
                return Member(winner, Origin.SELECTED)
        return None

    async def _claim_next(self) -> Instance | None:
        """Draw and claim until one lands; None if the pool is exhausted, or none is to be drawn."""
        while not self.is_hindered() and (candidate := await self.pickup.next()) is not None:
            self.holdings.lanes.reach(candidate.id, LaneStage.PICKED)
            claimed = await self._claim(candidate)
            if isinstance(claimed, Conflict) and self._is_still_on_offer(claimed.found):
                # Only the ticket was stale: it was sent before the offer was extended.
                claimed = await self._claim(claimed.found)
            if isinstance(claimed, Instance):
                self.holdings.lanes.reach(claimed.id, LaneStage.CLAIMED)
                if self.pickup.fits(claimed, self.ports.clock.now()):
                    self.on_claim(claimed)
                    return claimed
                await self._give_back(claimed, "its record does not match its ticket")
        return None

    async def _claim(self, candidate: Instance) -> Instance | Conflict:
        wish = instances.Claimed(
            at=self.ports.clock.now(),
            by=self.by,
            run_id=self.provision.run_id,
            round=self.ports.chance.token(),
            provision_id=self.provision.id,
            needs=self.provision.needs,
            # Past the provision's own deadline: a claim never expires under a live provision.
            until=later(self.provision.deadline, self.settings.timings.claim_grace),
        )
        try:
            change = instances.claim(candidate, wish)
        except Conflict as conflict:  # for example, its threshold passed since the ticket was taken
            self.holdings.collisions += 1
            return conflict
        return await self.holdings.claim(change)

    def _is_still_on_offer(self, found: object) -> bool:
        now = self.ports.clock.now()
        return isinstance(found, Instance) and found.is_claimable and self.pickup.fits(found, now)

    async def _verify(self, first: Instance) -> Instance | None:
        """The first of the claim and its hedges that registers; the others are given back. None if none does."""
        loop = asyncio.get_running_loop()
        contenders = {first.id: self._contender(first, self.settings.timings.hedge)}
        try:
            while contenders:
                self._note_need(first.id, contenders)
                wake = min(one.wakes_at for one in contenders.values())
                cases = {id: one.awaited(self._is_stale) for id, one in contenders.items()}
                answer = await self.watcher.first(cases, wake - loop.time())
                if answer is None:
                    await self._overdue(contenders)
                    continue
                id, verdict = answer
                if isinstance(verdict, SignalFailed):
                    if verdict.refused_version:
                        self.holdings.refused_versions[id] = verdict.refused_version
                    await self.condemn(contenders.pop(id).claimed, verdict.reason)
                elif isinstance(verdict, HeartbeatStale):
                    contenders[id].hedge_at = loop.time()
                    await self._overdue(contenders)
                elif verdict.kind.rank < Kind.REG_OK.rank:
                    self.holdings.lanes.reach(id, LaneStage.SEEN)
                    contenders[id].acknowledge(self.settings.timings)
                else:
                    # A signal of this round was written after the claim: a sign of life, whatever its clock says.
                    self.holdings.lanes.reach(id, LaneStage.SEEN)
                    self.holdings.lanes.reach(id, LaneStage.REGISTERED)
                    drawn_later = list(contenders)[list(contenders).index(id) :]
                    winner = contenders.pop(id).claimed
                    for loser_id, loser in contenders.items():
                        patience = self._time_left_to_answer(loser) if loser_id in drawn_later else 0.0
                        await self._part_with(loser.claimed, patience)
                    return winner
            return None
        finally:
            self.unanswered.discard(first.id)

    def _is_stale(self, pulse: Pulse) -> bool:
        """True if the heartbeat is older than that of a living agent. Without tracking, beats are not recorded."""
        if not self.settings.liveness.tracking:
            return False
        oldest = later(self.ports.clock.now(), -self.settings.timings.alive)
        return pulse.heartbeat is None or pulse.heartbeat.at < oldest

    def _contender(self, claimed: Instance, patience: float) -> "_Contender":
        now = asyncio.get_running_loop().time()
        return _Contender(claimed, now, now + self.settings.timings.registration, hedge_at=now + patience)

    async def _overdue(self, contenders: "dict[str, _Contender]") -> None:
        """End the contenders that did not register in time; draw one more for each that does not answer."""
        now, timings = asyncio.get_running_loop().time(), self.settings.timings
        for id, one in list(contenders.items()):
            if one.until <= now and one.acknowledged and (excuse := self.excuse()):
                await self._part_with(contenders.pop(id).claimed, why=f"did not register in time: {excuse}")
            elif one.until <= now:
                await self.condemn(contenders.pop(id).claimed, "did not register in time")
            elif one.hedge_at is not None and one.hedge_at <= now:
                if one.acknowledged and self.unanswered:
                    # What the pool has left goes first to places where no contender answers.
                    one.hedge_at = now + timings.tick_longest
                    continue
                one.hedge_at = None
                if len(contenders) <= HEDGES and (extra := await self._claim_next()) is not None:
                    # Where one is silent, the next may be: wait less for it.
                    contenders[extra.id] = self._contender(extra, timings.hedge / 2)

    def _note_need(self, key: str, contenders: "dict[str, _Contender]") -> None:
        if any(one.acknowledged for one in contenders.values()):
            self.unanswered.discard(key)
        else:
            self.unanswered.add(key)

    async def condemn(self, claimed: Instance, reason: str) -> None:
        """End it, unless it has registered after all and got a job: then it stays held, and the commit keeps it."""
        if await self._is_at_work(claimed):
            return
        fates = await lifecycle.expire_and_terminate(self.ports, self.settings, [claimed], reason, by=self.by)
        self.holdings.discard(claimed.id, reason, fates[claimed.id])

    def _time_left_to_answer(self, loser: _Contender) -> float:
        """Seconds for a loser that was drawn after the winner, perhaps only because of a wrong clock. One that was
        drawn before the winner has had more time than the winner needed."""
        return max(loser.since + self.settings.timings.hedge - asyncio.get_running_loop().time(), 0.0)

    async def _part_with(
        self, loser: Instance, patience: float = 0.0, why: str = "surplus: another candidate registered first"
    ) -> None:
        """Give back a hedge that was not needed, unless it already has a job of the run: then it stays held, and the
        commit keeps it. One that never answered is ended, because it may still register."""
        if await self._is_at_work(loser):
            return
        if await self.watcher.first({loser.id: reaching(Kind.CLAIM_SEEN, loser.round)}, patience) is None:
            await self.condemn(loser, "never acknowledged its claim; another candidate registered first")
        else:
            await self._give_back(loser, why)

    async def _is_at_work(self, claimed: Instance) -> bool:
        return bool(await busy.at_work(self.ports, self.settings, [claimed.id]))

    async def _give_back(self, claimed: Instance, reason: str) -> None:
        now = self.ports.clock.now()
        (landed,) = await lifecycle.land_each(
            self.ports, [claimed], lambda one: lifecycle.give_back(self.ports, self.settings, one, now, self.by, reason)
        )
        if isinstance(landed, Conflict):
            self.holdings.discard(claimed.id, reason, InstanceFate.NOT_OURS)
        else:
            self.holdings.losers[claimed.id] = (landed, Origin.SELECTED, reason)
            del self.holdings.held[claimed.id]
