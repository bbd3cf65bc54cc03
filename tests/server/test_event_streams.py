"""A stream of events lasts no longer than the token it was opened with."""

import asyncio
from datetime import timedelta
from pathlib import Path

from bullpen.auth.tokens import Scope
from bullpen.schema.event import EventKind, TroubleEvent
from bullpen.server.events import BACKLOG, RECHECK, TICK, Events, Shown
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


class FixedEvents(Events):
    """Events of a pool with these instances."""

    def __init__(self, house: House, *ids: str) -> None:
        super().__init__(house.ports, house.context.operations)
        self.there = ids

    async def _read(self) -> dict[tuple[EventKind, str], Shown]:
        return {(EventKind.INSTANCE, id): TroubleEvent(id) for id in self.there}


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
