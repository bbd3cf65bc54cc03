"""More than one provision of a run: a later one tops up what lives and fits; two at once never provision twice."""

import asyncio
from typing import Any

import pytest

from bullpen.config import Timings
from bullpen.model import provision as provisions
from bullpen.model.instance import RUNNING, InstanceFate
from bullpen.model.ticket import UsageClass
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import Rates, a_world, ids, machines, mute, now, provisioned, records, requests, small, with_pool


async def two_at_once(world: World, delay: float, counts: tuple[int, int]) -> tuple[Any, Any]:
    """Two provisions of one run, the second a little later, with an engine that takes its time."""

    async def begun(count: int, after: float) -> Any:
        await asyncio.sleep(after)
        return await provisioned(world, "run", count, world.ports(rates=Rates(latency=(0.01, 0.1))))

    one, other = await asyncio.gather(begun(counts[0], 0.0), begun(counts[1], delay))
    return one, other


async def test_a_member_that_fell_silent_meanwhile_is_ended_and_replaced() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 3)
        dead = ids(first)[0]
        mute(world, [dead])
        await asyncio.sleep(20)
        second = await provisioned(world, "run", 3)
        assert len(ids(second)) == 3
        assert set(ids(second)) & set(ids(first)) == set(ids(first)[1:])
        assert [(d.instance_id, d.outcome) for d in second.discarded] == [(dead, InstanceFate.TERMINATED)]
        assert "no heartbeat" in second.discarded[0].reason
        assert sorted(machines(world)) == ids(second)


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_a_member_with_a_skewed_clock_counts(skew: float) -> None:
    async with a_world(temper=lambda n: Temper(skew=skew)) as world:
        first = await provisioned(world, "run", 2)
        second = await provisioned(world, "run", 2)
        assert ids(second) == ids(first)
        assert second.discarded == ()


@pytest.mark.parametrize(
    "needs",
    [
        {"usage_class": UsageClass.SPOT},
        {"cpu": 2},
        {"mem": 4096},
        {"allowed_types": ("*.large",)},
        {"trust_domain": "another"},
    ],
    ids=lambda needs: next(iter(needs)),
)
async def test_an_instance_that_does_not_fit_the_request_does_not_count_and_stays(needs: dict[str, Any]) -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 2)
        second = await provisioned(world, "run", 2, **needs)
        assert set(ids(second)).isdisjoint(ids(first))
        assert {one.id for one in records(world, RUNNING)} >= set(ids(first))


async def test_where_heartbeats_are_recent_one_read_shows_which_agents_are_alive() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 5)
        ports = world.ports()
        await provisioned(world, "run", 5, ports)
        assert requests(ports)["signals.read"] == 1


async def test_a_stop_while_it_checks_liveness_is_answered_at_once() -> None:
    async with a_world() as world:
        mute(world, ids(await provisioned(world, "run", 2)))
        await asyncio.sleep(20)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(1.0, stop.set)
        began = now()
        outcome = await provisioned(world, "run", 2, stop=stop)
        assert outcome.interrupted
        assert now() - began < 1.1


@pytest.mark.slow
@pytest.mark.parametrize("pool", [0, 6])
async def test_two_at_once_get_the_same_instances(pool: int) -> None:
    for round in range(30):
        async with a_world(seed=round) as world:
            if pool:
                await with_pool(world, pool)
            one, other = await two_at_once(world, round * 0.04, (3, 3))
            assert one.succeeded, one.reason
            assert other.succeeded, other.reason
            assert ids(one) == ids(other) == [i.id for i in records(world, RUNNING)], f"{round}"
            assert len(machines(world)) == max(pool, 3)


async def test_of_two_at_once_the_larger_tops_up() -> None:
    for round in range(10):
        async with a_world(seed=round) as world:
            one, other = await two_at_once(world, round * 0.1, (2, 4))
            assert len(ids(other)) == len(machines(world)) == 4
            assert set(ids(one)) < set(ids(other))


async def test_of_two_at_once_the_second_gets_its_own_if_the_first_fails() -> None:
    settings = small(Timings(validation=30.0, provision=60.0))
    async with a_world(settings=settings, temper=lambda n: Temper(boot_failure="" if n else "broken")) as world:
        one, other = await two_at_once(world, 0.5, (1, 1))
        assert "broken" in one.reason
        assert len(ids(other)) == len(machines(world)) == 1


async def test_two_of_different_classes_do_not_wait_for_each_other() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0 if n < 2 else 1.0)) as world:
        slow = asyncio.create_task(provisioned(world, "run", 2))
        await asyncio.sleep(1)
        assert (await provisioned(world, "run", 1, resource_class="medium")).succeeded
        assert now() < 10
        assert (await slow).succeeded


async def test_a_dead_provision_of_the_run_is_given_up_once_it_shows_no_sign_of_life() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=1e6 if n < 2 else 1.0)) as world:
        process, _ = world.start("victim", lambda ports: provisioned(world, "run", 2, ports))
        await asyncio.sleep(10)
        process.kill()
        outcome = await provisioned(world, "run", 2)
        assert outcome.succeeded, outcome.reason
        assert 10 + 15 <= now() < 10 + 15 + 5, "its record stood still for timings.alive"
        assert machines(world) == ids(outcome)
        states = [p.state for p in world.memory.tables.provisions.values()]
        assert states == [provisions.ABORTED, provisions.COMMITTED]


async def test_a_slow_provision_of_the_run_that_lives_is_awaited_however_long_it_takes() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=100.0)) as world:
        slow = asyncio.create_task(provisioned(world, "run", 2))
        await asyncio.sleep(1)
        second = await provisioned(world, "run", 2)
        assert (await slow).succeeded
        assert second.succeeded
        assert sorted(ids(second)) == sorted(ids(await slow)) == sorted(machines(world))
        assert now() >= 100.0


async def test_a_stop_while_it_waits_for_another_is_answered_at_once() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        slow = asyncio.create_task(provisioned(world, "run", 2))
        await asyncio.sleep(1)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(5.0, stop.set)
        outcome = await provisioned(world, "run", 2, stop=stop)
        assert outcome.interrupted
        assert now() < 6.5
        assert (await slow).succeeded
