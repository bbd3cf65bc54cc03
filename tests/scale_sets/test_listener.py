"""A message is acknowledged once its effect is durable, and no message, session or outage stops the listener."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.errors import PermissionDenied, Refused, SessionGone, Throttled, Unavailable, UnreadableMessage
from bullpen.model.set_session import FREE, HELD, JobCounts
from bullpen.ports import Ports, SetMessage
from bullpen.scale_sets.listener import GIVEN_UP_AFTER, SetListener
from bullpen.scale_sets.session import SessionLost, SessionRecord, StandBy
from bullpen.sim.world import World
from scale_sets.fixtures import SET, a_set_world, hub_of, push, session, set_of

LEASE = 15.0


async def taken(ports: Ports, name: str = "web-1") -> SessionRecord:
    sessions = await ports.records.set_sessions()
    record = await StandBy(ports, LEASE, name).try_take(SET, sessions.get(SET))
    assert record is not None
    return record


async def a_listener(world: World, ports: Ports | None = None) -> SetListener:
    ports = ports or world.ports()
    found = (await ports.records.scale_sets())[SET]
    return SetListener(ports, found, await taken(ports), lambda: None)


class Acknowledged(Exception):
    pass


class Spy:
    """The port, with one call replaced or watched."""

    def __init__(self, port: Any, **calls: Any) -> None:
        self._port, self._calls = port, calls

    def __getattr__(self, name: str) -> Any:
        return self._calls.get(name) or getattr(self._port, name)


async def listening(world: World, seconds: float, **calls: Any) -> SetListener:
    """Listen for a while."""
    ports = world.ports()
    ports = replace(ports, scale_sets=Spy(ports.scale_sets, **calls))
    listener = await a_listener(world, ports)
    task = asyncio.create_task(listener.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return listener


async def test_a_message_is_recorded_before_it_is_acknowledged() -> None:
    async with a_set_world() as world:
        seen: list[tuple[int, int]] = []

        async def acknowledge(session_: Any, message: int) -> None:
            seen.append((message, session(world).message))

        push(world, 3)
        await listening(world, 5.0, acknowledge=acknowledge)
        assert seen
        assert all(message == recorded for message, recorded in seen)


async def test_a_message_whose_acknowledgement_was_lost_comes_again_and_is_recorded_once() -> None:
    async with a_set_world() as world:
        lost: list[int] = []

        async def acknowledge(session_: Any, message: int) -> None:
            lost.append(message)
            if len(lost) < 3:
                raise Unavailable("no answer")
            await world.ports().scale_sets.acknowledge(session_, message)

        push(world)
        listener = await listening(world, 20.0, acknowledge=acknowledge)
        assert len(lost) >= 3
        assert set(lost) == {1}
        demand = listener.current()
        assert demand is not None
        assert (demand.assigned, demand.running) == (1, 0)


async def test_without_the_store_nothing_is_acknowledged() -> None:
    async with a_set_world() as world:
        acknowledged: list[int] = []

        async def acknowledge(session_: Any, message: int) -> None:
            acknowledged.append(message)

        ports = world.ports()
        ports = replace(ports, scale_sets=Spy(ports.scale_sets, acknowledge=acknowledge))
        listener = await a_listener(world, ports)
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(2)

        async def away(*changes: Any, **checks: Any) -> Any:
            raise Unavailable("the store is away")

        listener.record._ports = replace(ports, records=Spy(ports.records, apply=away))
        push(world)
        await asyncio.sleep(30)
        assert acknowledged == []
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("after", [1.0, 20.0, 49.0, 70.0])
async def test_a_lost_message_costs_no_more_than_a_poll(after: float) -> None:
    async with a_set_world() as world:
        hub_of(world).sets.troubles = SetTroubles(lost=1.0)
        ports = world.ports()
        listener = await a_listener(world, ports)
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(after)
        push(world, 2)
        await asyncio.sleep(51)
        assert session(world).statistics == JobCounts(2, 0, 0, 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_message_that_stays_unreadable_is_passed_over() -> None:
    async with a_set_world() as world:
        hub_of(world).sets.troubles = SetTroubles(unreadable=1.0)
        ports = world.ports()
        listener = await a_listener(world, ports)
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(1)
        push(world)
        await asyncio.sleep(1)
        hub_of(world).sets.troubles = SetTroubles()
        push(world, 4)
        await asyncio.sleep(90)
        demand = listener.current()
        assert demand is not None
        assert demand.assigned == 5
        assert session(world).message >= 2
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "failure", [Unavailable("away"), Throttled("later", retry_after=20.0), PermissionDenied("the App may not")]
)
async def test_a_service_that_fails_is_asked_again_and_the_record_says_why(failure: Exception) -> None:
    async with a_set_world() as world:
        calls: list[float] = []

        async def poll(session_: Any, last: int, capacity: int) -> SetMessage | None:
            calls.append(asyncio.get_running_loop().time())
            raise failure

        await listening(world, 100.0, poll=poll)
        assert 3 <= len(calls) <= 20
        assert str(failure) in session(world).why
        assert session(world).failing_since is not None


async def test_a_session_that_another_holder_left_open_is_closed_first() -> None:
    async with a_set_world() as world:
        first = await listening(world, 3.0)
        left = session(world).ci_session
        assert left
        sessions = await world.ports().records.set_sessions()
        stand_by = StandBy(world.ports(), LEASE, "web-2")
        assert await stand_by.try_take(SET, sessions[SET]) is None
        await asyncio.sleep(LEASE)
        record = await stand_by.try_take(SET, sessions[SET])
        assert record is not None
        second = SetListener(world.ports(), first.scale_set, record, lambda: None)
        task = asyncio.create_task(second.run())
        await asyncio.sleep(3)
        assert session(world).ci_session not in ("", left)
        assert set_of(world).session is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_where_closing_frees_nothing_the_next_holder_waits_until_the_old_session_ends() -> None:
    async with a_set_world() as world:
        hub_of(world).sets.frees_on_close = False
        await listening(world, 3.0)
        stand_by, sessions = StandBy(world.ports(), LEASE, "web-2"), await world.ports().records.set_sessions()
        await stand_by.try_take(SET, sessions[SET])
        await asyncio.sleep(LEASE)
        record = await stand_by.try_take(SET, sessions[SET])
        assert record is not None
        ports = world.ports()
        second = SetListener(ports, (await ports.records.scale_sets())[SET], record, lambda: None)
        task = asyncio.create_task(second.run())
        await asyncio.sleep(10)
        assert "another session is open" in session(world).why
        assert f"change github.scale-sets.NAME.name ('{SET}')" in session(world).why
        await asyncio.sleep(70)
        assert session(world).why == ""
        assert second.current() is not None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_holder_that_was_replaced_writes_and_acknowledges_nothing_more() -> None:
    async with a_set_world() as world:
        listener = await a_listener(world)
        sessions = await world.ports().records.set_sessions()
        stand_by = StandBy(world.ports(), LEASE, "web-2")
        await stand_by.try_take(SET, sessions[SET])
        await asyncio.sleep(LEASE)
        assert await stand_by.try_take(SET, sessions[SET]) is not None
        with pytest.raises(SessionLost):
            await listener.run()
        assert session(world).holder == "web-2"
        assert set_of(world).session is None  # it has closed the session that it had just opened


async def test_a_holder_that_stops_frees_the_set_at_once() -> None:
    async with a_set_world() as world:
        listener = await listening(world, 3.0)
        assert session(world).state is HELD
        await listener.record.yield_(closed=await listener.close())
        assert session(world).state is FREE
        assert (session(world).ci_session, set_of(world).session) == ("", None)


async def test_a_set_at_its_capacity_still_announces_its_maximum() -> None:
    """At 0 the set would never be told of its jobs."""
    async with a_set_world() as world:
        announced: set[int] = set()
        inner = world.ports().scale_sets

        async def poll(session_: Any, last: int, capacity: int) -> SetMessage | None:
            announced.add(capacity)
            return await inner.poll(session_, last, capacity)

        push(world, 30)
        await listening(world, 60.0, poll=poll)
        assert announced == {20}


@pytest.mark.parametrize("call", ["close", "acknowledge", "acquire"])
async def test_a_call_that_the_service_refuses_for_ever_does_not_keep_the_listener_out(call: str) -> None:
    async with a_set_world() as world:
        await listening(world, 3.0)  # leaves a session behind
        await asyncio.sleep(120)

        async def refuse(*args: Any) -> None:
            raise Refused("no")

        stand_by, sessions = StandBy(world.ports(), LEASE, "web-2"), await world.ports().records.set_sessions()
        await stand_by.try_take(SET, sessions[SET])
        await asyncio.sleep(LEASE)
        record = await stand_by.try_take(SET, sessions[SET])
        assert record is not None
        ports = world.ports()
        ports = replace(ports, scale_sets=Spy(ports.scale_sets, **{call: refuse}))
        listener = SetListener(ports, (await ports.records.scale_sets())[SET], record, lambda: None)
        task = asyncio.create_task(listener.run())
        push(world, 2)
        await asyncio.sleep(30)
        demand = listener.current()
        assert demand is not None
        assert demand.assigned == 2
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_service_whose_answers_are_never_readable_is_not_asked_without_a_pause() -> None:
    async with a_set_world() as world:
        calls: list[int] = []

        async def poll(session_: Any, last: int, capacity: int) -> SetMessage | None:
            calls.append(last)
            raise UnreadableMessage("not JSON")

        await listening(world, 120.0, poll=poll)
        assert len(calls) <= 120


async def test_sessions_that_end_at_once_are_given_up_in_the_end() -> None:
    async with a_set_world() as world:

        async def poll(session_: Any, last: int, capacity: int) -> SetMessage | None:
            raise SessionGone("it has ended")

        ports = world.ports()
        ports = replace(ports, scale_sets=Spy(ports.scale_sets, poll=poll))
        listener = await a_listener(world, ports)
        async with asyncio.timeout(400):
            await listener.run()
        assert listener.failing_for() >= GIVEN_UP_AFTER


async def test_a_new_holder_passes_over_a_message_that_stays_unreadable_although_it_knows_no_id() -> None:
    async with a_set_world() as world:
        for _ in range(40):
            set_of(world).queue._last += 1
        hub_of(world).sets.troubles = SetTroubles(unreadable=1.0)
        ports = world.ports()
        listener = await a_listener(world, ports)
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(1)
        push(world)
        await asyncio.sleep(1)
        hub_of(world).sets.troubles = SetTroubles()
        push(world, 4)
        await asyncio.sleep(150)
        demand = listener.current()
        assert demand is not None
        assert demand.assigned == 5
        assert listener.failing_for() == 0.0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
