"""A process whose clock is wrong ends nothing; an instance that is late by a right clock is ended."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.errors import WrongClock
from bullpen.model import provision as provisions
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.model.signal import Pulse
from bullpen.pool import clock_skew, debts
from bullpen.ports import NoStoreClock, Ports, Signals
from bullpen.sim.world import World
from fixtures import a_world, machines, mute, now, provisioned, records, refreshed, requests, small, with_pool

HOURS = 3 * 3600.0

STORES = pytest.mark.parametrize("on_one_host", [False, True], ids=["the store has a clock", "one host"])
WRONG = pytest.mark.parametrize("skew", [HOURS, -HOURS, 60.0], ids=["ahead", "behind", "a minute"])


def ports_of(world: World, *, on_one_host: bool, skew: float = 0.0) -> Ports:
    ports = world.ports(skew=skew)
    return replace(ports, store_clock=NoStoreClock()) if on_one_host else ports


@STORES
@WRONG
async def test_a_refresh_whose_clock_is_wrong_ends_nothing_and_says_so(skew: float, on_one_host: bool) -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await with_pool(world, 2)
        assert (await provisioned(world, "run", 2)).succeeded
        await asyncio.sleep(20)
        before = dict(world.memory.tables.instances)
        with pytest.raises(WrongClock) as wrong:
            await refreshed(world, ports_of(world, on_one_host=on_one_host, skew=skew))
        assert f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'}"[:-4] in str(wrong.value)
        assert "nothing is ended" in str(wrong.value)
        assert "Set the clock" in wrong.value.remedy
        assert dict(world.memory.tables.instances) == before


class BeforeTheFirstHeartbeat:
    """The signals of a pool whose agents have registered and send their first heartbeat after the first read."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._has_read = False

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        pulses = await self._signals.read(ids)
        if not self._has_read:
            pulses = {id: replace(pulse, heartbeat=None) for id, pulse in pulses.items()}
        self._has_read = True
        return pulses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._signals, name)


async def test_agents_that_are_about_to_send_their_first_heartbeat_show_a_clock_that_is_ahead() -> None:
    async with a_world() as world:
        assert (await provisioned(world, "run", 2)).succeeded
        ports = ports_of(world, on_one_host=True, skew=HOURS)
        with pytest.raises(WrongClock):
            await refreshed(world, replace(ports, signals=BeforeTheFirstHeartbeat(ports.signals)))
        assert len(records(world, RUNNING)) == 2


async def test_agents_that_boot_and_are_not_late_are_not_waited_for() -> None:
    async with a_world() as world:
        assert (await provisioned(world, "run", 2)).succeeded
        ports, began = ports_of(world, on_one_host=True), now()
        ports = replace(ports, signals=BeforeTheFirstHeartbeat(ports.signals))
        assert await clock_skew.doubt(ports, world.settings) == ""
        assert now() == began


@STORES
async def test_an_instance_past_its_maximum_runtime_by_a_right_clock_is_ended_although_it_beats(
    on_one_host: bool,
) -> None:
    async with a_world() as world:
        assert (await provisioned(world, "run", 1, max_runtime=100.0)).succeeded
        await asyncio.sleep(130)
        assert machines(world)
        await refreshed(world, ports_of(world, on_one_host=on_one_host))
        assert [one.state for one in records(world)] == [TERMINATED]


@STORES
async def test_where_no_agent_beats_there_is_no_evidence_against_the_clock(on_one_host: bool) -> None:
    async with a_world() as world:
        assert (await provisioned(world, "run", 1, max_runtime=100.0)).succeeded
        mute(world, machines(world))
        await asyncio.sleep(130)
        await refreshed(world, ports_of(world, on_one_host=on_one_host))
        assert [one.state for one in records(world)] == [TERMINATED]


@STORES
@pytest.mark.parametrize("skew", [-10.0, 10.0])
async def test_a_clock_that_is_off_by_less_than_an_agent_may_be_silent_is_good_enough(
    skew: float, on_one_host: bool
) -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        assert await clock_skew.doubt(ports_of(world, on_one_host=on_one_host, skew=skew), world.settings) == ""


async def test_on_one_host_a_clock_that_is_right_costs_two_reads_and_no_wait() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        ports, began = ports_of(world, on_one_host=True), now()
        assert await clock_skew.doubt(ports, world.settings) == ""
        assert requests(ports) == {"records.live": 1, "signals.read": 1}
        assert now() == began


async def test_the_clock_of_the_store_is_checked_without_a_request() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        ports = world.ports(skew=HOURS)
        assert (
            await clock_skew.doubt(ports, world.settings)
            == f"the clock of this machine is {HOURS:.0f} s ahead of the store's"
        )
        assert requests(ports).total() == 0


@STORES
async def test_a_clock_by_which_all_agents_look_silent_is_trusted_after_a_heartbeat_and_a_half(
    on_one_host: bool,
) -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        mute(world, pool)
        await asyncio.sleep(20)
        began = now()
        assert await clock_skew.doubt(ports_of(world, on_one_host=on_one_host), world.settings) == ""
        assert now() - began < 8


@STORES
async def test_a_service_whose_clock_is_wrong_ends_nothing_and_says_so(
    on_one_host: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        await with_pool(world, 1)
        assert (await provisioned(world, "run", 2)).succeeded
        before = {one.id: one.version for one in records(world)}
        stop = asyncio.Event()
        service = Service(ports_of(world, on_one_host=on_one_host, skew=HOURS), world.settings)
        with caplog.at_level(logging.WARNING):
            serving = asyncio.create_task(service.run(stop))
            await asyncio.sleep(120)
            stop.set()
            await serving
        assert {one.id: one.version for one in records(world)} == before
        assert "ahead of" in caplog.text
        assert "nothing is ended" in caplog.text
        assert {loop.is_alive() for loop in service.loops} == {True}


async def test_a_service_whose_clock_was_set_right_goes_on() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        ports = world.ports(skew=HOURS)
        stop = asyncio.Event()
        serving = asyncio.create_task(Service(ports, world.settings).run(stop))
        await asyncio.sleep(60)
        assert records(world) == []
        ports.clock.skew = 0.0  # type: ignore[attr-defined]
        await asyncio.sleep(120)
        assert len(records(world)) == 1
        stop.set()
        await serving


@STORES
async def test_a_run_whose_clock_is_wrong_decides_nothing_about_another_that_is_under_way(on_one_host: bool) -> None:
    async with a_world(settings=Settings()) as world:
        await with_pool(world, 1)
        working = asyncio.create_task(provisioned(world, "slow", 2))
        await asyncio.sleep(0.5)
        ports = ports_of(world, on_one_host=on_one_host, skew=HOURS)
        await debts.pay_due(ports, world.settings, 100, by="a test")
        states = [one.state for one in world.memory.tables.provisions.values()]
        assert provisions.ABORTED not in states
        assert (await working).succeeded
        assert len(records(world, RUNNING)) == 2
