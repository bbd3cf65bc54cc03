"""What release promises: every instance of the run goes back, cleaned and attested, or is ended."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, InstanceFate
from bullpen.model.signal import Heartbeat, beat_directly, direct_key
from bullpen.pool import debts, offering
from bullpen.release import release
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import (
    a_world,
    ids,
    machines,
    mute,
    now,
    provisioned,
    records,
    refreshed,
    released,
    steps,
    tickets,
    with_pool,
)


async def test_every_instance_of_the_run_is_on_offer_again_with_a_ticket() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 5)
        answer = await released(world, "run")
        assert sorted(answer.offered) == ids(outcome)
        assert all(one.is_claimable for one in records(world))
        assert sorted(ticket.instance_id for ticket in tickets(world)) == ids(outcome)


async def test_a_ticket_carries_the_new_idle_threshold() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (one,), (ticket,) = records(world, IDLE), tickets(world)
        assert 0 <= (one.threshold - ticket.threshold).total_seconds() < 1
        assert (one.threshold - world.clock.now()).total_seconds() == pytest.approx(420, abs=1)


async def test_only_the_runs_own_instances_are_released() -> None:
    async with a_world() as world:
        await provisioned(world, "one", 2)
        other = await provisioned(world, "two", 2)
        await released(world, "one")
        assert [one.id for one in records(world, RUNNING)] == ids(other)


async def test_a_run_with_nothing_is_released_without_an_error() -> None:
    async with a_world() as world:
        answer = await released(world, "unknown")
        assert (answer.offered, answer.terminated, answer.pending) == ((), (), ())


async def test_releasing_twice_changes_nothing_more() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        await released(world, "run")
        before = dict(world.memory.tables.instances)
        await released(world, "run")
        assert world.memory.tables.instances == before


async def test_an_instance_is_offered_only_after_it_attested() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=30.0)) as world:
        await provisioned(world, "run", 1)
        task = asyncio.create_task(released(world, "run"))
        await asyncio.sleep(20)
        (one,) = records(world, IDLE)
        assert not one.attested
        assert tickets(world) == []
        await task
        assert records(world)[0].attested


async def test_an_instance_that_another_process_put_on_offer_first_is_on_offer() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=30.0)) as world:
        outcome, stop = await provisioned(world, "run", 3), asyncio.Event()
        stop.set()
        await release(world.ports(), world.settings, "run", stop=stop)
        await asyncio.sleep(40)
        ports, cleaned = world.ports(), records(world, IDLE)
        pulses = await ports.signals.read([one.id for one in cleaned])
        for _ in ("another process", "this one, which read them before that"):
            fates = await offering.offer_living(ports, world.settings, cleaned, pulses, by="test")
            assert fates == dict.fromkeys(ids(outcome), InstanceFate.OFFERED)
        assert len(tickets(world)) == 3


async def test_an_instance_that_others_offered_and_claimed_meanwhile_is_not_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two reads: its agent then reports its next round, and never again the one that release waits for."""
    async with a_world(temper=lambda n: Temper(cleans_in=10.0)) as world:
        (id,) = ids(await provisioned(world, "run", 1))
        ports = world.ports()
        wait, began = ports.signals.wait, asyncio.get_running_loop().time()

        async def overslept(seconds: float) -> None:
            await wait(seconds)
            if tickets(world) == [] and asyncio.get_running_loop().time() < began + 10:
                await asyncio.sleep(11)
                await refreshed(world)
                assert ids(await provisioned(world, "next", 1)) == [id]

        monkeypatch.setattr(ports.signals, "wait", overslept)
        answer = await released(world, "run", ports)
        assert answer.offered == (id,)
        assert answer.duration < world.settings.timings.cleaning
        assert [one.run_id for one in records(world, RUNNING)] == ["next"]


async def test_all_instances_of_a_run_are_awaited_at_once() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=20.0)) as world:
        await provisioned(world, "run", 10)
        assert (await released(world, "run")).duration < 25


