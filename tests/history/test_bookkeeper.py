"""The bookkeeper: every second of every machine is booked once, whatever is killed, repeated or late."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.down import down
from bullpen.engines.memory import Failure, Rates
from bullpen.engines.memory.history import MemoryHistory
from bullpen.errors import Unavailable
from bullpen.history import bookkeeper, spans
from bullpen.history.bookkeeper import Bookkeeper, book_ended, book_moved_on, forget
from bullpen.model.usage import Meter, Owner
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from histories import SETTINGS, Actor, fills_pool, provisions, releases
from history.machine_time import TimeWitness, booked

LATENT = Rates(latency=(0.001, 0.02))


async def books(world: World, ports: Ports) -> None:
    await Bookkeeper(ports, world.settings).run_once()


async def ends_all(world: World) -> None:
    """Every machine ends, and every end is confirmed."""
    await asyncio.sleep(10.0)
    await down(world.ports(rates=Rates()), world.settings)
    await asyncio.sleep(10.0)


async def uses(world: World) -> None:
    """Three machines serve a run each; one of them serves a second one; two hours pass."""
    await fills_pool(world, 2)
    await asyncio.sleep(1800.0)
    ports = world.ports(rates=Rates())
    assert (await provisions(world, ports, "run-1", 3)).succeeded
    await asyncio.sleep(3000.0)
    await releases(world, ports, "run-1")


def complaints(world: World, witness: TimeWitness) -> list[str]:
    """What the books have too much or too little of."""
    truth, found = witness.owned(world.clock.now()), booked(world.memory.ledger.usage)
    keys = sorted({*truth, *found}, key=str)
    return [f"{key}: {found[key]} booked, {truth[key]} spent" for key in keys if found[key] != truth[key]]


def play(*actors: Actor, rates: Rates = LATENT, twice: bool = False) -> list[str]:
    async def main() -> list[str]:
        world = World(settings=SETTINGS, rates=rates)
        witness = TimeWitness(world)
        await uses(world)
        await asyncio.gather(*(actor.play(world) for actor in actors))
        await provisions(world, world.ports(rates=Rates()), "run-2", 1)
        await asyncio.gather(*(Actor(one.name, one.main, one.die_at).play(world) for one in actors))
        await ends_all(world)
        for _ in range(3 if rates is not LATENT else 1):
            await Bookkeeper(world.ports(rates=Rates()), world.settings).run_once()
        assert not world.memory.tables.unbooked
        assert all(meter.over for meter in world.memory.ledger.meters.values())
        return complaints(world, witness)

    return virtual_run(main(), allow_left_behind=True)


def test_every_second_of_every_machine_is_booked() -> None:
    assert play(Actor("bookkeeper", books)) == []


def test_time_that_no_process_booked_in_between_is_booked_at_the_end() -> None:
    assert play() == []


@pytest.mark.slow
def test_a_bookkeeper_may_be_killed_at_any_callback() -> None:
    for step in range(1, 10_000):
        victim = Actor("bookkeeper", books, die_at=step)
        assert play(victim) == [], f"killed at callback {step}"
        if not victim.process.dead:
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("seed", range(3))
def test_of_two_bookkeepers_at_once_each_second_is_booked_by_one(seed: int) -> None:
    actors = [Actor("first", books), Actor("second", books, begins_at=0.003 * seed), Actor("third", books)]
    assert play(*actors) == []


@pytest.mark.parametrize("failure", [Failure.LOST_ANSWER, Failure.LOST_REQUEST])
def test_a_booking_whose_answer_is_lost_is_booked_once(failure: Failure) -> None:
    async def unlucky(world: World, ports: Ports) -> None:
        assert isinstance(ports.history, MemoryHistory)
        ports.history._faults.fail_next("history.book", failure)
        keeper = Bookkeeper(ports, world.settings)
        with suppress(Unavailable):  # the second time there may be nothing to book
            await keeper.run_once()
        await keeper.run_once()

    assert play(Actor("bookkeeper", unlucky)) == []


def test_a_booking_without_the_comparison_of_its_meter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the store lands what another bookkeeper has landed."""

    def land(self: MemoryHistory, booking: object) -> bool:
        after = booking.after  # type: ignore[attr-defined]
        self._ledger.meters[after.instance_id] = after
        for row in booking.rows:  # type: ignore[attr-defined]
            self._ledger.add(row)
        if after.over:
            self._tables.unbooked.pop(after.instance_id, None)
        return True

    monkeypatch.setattr(MemoryHistory, "_book", land)
    assert play(Actor("first", books), Actor("second", books)) != []


