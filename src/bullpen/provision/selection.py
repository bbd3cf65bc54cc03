"""Selection: fill one place of the request, from the pool if it can, with a new machine if it must.

N of these run at once, one per instance asked for. Each draws candidates, claims one with a single conditional write,
and waits until it is verified: registered in this very round, and alive. A claim that is not acknowledged soon is
*hedged* with one more candidate, so that a mute instance costs one wait and not several.
"""

import asyncio
from dataclasses import dataclass

from bullpen import handover
from bullpen.config import Settings
from bullpen.errors import Conflict, InvalidTransition
from bullpen.handover import Fate
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.provision import Provision
from bullpen.model.signal import Kind
from bullpen.ports import Ports
from bullpen.provision.holdings import Holdings
from bullpen.provision.outcome import Member, Origin
from bullpen.provision.pickup import Pickup
from bullpen.watch import Failed, Watcher, reaching


@dataclass(slots=True)
class ClaimWorker:
    """Turns candidates into one verified instance."""

    ports: Ports
    settings: Settings
    provision: Provision
    pickup: Pickup
    watcher: Watcher
    holdings: Holdings
    by: str

    async def select(self) -> Member | None:
        """A verified instance of the pool; None if the pool has none (left) for us."""
        while (claimed := await self._claim_next()) is not None:
            if (winner := await self._verify(claimed)) is not None:
                return Member(winner, Origin.SELECTED)
        return None

    async def _claim_next(self) -> Instance | None:
        """Draw and claim until one lands; None if the pool is exhausted."""
        while (candidate := await self.pickup.next()) is not None:
            now = self.ports.clock.now()
            wish = instances.Claimed(
                at=now,
                by=self.by,
                run_id=self.provision.run_id,
                round=self.ports.chance.token(),
                provision_id=self.provision.id,
                needs=self.provision.needs,
                # Past the provision's own deadline: a claim never expires under a live provision.
                until=handover.later(self.provision.deadline, self.settings.timings.claim_grace),
            )
            try:
                change = instances.claim(candidate, wish)
            except (Conflict, InvalidTransition):  # e.g. its threshold passed while it lay in our hands
                self.holdings.collisions += 1
                continue
            if (claimed := await self.holdings.claim(change)) is not None:
                return claimed
        return None

    async def _verify(self, first: Instance) -> Instance | None:
        """The first of the claim and its hedge that registers; the other is given back. None if neither does."""
        timings = self.settings.timings
        loop = asyncio.get_running_loop()
        began = loop.time()
        contenders = {first.id: (first, began + timings.registration)}
        hedge_at: float | None = began + timings.hedge
        acknowledged = False
        while contenders:
            now = loop.time()
            deadline = min(until for _, until in contenders.values())
            wake = deadline if hedge_at is None else min(deadline, hedge_at)
            # Until it is acknowledged, any sign of the claim postpones the hedge to half the registration time.
            watch_for = Kind.REG_OK if acknowledged or hedge_at is None else Kind.CLAIM_SEEN
            cases = {
                id: reaching(watch_for if id == first.id else Kind.REG_OK, one.round)
                for id, (one, _) in contenders.items()
            }
            answer = await self.watcher.first(cases, wake - now)
            if answer is None and hedge_at is not None and loop.time() >= hedge_at:
                hedge_at = None
                if (extra := await self._claim_next()) is not None:
                    contenders[extra.id] = (extra, loop.time() + timings.registration)
            elif answer is None:
                for id in [id for id, (_, until) in contenders.items() if until <= loop.time()]:
                    await self.condemn(contenders.pop(id)[0], "did not register in time")
            else:
                id, verdict = answer
                one = contenders[id][0]
                if isinstance(verdict, Failed):
                    await self.condemn(contenders.pop(id)[0], verdict.reason)
                elif verdict.kind.rank < Kind.REG_OK.rank:
                    acknowledged, hedge_at = True, began + timings.registration / 2
                else:
                    # Whatever its clock says, a signal of this round was written after our claim: a sign of life.
                    del contenders[id]
                    await self._give_back([loser for loser, _ in contenders.values()])
                    return one
        return None

    async def condemn(self, claimed: Instance, reason: str) -> None:
        fates = await handover.expire_and_terminate(self.ports, self.settings, [claimed], reason, by=self.by)
        self.holdings.discard(claimed.id, reason, fates[claimed.id])

    async def _give_back(self, losers: list[Instance]) -> None:
        """A hedge that was not needed never reaches running. One that never answered is ended: it may register yet."""
        for loser in losers:
            verdict = await self.watcher.first({loser.id: reaching(Kind.CLAIM_SEEN, loser.round)}, 0.0)
            if verdict is None:
                await self.condemn(loser, "never acknowledged its claim; another was faster")
                continue
            reason = "surplus: another was faster"
            change = handover.give_back(self.ports, self.settings, loser, self.ports.clock.now(), self.by, reason)
            (landed,) = await self.ports.records.apply_each([change])
            if isinstance(landed, Conflict):
                self.holdings.discard(loser.id, reason, Fate.NOT_OURS)
            else:
                self.holdings.losers[loser.id] = (landed, Origin.SELECTED, reason)
                del self.holdings.held[loser.id]
