"""Settlement: how a provision ends. One write decides; the other writes carry it out, and any process can finish them.

commit      all are verified: open → committed, then every member runs; so does a surplus one that already has a job
revoke      a member was lost before its own write, and could not be replaced: the others are given back
roll back   an expected failure: open → aborted, then claims are given back and new machines ended
dump        an unexpected error: everything held is marked for its end, and the original error is raised
"""

import asyncio
from contextlib import suppress
from dataclasses import field, replace

from bullpen.config import Settings
from bullpen.errors import Conflict, ProvisionFailed, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import IDLE, RUNNING, TERMINATED, Instance, InstanceFate
from bullpen.model.provision import Origin, Provision
from bullpen.model.signal import Kind
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.pool import busy, lifecycle, offering
from bullpen.ports import Ports
from bullpen.provision.holdings import Holdings
from bullpen.provision.outcome import Discarded, Member
from bullpen.provision.record import ProvisionRecord

IN_FLIGHT = 2.0
"""Seconds that a claim in flight is awaited before it is fenced off."""
LOST = "ended before its commit was carried out"


@dataclass(slots=True)
class Settlement:
    ports: Ports
    settings: Settings
    record: ProvisionRecord
    holdings: Holdings
    stop: asyncio.Event
    by: str
    kept: list[str] = field(default_factory=list)
    """Members beyond the requested ones: each got a job before it could be given back."""
    lost: list[str] = field(default_factory=list)
    """Members of the commit that do not run: another process ended them before their own write."""

    async def commit(self, members: list[Member]) -> list[Member]:
        """Commit these members, and those that must be kept, and carry it out; returns the members that run."""
        kept = await self._surplus_at_work(members)
        self.kept = [member.instance.id for member in kept]
        decided = provisions.Decided(
            at=self.ports.clock.now(),
            by=self.by,
            why=f"{len(members)} verified" + (f", {len(kept)} kept: a job runs there" if kept else ""),
            members=tuple(member.instance.id for member in (*members, *kept)),
            settle_due=later(self.ports.clock.now(), self.settings.timings.takeover),
        )
        await self.record.write(provisions.commit, decided)
        return await self.finish_commit([*members, *kept])

    async def finish_commit(self, members: list[Member]) -> list[Member]:
        """Carry out a commit that has landed; returns the members that run."""
        landed, at_work = await self._carry_out()
        for id, record in landed.items():
            if record is not None:
                self.holdings.hold(record, self.holdings.held[id].origin)
        await self._part_with(landed, at_work, keep={member.instance.id for member in members}, reason="surplus")
        await self._part_with_losers()
        await self._close(at_work)
        return [self.holdings.held[member.instance.id] for member in members if self._runs(member)]

    def _runs(self, member: Member) -> bool:
        """True if a member serves the run. One that does not is no longer held."""
        id = member.instance.id
        record = self.holdings.held[id].instance
        if record.state is RUNNING and record.provision_id == self.record.stored.id:
            return True
        self.lost.append(id)
        ended = InstanceFate.TERMINATING if record.owes is not None else InstanceFate.TERMINATED
        self.holdings.discard(id, LOST, ended if record.state is TERMINATED else InstanceFate.NOT_OURS)
        return False

    async def revoke(self, reason: str) -> None:
        """Give back every member of a commit that was carried out; once stopped, only write it."""
        if not await self._write_revocation(reason):
            return  # it was released: the release gives everything back
        landed, at_work = await self._carry_out()
        await self._part_with(landed, at_work, keep=set(), reason=reason)
        await self._close(at_work)

    async def _write_revocation(self, reason: str) -> bool:
        """Make sure that the record is revoked; False if it was released instead."""
        now = self.ports.clock.now()
        due = later(now, self.settings.timings.takeover)
        event = provisions.Revoked(at=now, by=self.by, why=reason, settle_due=due)
        while not self.record.stored.is_over and self.record.stored.members:
            (landed,) = await self.ports.records.apply_each([provisions.revoke(self.record.stored, event)])
            if not isinstance(landed, Conflict):
                self.record.stored = landed
            elif isinstance(landed.found, Provision):
                self.record.stored = landed.found
            else:
                return False
        return self.record.stored.is_over and self.record.stored.is_revoked

    async def roll_back(self, reason: str) -> bool:
        """Abort and give everything back; once stopped, only write the states and leave the rest as debts.

        False if the record turns out to be committed: the commit landed although its answer was lost.
        """
        if not await self._abort(reason):
            return False
        unknown = await self.holdings.resolve_claims(IN_FLIGHT)
        await self._fence(unknown)
        landed, at_work = await self._carry_out()
        await self._part_with(landed, at_work, keep=set(), reason=reason)
        await self._part_with_losers()
        await self._close(at_work)
        return True

    async def hand_back(self, reason: str) -> None:
        """Give back everything held although nothing is decided: the provision is going to wait. The next process that
        pays debts puts the instances on offer. Busy instances stay held."""
        await self._fence(await self.holdings.resolve_claims(IN_FLIGHT))
        undecided = replace(self.record.stored, reason=reason)
        held = [held.instance for held in self.holdings.held.values()]
        landed, _ = await lifecycle.carry_out(self.ports, self.settings, undecided, held, by=self.by)
        marked = [one for one in landed.values() if one is not None and one.state is TERMINATED]
        certain = await lifecycle.terminate(self.ports, self.settings, marked, by=self.by)
        for id, one in landed.items():
            is_back = one is not None and one.state is IDLE
            ended = InstanceFate.TERMINATED if id in certain else InstanceFate.TERMINATING
            self.holdings.discard(id, reason, InstanceFate.CLEANING if is_back else ended)
        await self._part_with_losers()

    async def dump(self, reason: str) -> None:
        """After an unexpected error: end everything held except busy instances, which stay a debt of the provision.
        What cannot be written now is found by its threshold."""
        if not await self._abort(reason):
            return  # committed after all: the members are owed to the run, and any process can carry that out
        await self.holdings.resolve_claims(IN_FLIGHT)
        at_work = await self._at_work(list(self.holdings.held))
        held = [held.instance for id, held in self.holdings.held.items() if id not in at_work]
        fates = await lifecycle.expire_and_terminate(self.ports, self.settings, held, reason, by=self.by)
        for id, fate in (dict.fromkeys(at_work, InstanceFate.BUSY) | fates).items():
            self.holdings.discard(id, reason, fate)

    async def _surplus_at_work(self, members: list[Member]) -> list[Member]:
        asked_for = {member.instance.id for member in members}
        surplus = [id for id in self.holdings.held if id not in asked_for]
        return [self.holdings.held[id] for id in await self._at_work(surplus)]

    async def _at_work(self, ids: list[str]) -> list[str]:
        return list(await busy.at_work(self.ports, self.settings, ids, hurry=self.stop.is_set()))

    async def _carry_out(self) -> tuple[dict[str, Instance | None], list[str]]:
        held = [held.instance for held in self.holdings.held.values()]
        decided, hurry = self.record.stored, self.stop.is_set()
        return await lifecycle.carry_out(self.ports, self.settings, decided, held, by=self.by, hurry=hurry)

    async def _abort(self, reason: str) -> bool:
        """Make sure that the record is aborted; False if it is committed."""
        aborted = lifecycle.aborted(self.ports, self.settings, reason, by=self.by)
        # It may be decided already, by another process or by a write whose answer was lost.
        with suppress(ProvisionFailed):
            await self.record.write(provisions.abort, aborted)
        return self.record.stored.state is provisions.ABORTED

    async def _fence(self, unknown: list[Change[Instance]]) -> None:
        """Fence claims of unknown outcome: raise the version of instances that are still idle, hold those that
        landed."""
        found = await self.ports.records.instances([change.before.id for change in unknown]) if unknown else {}
        for change in unknown:
            record = found.get(change.before.id)
            if record is not None and record.round == change.after.round and record.state is change.after.state:
                self.holdings.hold(record, Origin.SELECTED)
            elif record is not None and record.state is IDLE and record.attested:
                kept = instances.Kept(
                    at=self.ports.clock.now(), by=self.by, why="fences a claim in flight", until=record.threshold
                )
                landed = (await self.ports.records.apply_each([instances.keep(record, kept)]))[0]
                if isinstance(landed, Conflict):
                    if isinstance(landed.found, Instance) and landed.found.round == change.after.round:
                        self.holdings.hold(landed.found, Origin.SELECTED)
                else:
                    await offering.send_tickets(self.ports, [landed])

    async def _part_with(
        self, landed: dict[str, Instance | None], at_work: list[str], *, keep: set[str], reason: str
    ) -> None:
        """Note what became of the instances that are not kept. Unless stopped, wait for it."""
        gone = {id: one for id, one in landed.items() if id not in keep}
        fates: dict[str, InstanceFate] = dict.fromkeys(gone, InstanceFate.NOT_OURS) | dict.fromkeys(
            at_work, InstanceFate.BUSY
        )
        marked = [one for one in gone.values() if one is not None and one.state is TERMINATED]
        given = [one for one in gone.values() if one is not None and one.state is IDLE and not one.attested]
        fates |= {one.id: InstanceFate.TERMINATING for one in marked} | {one.id: InstanceFate.CLEANING for one in given}
        if not self.stop.is_set():
            certain = await lifecycle.terminate(self.ports, self.settings, marked, by=self.by)
            fates |= dict.fromkeys(certain, InstanceFate.TERMINATED)
            fates |= await offering.await_and_offer(self.ports, self.settings, given, by=self.by, stop=self.stop)
        for id, fate in fates.items():
            if id in self.holdings.held:
                self.holdings.discard(id, reason, fate)

    async def _part_with_losers(self) -> None:
        """Return only when each loser has deregistered or was ended: no further job of the run may reach it."""
        losers = [instance for instance, _, _ in self.holdings.losers.values()]
        fates = await offering.await_and_offer(
            self.ports,
            self.settings,
            losers,
            by=self.by,
            enough=Kind.REMOVE_REG_OK,
            patience=self.settings.timings.registration,
            stop=self.stop,
        )
        for id, (_, origin, reason) in self.holdings.losers.items():
            self.holdings.discarded.append(Discarded(id, origin, reason, fates[id]))
        self.holdings.losers.clear()

    async def _close(self, at_work: list[str]) -> None:
        """Mark the provision as settled; or postpone its debt while an instance that should be given back is busy. A
        Conflict means that another process has settled it. Without an answer the decision stands and is carried out,
        and the next process that pays debts writes that down."""
        decided, now = self.record.stored, self.ports.clock.now()
        settled = lifecycle.settling(self.settings, decided, now, self.by)
        change = lifecycle.postponing(decided, now, self.by) if at_work else settled
        with suppress(Unavailable):
            (landed,) = await self.ports.records.apply_each([change])
            if not isinstance(landed, Conflict):
                self.record.stored = landed
