"""All agents of a pool on the AWS engines, simulated by one process: 500 real agents would overload this machine. Their
requests bypass the proxy, because only requests of the control plane are counted; in a process of their own they do not
add to the control plane's processor time either.

    python -m bench.aws_crowd       reads `Options` from its first line of input, then an `Order` per line

The process reads the records of all members in batches, again and again, and writes what each agent would write, also
in batches: the signals after a change of owner, when they are due, and a heartbeat every five seconds. It answers each
order with an empty line and ends with its standard input.
"""

import asyncio
import heapq
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bullpen.config import Aws
from bullpen.engines.aws import session
from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import Item, key_of, moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.system import SystemChance
from bullpen.model.instance import Instance
from bullpen.model.signal import Kind, direct_key
from bullpen.model.worker import ACTIVE, Worker

LOOK = 0.04  # seconds between two looks; a slow one is followed by as long a rest
BEAT = 5.0
BATCH = 25  # items that one BatchWriteItem takes
AT_ONCE = 4
ROOT = Path(__file__).parents[1]
SEEN = ("runId", "round", "state")


class Options(msgspec.Struct, frozen=True):
    """Every member registers in `registers_in` seconds, boots in `boots_in`, and cleans in no time."""

    aws: Aws
    registers_in: float = 0.0
    boots_in: float = 0.0
    run_id: str = ""  # of which new machines are awaited


class Order(msgspec.Struct, frozen=True):
    """These members are alive from now on, with the run and round of each; those are silent from now on."""

    join: dict[str, tuple[str, str]] = {}
    silence: tuple[str, ...] = ()


class Crowd:
    """The process, as the measurement sees it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        command = [sys.executable, "-m", "bench.aws_crowd"]
        self._process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        await self._say(self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        ended = await self._process.wait()
        assert ended == 0 or kind, f"the crowd ended with {ended}"

    async def join(self, members: Iterable[Instance]) -> None:
        await self._say(Order(join={one.id: (one.run_id, one.round) for one in members}))

    async def silence(self, members: Iterable[Instance]) -> None:
        """Their machines still run, but no agent answers."""
        await self._say(Order(silence=tuple(one.id for one in members)))

    async def _say(self, words: msgspec.Struct) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(words) + b"\n")
        assert await self._process.stdout.readline(), "the crowd has ended"


@dataclass(slots=True)
class Agents:
    """What the process does."""

    table: TableClient
    options: Options
    members: dict[str, tuple[str, str]] = field(default_factory=dict)  # its owner as last seen: run and round
    _due: list[tuple[float, int, str, Kind, str, str]] = field(default_factory=list)
    _seq: int = 1

    async def obey(self, order: Order) -> None:
        for id in order.silence:
            self.members.pop(id, None)
        self.members |= order.join
        await write(self.table, [self._heartbeat(id) for id in order.join])

    async def live(self) -> None:
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
        if self.options.run_id:
            found = await self.table.walk(("runKey", f"RUN#{self.options.run_id}"), index="run").all()
            launched = [id for item in found if (id := item["SK"]["S"].removeprefix("ID#")) not in self.members]
            self.members |= dict.fromkeys(launched, ("", ""))
        for item in await self.table.get_many([key_of(Instance, id) for id in self.members], only=SEEN):
            id, state = item["SK"]["S"].removeprefix("ID#"), item["state"]["S"]
            owner = item["runId"]["S"], item["round"]["S"]
            if self.members.get(id, owner) == owner or state == "terminated":
                continue  # nothing new, or it fell silent meanwhile
            self.members[id] = owner
            ready = now + (self.options.boots_in if state == "created" else 0.0)
            if owner[0]:
                self._plan(ready, id, Kind.CLAIM_SEEN, owner)
                self._plan(ready + self.options.registers_in, id, Kind.REG_OK, owner)
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


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**22)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    options = msgspec.json.decode(await lines.readline(), type=Options)
    async with session.opened(options.aws) as cloud:
        agents = Agents(TableClient(cloud, SystemChance()), options)
        life = loop.create_task(agents.live())
        print(flush=True)
        while (line := await lines.readline()) and not life.done():
            await agents.obey(msgspec.json.decode(line, type=Order))
            print(flush=True)
        if life.done():
            life.result()
        life.cancel()
        await asyncio.gather(life, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
