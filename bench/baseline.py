"""The baseline: a provision without batches, call by call as the warm pool was first described.

It receives, deletes and judges one message at a time and sends a miss back with a delay. A claim worker claims, reads
the heartbeat, then reads the registration signal every half second, for at most 10 seconds. The baseline runs on the
same engines and the same pool as Bullpen. It has no provision record, so it writes less.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bullpen.config import Settings
from bullpen.engines.memory import Faults
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind
from bullpen.model.ticket import Requirements, Ticket, Verdict, judge, parse_ticket
from bullpen.ports import Message, Ports

POLL = 0.5
BY = "baseline"


@dataclass(slots=True)
class Baseline:
    ports: Ports
    faults: Faults
    settings: Settings
    needs: Requirements
    run_id: str
    sightings: Counter[str] = field(default_factory=Counter)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def provision(self, count: int) -> list[Instance]:
        """Claim workers in parallel, one pickup manager for all; then every member runs."""
        found = await asyncio.gather(*(self._work() for _ in range(count)))
        members = [one for one in found if one is not None]
        decided, until = self._decided(members), self._later(self.settings.timings.max_runtime)
        for_all = {**self._now(), "provision": decided, "until": until}
        commits = [instances.commit(one, instances.Committed(**for_all, round=one.round)) for one in members]
        await asyncio.gather(*(self.ports.records.apply(change) for change in commits))
        return members

    async def _work(self) -> Instance | None:
        while (ticket := await self._pick_up()) is not None:
            claim = instances.Claimed(
                **self._now(),
                run_id=self.run_id,
                round=self.ports.chance.token(),
                provision_id=BY,
                needs=self.needs,
                until=self._later(self.settings.timings.provision),
            )
            claimed: Instance
            try:
                (claimed,) = await self.ports.records.apply(instances.claim(Instance.from_ticket(ticket), claim))
            except Conflict:
                continue
            if await self._is_healthy(claimed) and await self._registers(claimed):
                return claimed
            await self.ports.records.apply(
                instances.expire(claimed, instances.Expired(**self._now(), round=claimed.round))
            )
            await self.ports.compute.terminate([claimed.id])
        return None

    async def _pick_up(self) -> Ticket | None:
        """The pickup manager: a singleton, so one message after the other."""
        queue, name = self.ports.queue, self.needs.resource_class
        resource_class = self.settings.resource_class(name)
        async with self.turn:
            while bodies := await queue.take(name, 1):
                await self.faults.call("queue.delete", lambda: None)
                ticket = parse_ticket(bodies[0])
                if not isinstance(ticket, Ticket):
                    continue
                self.sightings[ticket.instance_id] += 1
                if self.sightings[ticket.instance_id] >= self.settings.pickup.sightings:
                    return None
                judged = judge(ticket, self.needs, resource_class.cpu, resource_class.mem, self.ports.clock.now())
                if judged is Verdict.TAKE:
                    return ticket
                if judged is Verdict.PUT_BACK:
                    await queue.send(name, [Message(bodies[0], ticket.threshold)], self.settings.timings.put_back)
        return None

    async def _is_healthy(self, claimed: Instance) -> bool:
        pulse = (await self.ports.signals.read([claimed.id]))[claimed.id]
        return pulse.is_recent(self.ports.clock.now(), self.settings.timings.alive)

    async def _registers(self, claimed: Instance) -> bool:
        give_up = self._later(self.settings.timings.registration)
        while self.ports.clock.now() < give_up:
            signal = (await self.ports.signals.read([claimed.id]))[claimed.id].signal
            if signal is not None and signal.proves(Kind.REG_OK, claimed.round):
                return True
            await asyncio.sleep(POLL)
        return False

    def _decided(self, members: list[Instance]) -> provisions.Provision:
        """What the model asks to see before a member runs. Never stored: it costs the baseline no request."""
        now = self.ports.clock.now()
        asked = provisions.absent(BY, self.run_id, len(members), self.needs, now, 0.0)
        opened = provisions.open_(asked, provisions.Opened(**self._now())).after
        ids = tuple(one.id for one in members)
        return provisions.commit(opened, provisions.Decided(**self._now(), members=ids, settle_due=now)).after

    def _now(self) -> dict[str, Any]:
        return {"at": self.ports.clock.now(), "by": BY}

    def _later(self, seconds: float) -> datetime:
        return self.ports.clock.now() + timedelta(seconds=seconds)