async def test_an_instance_that_does_not_attest_in_time_is_ended() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 2)
        world.tempers[ids(outcome)[0]].cleans_in = 1e6
        answer = await released(world, "run")
        assert answer.terminated == tuple(ids(outcome)[:1])
        assert answer.offered == tuple(ids(outcome)[1:])
        assert machines(world) == ids(outcome)[1:]
        assert answer.duration == pytest.approx(120, abs=2)


async def test_all_that_do_not_attest_in_time_are_ended_together() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=1e6)) as world:
        outcome = await provisioned(world, "run", 5)
        ports, ended = world.ports(), list[list[str]]()
        terminate = ports.compute.terminate

        async def noted(ids: Sequence[str]) -> list[str]:
            ended.append(sorted(ids))
            return await terminate(ids)

        ports.compute.terminate = noted  # type: ignore[method-assign]
        await released(world, "run", ports)
        assert ended == [ids(outcome)]


async def test_an_instance_whose_agent_falls_silent_is_ended_without_waiting_for_its_attestation() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 2)
        mute(world, ids(outcome)[:1])
        answer = await released(world, "run")
        assert answer.terminated == tuple(ids(outcome)[:1])
        assert answer.offered == tuple(ids(outcome)[1:])
        assert answer.duration == pytest.approx(world.settings.timings.alive, abs=1)
        assert world.memory.tables.stories[ids(outcome)[0]][-2].why == "its agent is silent"


@pytest.mark.parametrize("skew", [-100.0, 100.0])
async def test_a_slow_cleaning_under_a_skewed_clock_is_waited_for(skew: float) -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=60.0, skew=skew)) as world:
        outcome = await provisioned(world, "run", 1)
        assert list((await released(world, "run")).offered) == ids(outcome)


async def test_a_cleaning_that_failed_ends_the_instance_at_once() -> None:
    async with a_world(temper=lambda n: Temper(cleaning_failure="a file that cannot be removed")) as world:
        outcome = await provisioned(world, "run", 1)
        answer = await released(world, "run")
        assert list(answer.terminated) == ids(outcome)
        assert answer.duration < 5
        story = world.memory.tables.stories[ids(outcome)[0]]
        assert any("a file that cannot be removed" in line.why for line in story)


async def test_the_runner_is_deregistered() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        assert len(world.memory.registrations) == 2
        await released(world, "run")
        assert world.memory.registrations == {}


async def test_a_release_during_a_provision_ends_what_was_created_and_gives_back_what_was_claimed() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0 if n >= 2 else 1.0)) as world:
        pool = await with_pool(world, 2)
        task = asyncio.create_task(provisioned(world, "run", 4))
        await asyncio.sleep(10)
        assert len(records(world, CREATED)) == len(records(world, CLAIMED)) == 2
        await released(world, "run")
        assert machines(world) == pool
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool
        assert not (await task).succeeded
        assert len(records(world, RUNNING, CLAIMED, CREATED)) == 0


async def test_a_run_whose_runners_are_all_gone_and_forgotten_is_over_as_well() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        world.memory.tables.instances.clear()
        await released(world, "run")
        (only,) = world.memory.tables.provisions.values()
        assert only.is_closed


@pytest.mark.slow
async def test_the_run_of_a_killed_provision_is_released() -> None:
    for step in range(15, 140, 5):
        async with a_world() as world:
            await with_pool(world, 2)
            process, _ = world.start("victim", lambda ports, world=world: provisioned(world, "run", 3, ports))  # type: ignore[misc]
            process.die_at = step
            await process.ended()
            await released(world, "run")
            assert records(world, RUNNING, CLAIMED, CREATED) == [], f"killed at {step}"
            assert all(one.state is IDLE or one.owes is None for one in records(world)), f"killed at {step}"
            open_ones = [p for p in world.memory.tables.provisions.values() if p.state is provisions.OPEN]
            assert open_ones == []


