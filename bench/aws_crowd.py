"""All agents of a pool on the AWS engines, simulated by one task: 500 real agents would overload this machine. Their
requests bypass the proxy, because only requests of the control plane are counted.

The task reads the records of all members in batches, again and again, and writes what each agent would write, also in
batches: the signals after a change of owner, when they are due, and a heartbeat every five seconds.
"""

import asyncio
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import Item, key_of, moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind, direct_key
from bullpen.model.worker import ACTIVE, Worker

LOOK = 0.04  # seconds between two looks; a slow one is followed by as long a rest
BEAT = 5.0
BATCH = 25  # items that one BatchWriteItem takes
AT_ONCE = 4
SEEN = ("runId", "round", "state")


@dataclass(slots=True)
class Crowd:
    """Every member registers in `registers_in` seconds, boots in `boots_in`, and cleans in no time."""

    table: TableClient
    registers_in: float = 0.0
    boots_in: float = 0.0
    run_id: str = ""  # of which new machines are awaited
    members: dict[str, tuple[str, str]] = field(default_factory=dict)  # its owner as last seen: run and round
    _due: list[tuple[float, int, str, Kind, str, str]] = field(default_factory=list)
    _seq: int = 1
    _task: "asyncio.Task[None] | None" = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._live())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        if self._task.done():
            self._task.result()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def join(self, members: Iterable[Instance]) -> None:
        """These are alive from now on, and know their owner."""
        known = {one.id: (one.run_id, one.round) for one in members}
        self.members |= known
        await write(self.table, [self._heartbeat(id) for id in known])

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        next_beat = loop.time() + BEAT
        while True:
            began = loop.time()
            await self._look(began)
            due: dict[str, Item] = {}  # of two signals of one instance the later
            while self._due and self._due[0][0] <= loop.time():
                _, seq, id, kind, run_id, round = heapq.heappop(self._due)
                due[id] = signal(id, kind, run_id, round, seq)
            await write(self.table, list(due.values()))
            if began >= next_beat:
                next_beat = began + BEAT
                await write(self.table, [self._heartbeat(id) for id in self.members])
            await asyncio.sleep(max(LOOK, loop.time() - began))

    async def _look(self, now: float) -> None:
        if self.run_id:
            found = await self.table.walk(("runKey", f"RUN#{self.run_id}"), index="run").all()
            launched = [id for item in found if (id := item["SK"]["S"].removeprefix("ID#")) not in self.members]
            self.members |= dict.fromkeys(launched, ("", ""))
        for item in await self.table.get_many([key_of(Instance, id) for id in self.members], only=SEEN):
            id, state = item["SK"]["S"].removeprefix("ID#"), item["state"]["S"]
            owner = item["runId"]["S"], item["round"]["S"]
            if self.members.get(id, owner) == owner or state == "terminated":
                continue  # nothing new, or it fell silent meanwhile
            self.members[id] = owner
            ready = now + (self.boots_in if state == "created" else 0.0)
            if owner[0]:
                self._plan(ready, id, Kind.CLAIM_SEEN, owner)
                self._plan(ready + self.registers_in, id, Kind.REG_OK, owner)
            else:
                self._plan(now, id, Kind.CLEAN_OK, owner)

    def _plan(self, at: float, id: str, kind: Kind, owner: tuple[str, str]) -> None:
        self._seq += 1
        heapq.heappush(self._due, (at, self._seq, id, kind, *owner))

    def _heartbeat(self, id: str) -> Item:
        self._seq += 1
        return heartbeat(id, self._seq)


def signal(id: str, kind: Kind, run_id: str, round: str, seq: int) -> Item:
    """The item of an agent's signal, as it writes it without `serve`."""
    return {
        **raw_key("WS", id),
        "value": {"M": {"signal": text(kind.value), "runId": text(run_id)}},
        "round": text(round),
        "text": text(""),
        "seq": number(seq),
        "updatedAt": text(moment(datetime.now(UTC))),
    }


def heartbeat(id: str, seq: int) -> Item:
    """The item of an agent's heartbeat, as it writes it without `serve`."""
    entries = derived(Worker(direct_key(id), ACTIVE, version=0))
    return {
        **raw_key("Heartbeat", id),
        "instanceId": text(id),
        "domain": text("bench"),
        "lease": number(15.0),
        "seq": number(seq),
        "updatedAt": text(moment(datetime.now(UTC))),
        **{name: value for name, value in entries.items() if value is not None},
    }


async def write(table: TableClient, items: Sequence[Item]) -> None:
    """Put all of them, in batches. Nothing is left over: DynamoDB Local has no throughput to exceed."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def put(portion: Sequence[Item]) -> None:
        async with turns:
            requests = {table.name: [{"PutRequest": {"Item": item}} for item in portion]}
            answer = await table.call("batch_write_item", RequestItems=requests)
            assert not answer.get("UnprocessedItems"), "a batch was not written whole"

    await asyncio.gather(*(put(items[at : at + BATCH]) for at in range(0, len(items), BATCH)))
