"""A stream of events lasts no longer than the token it was opened with."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from builders import claim, done, expire, on_offer, running
from bullpen import operate
from bullpen.auth.tokens import Scope
from bullpen.errors import Unavailable
from bullpen.model.instance import Instance
from bullpen.model.worker import Accepted
from bullpen.ports import HeldLease
from bullpen.schema.event import EventKind, GoneEvent, TroubleEvent
from bullpen.schema.instance import InstanceAnswer, instance_of
from bullpen.server import live_pool
from bullpen.server.events import BACKLOG, LONGEST_TICK, RECHECK, SHARE, TICK, Events
from bullpen.server.live_pool import LivePool
from conformance.landing import land
from conformance.leases import a_beat, submitted
from server.fixtures import House, a_house

LONG = 600.0  # seconds of virtual time


async def streamed(house: House, token: str | None, after: float = 0.0) -> float:
    """How long a stream lasts that was opened so."""
    async with asyncio.timeout(LONG):
        await asyncio.sleep(after)
        began = asyncio.get_running_loop().time()
        answer = await house.ask("GET", "/v1/events", token)
        assert answer.status_code == 200
        assert answer.content.startswith(b"retry:")
        return asyncio.get_running_loop().time() - began


async def test_a_stream_ends_when_its_token_expires(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        expires = house.ports.clock.now() + timedelta(seconds=60)
        token = house.create(Scope.READ, expires)
        assert 60 - RECHECK <= await streamed(house, token) <= 60 + RECHECK


async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()

        async def revoke() -> None:
            await asyncio.sleep(30)
            await house.revoke("read")

        lasted, _ = await asyncio.gather(streamed(house, "read"), revoke())
        assert 30 <= lasted <= 30 + RECHECK + 1


async def test_a_stream_of_an_open_service_ends_when_there_are_tokens(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:

        async def require_tokens() -> None:
            await asyncio.sleep(30)
            house.guard()

        lasted, _ = await asyncio.gather(streamed(house, None), require_tokens())
        assert 30 <= lasted <= 30 + RECHECK + 1


class FixedPool(LivePool):
    """A pool with these instances."""

    there: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    async def read(self) -> list[bytes]:
        before, self.shown = self.shown, self.there
        new = [self.encoded(EventKind.INSTANCE, TroubleEvent(id)) for id in self.there if id not in before]
        gone = [GoneEvent(EventKind.INSTANCE, id) for id in before if id not in self.there]
        return [*new, *(self.encoded(EventKind.GONE, one) for one in gone)]

    def beginning(self) -> Iterator[bytes]:
        for id in self.shown:
            yield self.encoded(EventKind.INSTANCE, TroubleEvent(id))


class FixedEvents(Events):
    """Events of a pool with these instances, each in a piece of its own."""

    piece = 1

    def __init__(self, house: House, *ids: str) -> None:
        super().__init__(house.ports, house.context.operations)
        self._pool = self.pool = FixedPool(house.ports, house.context.operations)
        self.there = ids

    @property
    def there(self) -> tuple[str, ...]:
        return self.pool.there

    @there.setter
    def there(self, ids: tuple[str, ...]) -> None:
        self.pool.there = ids


async def test_a_stream_begins_with_what_there_is_not_with_what_an_earlier_one_saw(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, "i-1")
        for there in ("i-1", "i-2"):
            events.there = (there,)
            stream = events.stream(lambda: True)
            assert (await anext(stream)).startswith(b"retry:")
            assert there.encode() in await anext(stream)
            await stream.aclose()
            await asyncio.sleep(4 * TICK)  # no watcher is connected
        await events.close()


async def test_a_change_while_a_stream_begins_is_not_missed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, "i-1", "i-2")
        watching = events.stream(lambda: True)
        assert b"i-2" in [await anext(watching) for _ in range(3)][-1]
        slow = events.stream(lambda: True)
        assert b"i-1" in [await anext(slow) for _ in range(2)][-1]
        events.there = ("i-1", "i-2", "i-3")
        assert b"i-3" in await anext(watching)
        assert b"i-2" in await anext(slow)
        async with asyncio.timeout(2 * RECHECK):
            assert b"i-3" in await anext(slow)
        await events.close()


async def test_a_stream_that_may_not_go_on_does_not_end_its_beginning(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, "i-1", "i-2")
        watching = events.stream(lambda: True)
        await anext(watching), await anext(watching)
        may = [True, False]
        slow = events.stream(lambda: may.pop(0))
        assert [await anext(slow), b"i-1" in await anext(slow)] == [b"retry: 2000\n\n", True]
        assert [event async for event in slow] == []
        await events.close()


async def test_a_pool_larger_than_the_backlog_is_shown_whole_and_its_changes_too(tmp_path: Path) -> None:
    many = tuple(f"i-{number}" for number in range(BACKLOG + 500))
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, *many)
        stream = events.stream(lambda: True)
        assert (await anext(stream)).startswith(b"retry:")
        assert [b"event: instance" in await anext(stream) for _ in many] == [True] * len(many)
        events.there = ()
        assert [b"event: gone" in await anext(stream) for _ in many] == [True] * len(many)
        await events.close()


async def test_a_stream_that_is_not_read_is_closed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, *(f"i-{number}" for number in range(BACKLOG)))
        stream = events.stream(lambda: True)
        await anext(stream), await anext(stream)
        events.there = tuple(f"j-{number}" for number in range(BACKLOG))
        await asyncio.sleep(4 * TICK)
        events.there = ("k-1",)
        await asyncio.sleep(4 * TICK)
        async with asyncio.timeout(LONG):
            assert [event async for event in stream] == []
        await events.close()


async def test_files_of_operations_that_cannot_be_read_are_trouble_and_not_the_end(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        folder = house.context.home / "operations"
        folder.write_text("not a directory")
        stream = house.context.events.stream(lambda: True)
        assert (await anext(stream)).startswith(b"retry:")
        async with asyncio.timeout(LONG):
            assert b"event: trouble" in await anext(stream)
            folder.unlink()
            while b"event: workers" not in await anext(stream):
                pass


# ---- what the stream reads, and what it sends


def kinds(content: bytes) -> list[str]:
    return [line.removeprefix("event: ") for line in content.decode().splitlines() if line.startswith("event: ")]


def data(content: bytes, kind: str) -> list[dict[str, Any]]:
    parts = [part.splitlines() for part in content.decode().split("\n\n") if f"event: {kind}\n" in part]
    return [json.loads(lines[-1].removeprefix("data: ")) for lines in parts]


@dataclass
class Watching:
    """A stream that is read as it comes."""

    events: Events
    received: bytearray = field(default_factory=bytearray)

    async def read(self, may_go_on: Callable[[], bool] = lambda: True) -> None:
        async for content in self.events.stream(may_go_on):
            self.received += content

    async def seen(self, seconds: float) -> bytes:
        """What came within so long."""
        before = len(self.received)
        await asyncio.sleep(seconds)
        return bytes(self.received[before:])


@asynccontextmanager
async def watching(house: House, events: Events | None = None) -> AsyncIterator[Watching]:
    found = Watching(events or house.context.events)
    task = asyncio.create_task(found.read())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_stream_begins_with_everything_and_says_when_that_was_told(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await land(house.ports.records, running("i-1"))
        await land(house.ports.records, on_offer("i-2"))
        await submitted(house.ports.records, "j-1", "run-1")
        for _ in range(2):  # the first stream waits for the first read, the second does not
            async with watching(house) as one:
                said = await one.seen(5)
                assert kinds(said)[-1] == "ready"
                assert sorted(kinds(said)) == ["instance", "instance", "job", "pauses", "ready", "silent", "workers"]
                assert data(said, "ready") == [{"instances": 2, "jobs": 1}]


async def test_only_what_has_changed_is_read_encoded_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        for number in range(50):
            await land(house.ports.records, on_offer(f"i-{number}"))
        async with watching(house) as one:
            await one.seen(5)
            shown: list[str] = []

            def counted(one: Instance, **others: Any) -> InstanceAnswer:
                shown.append(one.id)
                return instance_of(one, **others)

            monkeypatch.setattr(live_pool, "instance_of", counted)
            await house.ports.records.apply(claim((await house.ports.records.instances(["i-7"]))["i-7"]))
            said = await one.seen(5)
            assert (shown, kinds(said)) == (["i-7"], ["instance"])
            assert data(said, "instance")[0]["state"] == "claimed"
            assert kinds(await one.seen(60)) == []


async def test_an_instance_that_is_gone_is_named_with_its_jobs(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        released = await land(house.ports.records, running("i-1"))
        await submitted(house.ports.records, "j-1", "run-1")
        async with watching(house) as one:
            await one.seen(5)
            (expired,) = await house.ports.records.apply(expire(released))
            await house.ports.records.apply(done(expired))
            said = data(await one.seen(5), "gone")
            assert said == [{"kind": "instance", "id": "i-1"}, {"kind": "job", "id": "j-1"}]


async def test_beats_travel_together_once_a_second_at_most(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        ids = [f"i-{number}" for number in range(20)]
        for id in ids:
            await land(house.ports.records, on_offer(id))
        tokens = dict.fromkeys(ids, 0)
        async with watching(house) as one:
            await one.seen(5)
            before = len(kinds(bytes(one.received)))
            for _ in range(100):  # ten beats of each in ten seconds
                await asyncio.sleep(0.1)
                for id in ids[::2]:
                    now = house.ports.clock.now()
                    beat = a_beat(tokens[id], at=now, by=id, instance_id=id, lease=15.0)
                    (answer,) = await house.ports.workers.beat([(f"{id}/1", beat)])
                    assert isinstance(answer, Accepted)
                    tokens[id] = answer.token
            said = bytes(one.received)
            told = data(said, "leases")
            assert 5 <= len(told) <= 12
            assert {lease["instanceId"] for event in told for lease in event["leases"]} == set(ids[::2])
            assert len(kinds(said)) - before <= 12 + 2  # and the number of workers
            last = told[-1]["leases"][0]
            assert set(last) == {"instanceId", "deadline", "leaseSeconds", "heartbeatAt"}
            assert last["leaseSeconds"] == 15.0
            async with watching(house) as other:  # the beginning has all of them
                (first,) = data(await other.seen(0.1), "leases")
                assert {lease["instanceId"] for lease in first["leases"]} == set(ids[::2])


async def test_silent_workers_and_machines_that_leave_are_told_as_they_are_noticed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await land(house.ports.records, running("i-1"))
        async with watching(house) as one:
            await one.seen(5)
            now = house.ports.clock.now()
            beat = a_beat(at=now, by="i-1", instance_id="i-1", lease=15.0, leaving=now + timedelta(seconds=120))
            await house.ports.workers.beat([("i-1/1", beat)])
            said = await one.seen(5)
            assert data(said, "instance")[0]["leavingAt"] is not None
            assert data(said, "silent") == []
            said = await one.seen(20)
            (silent,) = data(said, "silent")
            assert [worker["instanceId"] for worker in silent["workers"]] == ["i-1"]


async def test_a_pause_and_its_end_are_told(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        ports, settings = house.ports, house.context.settings
        async with watching(house) as one:
            assert data(await one.seen(5), "pauses") == [{"pauses": []}]
            await operate.pause(ports, settings, "small", "an upgrade", operator="ann")
            (told,) = data(await one.seen(5), "pauses")
            assert [(one["resourceClass"], one["note"]) for one in told["pauses"]] == [("small", "an upgrade")]
            await operate.resume(ports, settings, "small", operator="ann")
            assert data(await one.seen(5), "pauses") == [{"pauses": []}]


async def test_all_watchers_get_the_same_bytes(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house, watching(house) as first:
        await first.seen(5)
        pieces: list[list[bytes]] = []

        async def collect() -> None:
            mine: list[bytes] = []
            pieces.append(mine)
            async for content in house.context.events.stream(lambda: True):
                mine += [content]

        tasks = [asyncio.create_task(collect()) for _ in range(2)]
        await asyncio.sleep(1)
        for number in range(10):
            await land(house.ports.records, on_offer(f"i-{number}"))
        await asyncio.sleep(5)
        mine, theirs = (of_one[-1] for of_one in pieces)
        assert mine is theirs  # encoded and joined once
        assert kinds(mine).count("instance") <= 10
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_large_beginning_comes_in_large_pieces_and_is_no_lag(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = FixedEvents(house, *(f"i-{number}" for number in range(5 * BACKLOG)))
        events.piece = Events.piece
        first = events.stream(lambda: True)
        assert (await anext(first)).startswith(b"retry:")
        found = [await anext(first)]
        events.there = (*events.there, "i-new")
        await asyncio.sleep(10 * TICK)  # a slow reader of the beginning is not dropped
        while b"i-new" not in found[-1]:
            found.append(await anext(first))
        assert all(len(content) >= Events.piece for content in found[:-2])
        assert sum(kinds(content).count("instance") for content in found) == 5 * BACKLOG + 1
        await first.aclose()
        await events.close()


async def test_the_pause_grows_with_the_time_that_a_read_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        events, reads = FixedEvents(house, "i-1"), list[float]()

        async def slow() -> list[bytes]:
            reads.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.05)
            return [b": \n\n"]

        monkeypatch.setattr(events.pool, "read", slow)
        async with watching(house, events):
            await asyncio.sleep(60)
        pauses = [later - sooner for sooner, later in pairwise(reads)]
        assert min(pauses) >= SHARE * 0.05
        assert max(pauses) <= LONGEST_TICK + 2 * TICK
        await events.close()


async def test_after_trouble_a_stream_says_that_it_is_well_again_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house, watching(house) as one:
        await one.seen(5)

        async def broken() -> dict[tuple[str, str], int]:
            raise Unavailable("the store is away")

        with monkeypatch.context() as patch:
            patch.setattr(house.ports.workers, "census", broken)  # after the instances were read
            await land(house.ports.records, on_offer("i-1"))
            assert data(await one.seen(5), "trouble")[0] == {"reason": "the store is away"}
        said = await one.seen(5)
        assert kinds(said) == ["instance", "ready"]


async def test_leases_are_looked_at_less_often_where_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        looks: list[float] = []

        async def slow(since: datetime, limit: int) -> list[HeldLease]:
            looks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.1)
            return []

        monkeypatch.setattr(house.ports.workers, "leases", slow)
        async with watching(house) as one:
            await one.seen(60)
        assert min(later - sooner for sooner, later in pairwise(looks)) >= 0.1 * live_pool.SHARE


async def test_the_leases_that_a_server_with_a_late_clock_renews_are_told_too(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for id in ("i-1", "i-2"):
            await land(house.ports.records, on_offer(id))
        async with watching(house) as one:
            await one.seen(5)
            now = house.ports.clock.now()
            for id, at in (("i-1", now), ("i-2", now - timedelta(seconds=10))):
                await house.ports.workers.beat([(f"{id}/1", a_beat(at=at, by=id, instance_id=id, lease=60.0))])
            told = data(await one.seen(2 * live_pool.WHOLE_EVERY), "leases")
            assert {lease["instanceId"] for event in told for lease in event["leases"]} == {"i-1", "i-2"}