async def test_an_index_that_lags_hides_no_instance_from_release() -> None:
    async with a_world(index_lag=3.0) as world:
        outcome = await provisioned(world, "run", 3)
        await asyncio.sleep(2.0)
        answer = await released(world, "run")
        assert sorted(answer.offered) == ids(outcome)


async def test_a_stop_leaves_what_still_cleans_as_pending() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=30.0)) as world:
        outcome = await provisioned(world, "run", 2)
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(5, stop.set)
        answer = await release(world.ports(), world.settings, "run", stop=stop)
        assert sorted(answer.pending) == ids(outcome)
        assert answer.duration < 7
        await asyncio.sleep(30)
        await refreshed(world)
        assert all(one.is_claimable for one in records(world))


async def test_what_was_cut_off_is_finished_by_the_next_call() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=30.0)) as world:
        outcome = await provisioned(world, "run", 2)
        process, _ = world.start("victim", lambda ports: released(world, "run", ports))
        await asyncio.sleep(5)
        process.kill()
        await asyncio.sleep(40)
        await released(world, "run")
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == ids(outcome)


async def test_that_the_run_is_over_is_written_before_the_first_instance_is_given_back() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 2)
        await released(world, "run")
        assert steps(world, outcome.provision_id) == [
            "open_",
            "plan_fleet",
            "answer_fleet",
            "commit",
            "settle_committed",
            "release",
            "settle_committed",
        ]
        assert now() < 5


async def test_the_trust_domain_stays_on_a_released_instance() -> None:
    async with a_world() as world:
        await with_pool(world, 1, trust_domain="team-a")
        assert [one.trust_domain for one in records(world, IDLE)] == ["team-a"]
        assert records(world, TERMINATED) == []


def has_notice(world: World, id: str) -> None:
    """EC2 has announced that it takes this machine in two minutes: the agent's next beat reports it."""
    now, stored = world.clock.now(), world.memory.tables.workers[direct_key(id)]
    beat = Heartbeat(id, now, stored.token + 1, leaving=now + timedelta(minutes=2))
    change = beat_directly(beat, stored)
    assert change is not None
    world.memory.tables.land([change])


async def test_an_instance_whose_machine_is_to_be_taken_away_is_ended_and_never_offered() -> None:
    async with a_world() as world:
        doomed, staying = ids(await provisioned(world, "run", 2))
        has_notice(world, doomed)
        answer = await released(world, "run")
        assert (answer.offered, answer.terminated) == ((staying,), (doomed,))
        assert [ticket.instance_id for ticket in tickets(world)] == [staying]
        assert "offer" not in steps(world, doomed)
        assert any("is to be taken away at" in line.why for line in world.memory.tables.stories[doomed])


async def test_the_payer_of_the_debt_of_a_killed_release_ends_it_as_well() -> None:
    async with a_world() as world:
        (doomed,) = ids(await provisioned(world, "run", 1))
        stopped = asyncio.Event()
        stopped.set()
        await release(world.ports(), world.settings, "run", stop=stopped)
        has_notice(world, doomed)
        await asyncio.sleep(world.settings.timings.takeover + 1)
        due = await world.ports().records.instances([doomed])
        await debts.pay_offers(world.ports(), world.settings, [*due.values()], by="test")
        assert [one.id for one in records(world, TERMINATED)] == [doomed]
        assert tickets(world) == []


async def test_the_payer_of_the_debt_of_a_killed_release_says_what_the_agent_could_not_clean() -> None:
    async with a_world() as world:
        (dirty,) = ids(await provisioned(world, "run", 1))
        world.tempers[dirty].cleaning_failure = "a mount resists"
        stopped = asyncio.Event()
        stopped.set()
        await release(world.ports(), world.settings, "run", stop=stopped)
        await asyncio.sleep(world.settings.timings.takeover + 1)
        due = await world.ports().records.instances([dirty])
        await debts.pay_offers(world.ports(), world.settings, [*due.values()], by="test")
        assert [one.id for one in records(world, TERMINATED)] == [dirty]
        assert any("UD_CLEAN_FAILED: a mount resists" in line.why for line in world.memory.tables.stories[dirty])