@pytest.mark.parametrize("owner", [Owner.CLEANING, Owner.BOOT])
def test_time_of_a_run_that_another_owner_gets_is_noticed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: sums agree, owners do not."""
    owned = spans._owned

    def wrong(*args: Any) -> Meter:
        found = owned(*args)
        return replace(found, owner=owner) if found.owner is Owner.RUN else found

    monkeypatch.setattr(spans, "_owned", wrong)
    assert play() != []


async def small_pool(settings: Settings = SETTINGS) -> World:
    world = World(settings=settings)
    await fills_pool(world, 2)
    return world


async def requests_of(work: Callable[[Ports], object], world: World) -> dict[str, int]:
    ports = world.ports(rates=Rates())
    await work(ports)  # type: ignore[misc]
    assert isinstance(ports.history, MemoryHistory)
    return dict(ports.history._faults.requests)


def test_where_nothing_ended_the_question_is_one_request() -> None:
    async def main() -> dict[str, int]:
        return await requests_of(book_ended, await small_pool())

    assert virtual_run(main(), allow_left_behind=True) == {"history.unbooked": 1}


def test_a_machine_with_few_steps_costs_no_request() -> None:
    async def main() -> dict[str, int]:
        world = World(settings=SETTINGS)
        ports = world.ports(rates=Rates())
        assert (await provisions(world, ports, "run-1", 2)).succeeded
        live = await every_live(ports)
        return await requests_of(lambda fresh: book_moved_on(fresh, live), world)

    assert virtual_run(main(), allow_left_behind=True) == {}


def test_a_bookkeeper_that_finds_nothing_new_writes_nothing() -> None:
    async def main() -> dict[str, int]:
        world = await small_pool()
        ports = world.ports(rates=Rates())
        keeper = Bookkeeper(ports, world.settings)
        await keeper.run_once()
        assert isinstance(ports.history, MemoryHistory)
        ports.history._faults.requests.clear()
        await keeper.run_once()
        return dict(ports.history._faults.requests)

    assert virtual_run(main(), allow_left_behind=True) == {"history.unbooked": 1, "records.live": 1}


def test_a_machine_that_serves_many_runs_is_booked_before_its_story_forgets() -> None:
    """Without `bullpen serve` and refresh: by the releases alone."""

    async def main() -> list[str]:
        world = World(settings=SETTINGS)
        witness = TimeWitness(world)
        ports = world.ports(rates=Rates())
        for n in range(12):
            assert (await provisions(world, ports, f"run-{n}", 1)).succeeded
            await asyncio.sleep(100.0)
            await releases(world, ports, f"run-{n}")
            await asyncio.sleep(10.0)
        assert len(witness.machines) == 1
        await ends_all(world)
        return complaints(world, witness)

    assert virtual_run(main(), allow_left_behind=True) == []


def test_a_meter_whose_record_is_gone_is_closed() -> None:
    async def main() -> tuple[list[Meter], list[Meter]]:
        world = await small_pool()
        ports = world.ports(rates=Rates())
        keeper = Bookkeeper(ports, world.settings)
        await keeper.run_once()
        before = await ports.history.open_meters(10)
        tables = world.memory.tables
        for id in list(tables.instances):
            tables.remove(tables.instances[id])
        await keeper.run_once()
        return before, await ports.history.open_meters(10)

    before, after = virtual_run(main(), allow_left_behind=True)
    assert len(before) == 2
    assert after == []


def test_what_is_older_than_the_setting_is_forgotten() -> None:
    async def main() -> list[int]:
        world = await small_pool()
        ports = world.ports(rates=Rates())
        await asyncio.sleep(60.0)
        await Bookkeeper(ports, world.settings).run_once()
        sizes = [len(world.memory.ledger.usage)]
        for passed in (timedelta(days=29), timedelta(days=30, hours=2)):
            await forget(world.ports(skew=passed.total_seconds(), rates=Rates()), world.settings)
            sizes.append(len(world.memory.ledger.usage))
        return sizes

    known, kept, left = virtual_run(main(), allow_left_behind=True)
    assert known == kept > 0 == left


def test_the_lag_of_a_booking_is_short() -> None:
    assert timedelta(seconds=1) <= bookkeeper.LANDING <= timedelta(seconds=10)
