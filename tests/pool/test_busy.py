"""An instance that executes a job of GitHub is neither given back nor ended before the job has ended, nor forgotten."""

import asyncio

import pytest

from bullpen.config import Settings, Timings
from bullpen.controllers import Service
from bullpen.model.activity import Activity, unnamed
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.signal import Heartbeat, Kind, Signal
from bullpen.pool.busy import describe
from bullpen.refresh.reap import OVERTIME
from bullpen.release import ReleaseOutcome
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import (
    a_world,
    begin_job,
    end_job,
    ids,
    machines,
    mute,
    now,
    on_github,
    provisioned,
    refreshed,
    released,
    requests,
    small,
    steps,
)
from spread_marks import mostly_slow


def record(world: World, id: str) -> Instance:
    return world.memory.tables.instances[id]


def debts_of(world: World, run_id: str) -> list[str]:
    found = world.memory.tables.provisions.values()
    return [one.owes.kind.value for one in found if one.run_id == run_id and one.owes is not None]


async def test_a_release_leaves_busy_instances_and_gives_the_others_back() -> None:
    async with a_world(settings=on_github()) as world:
        first, second, third = ids(await provisioned(world, "4711", 3))
        begin_job(world, second)
        answer = await released(world, "4711")
        assert answer.offered == (first, third)
        assert answer.busy == (second,)
        assert (answer.pending, answer.terminated) == ((), ())
        assert record(world, second).state is RUNNING
        assert debts_of(world, "4711") == ["release"]


async def test_a_job_that_ended_just_before_the_release_keeps_no_instance() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await asyncio.sleep(11)
        world.tempers[one].activity = None  # and no heartbeat has reported it yet
        answer = await released(world, "4711")
        assert answer.offered == (one,)
        assert answer.busy == ()


async def test_a_busy_instance_goes_back_once_the_job_has_ended_whichever_process_checks_then() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await released(world, "4711")
        await asyncio.sleep(60)
        await refreshed(world)
        assert record(world, one).state is RUNNING
        end_job(world, one)
        await asyncio.sleep(60)
        await refreshed(world)  # gives it back
        await asyncio.sleep(10)
        await refreshed(world)  # finds it clean
        assert record(world, one).is_claimable
        assert debts_of(world, "4711") == []
        assert machines(world) == [one]


async def test_a_second_release_gives_back_what_is_free_by_then() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await released(world, "4711")
        end_job(world, one)
        assert (await released(world, "4711")).pending == ()
        await asyncio.sleep(10)
        await refreshed(world)
        assert record(world, one).is_claimable
        assert debts_of(world, "4711") == []


async def test_the_last_report_of_a_dead_worker_keeps_no_instance() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await asyncio.sleep(1)
        mute(world, [one])
        await asyncio.sleep(30)
        answer = await released(world, "4711")
        assert answer.busy == ()
        assert answer.terminated == (one,)
        assert debts_of(world, "4711") == []


async def test_a_skewed_clock_takes_no_instance_away_from_its_job() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(skew=-3600.0)) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await asyncio.sleep(6)
        assert (await released(world, "4711")).busy == (one,)
        assert record(world, one).state is RUNNING


async def job_begins_as_it_is_given_back(world: World, max_runtime: float = 1800.0) -> str:
    """The race: free when it was checked, at work when its agent learned that it is given back."""
    (one,) = ids(await provisioned(world, "4711", 1, max_runtime=max_runtime))
    ports = world.ports()
    apply_each = ports.records.apply_each

    async def raced(changes):  # type: ignore[no-untyped-def]
        if any(change.step == "release" and change.before.id == one for change in changes):
            begin_job(world, one)
        return await apply_each(changes)

    ports.records.apply_each = raced  # type: ignore[method-assign]
    answer = await released(world, "4711", ports)
    assert answer.busy == (one,)
    assert answer.terminated == ()
    return one


async def test_a_job_that_begins_as_its_runner_is_given_back_is_not_ended() -> None:
    async with a_world(settings=on_github()) as world:
        one = await job_begins_as_it_is_given_back(world)
        await asyncio.sleep(2)
        said = world.memory.reports.signals[one]
        assert (said.kind, said.text[:5]) == (Kind.REMOVE_REG_FAILED, "busy:")
        for _ in range(20):  # far beyond the time of a cleaning, and the minute after it
            await asyncio.sleep(30)
            await refreshed(world)
        assert record(world, one).state is IDLE
        assert machines(world) == [one]
        end_job(world, one)
        await asyncio.sleep(10)
        await refreshed(world)
        assert record(world, one).is_claimable


async def test_a_busy_instance_is_spared_even_if_no_process_checks_again_before_the_job_ends() -> None:
    async with a_world(settings=on_github()) as world:
        one = await job_begins_as_it_is_given_back(world)
        await asyncio.sleep(1500)  # its agent ends itself a minute after its threshold
        assert machines(world) == [one]
        end_job(world, one)
        await asyncio.sleep(10)
        await refreshed(world)
        assert record(world, one).is_claimable


@pytest.mark.slow
async def test_a_job_longer_than_the_usual_runtime_is_spared_for_as_long_as_its_run_asked_for() -> None:
    async with a_world(settings=on_github()) as world:
        one = await job_begins_as_it_is_given_back(world, max_runtime=7200.0)
        for _ in range(80):
            await asyncio.sleep(60)
            await refreshed(world)
        assert machines(world) == [one]
        assert steps(world, one).count("spare") <= 8  # its story keeps the other steps
        for _ in range(45):
            await asyncio.sleep(60)
            await refreshed(world)
        assert machines(world) == []  # although its heartbeats name a job: its agent may have missed the end


async def test_a_claim_is_spared_no_longer_than_its_run_asked_for() -> None:
    async with a_world(settings=on_github()) as world:
        await provisioned(world, "before", 1)
        await released(world, "before")
        (one,) = machines(world)
        process, _ = world.start("victim", lambda ports: provisioned(world, "4711", 1, ports))
        await asyncio.sleep(0.15)
        process.kill()
        begin_job(world, one)
        for _ in range(45):  # ten minutes for the provision, half an hour for the job
            await asyncio.sleep(60)
            await refreshed(world)
        assert machines(world) == []


async def test_an_instance_that_dies_under_such_a_job_is_ended() -> None:
    async with a_world(settings=on_github()) as world:
        one = await job_begins_as_it_is_given_back(world)
        await asyncio.sleep(2)
        mute(world, [one])
        await asyncio.sleep(30)
        await refreshed(world)
        assert record(world, one).state is TERMINATED
        assert machines(world) == []


async def says_as_it_is_given_back(world: World, text: str, *then: Kind) -> tuple[str, ReleaseOutcome]:
    """An agent that reports this failure to deregister, beats without a job, and reports the rest a second later."""
    (one,) = ids(await provisioned(world, "4711", 1))
    mute(world, [one])
    ports = world.ports()
    await ports.signals.beat(Heartbeat(one, world.clock.now(), 1000))
    task = asyncio.create_task(released(world, "4711"))
    await asyncio.sleep(1)
    round = record(world, one).round
    await ports.signals.report(Signal(one, Kind.REMOVE_REG_FAILED, "", round, 1000, text))
    await asyncio.sleep(1)
    for seq, kind in enumerate(then, 1001):
        await ports.signals.report(Signal(one, kind, "", round, seq))
    return one, await task


@pytest.mark.parametrize(
    ("settings", "text"),
    [(small(), "busy: a job runs"), (on_github(), "the CI refused")],
    ids=["embedded CI", "GitHub"],
)
async def test_any_other_failure_to_deregister_ends_the_instance(settings: Settings, text: str) -> None:
    async with a_world(settings=settings) as world:
        one, answer = await says_as_it_is_given_back(world, text, Kind.CLEAN_OK)
        assert answer.terminated == (one,)
        assert text.removeprefix("busy: ") in world.memory.tables.stories[one][-2].why


async def test_an_instance_whose_job_has_ended_meanwhile_is_awaited() -> None:
    async with a_world(settings=on_github()) as world:
        one, answer = await says_as_it_is_given_back(world, "busy: a job ran", Kind.REMOVE_REG_OK, Kind.CLEAN_OK)
        assert answer.offered == (one,)


async def test_a_busy_instance_past_its_threshold_is_spared_again_before_its_agent_ends_itself() -> None:
    async with a_world(settings=on_github()) as world:
        one = await job_begins_as_it_is_given_back(world, max_runtime=7200.0)
        await asyncio.sleep((record(world, one).threshold - world.clock.now()).total_seconds() + 10)
        await refreshed(world)
        await asyncio.sleep(600)
        assert machines(world) == [one]


async def test_an_unfinished_claim_is_not_rolled_back_under_its_job() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(registers_in=0.1)) as world:
        await provisioned(world, "before", 1)
        await released(world, "before")
        (one,) = machines(world)
        process, _ = world.start("victim", lambda ports: provisioned(world, "4711", 2, ports))
        await asyncio.sleep(0.5)
        process.kill()  # with one claimed, and one new machine to come
        assert record(world, one).state is CLAIMED
        begin_job(world, one)
        for _ in range(15):
            await asyncio.sleep(60)
            await refreshed(world)
        assert record(world, one).state is CLAIMED
        end_job(world, one)
        for _ in range(3):
            await asyncio.sleep(60)
            await refreshed(world)
        assert record(world, one).state in (IDLE, TERMINATED)
        assert debts_of(world, "4711") == []


async def test_a_claim_past_its_threshold_is_spared_while_it_is_at_work() -> None:
    async with a_world(settings=on_github()) as world:
        await provisioned(world, "before", 1)
        await released(world, "before")
        (one,) = machines(world)
        process, _ = world.start("victim", lambda ports: provisioned(world, "4711", 1, ports))
        await asyncio.sleep(0.15)
        process.kill()
        begin_job(world, one)
        # The provision is gone: only the threshold of the claim is left.
        world.memory.tables.provisions.clear()
        await asyncio.sleep(665)
        (action,) = [found for found in await refreshed(world) if found.subject == one]
        assert (action.what, action.reason) == (
            "spare",
            "it executes job build of acme/widgets, run 4711, attempt 1",
        )
        await asyncio.sleep(665)
        assert machines(world) == [one]


@pytest.mark.parametrize(
    ("job", "shown"),
    [
        (unnamed("4711", "bullpen.i-1.0"), "runner bullpen.i-1.0 prepares a job"),
        (Activity("acme/api", "9", 2, "4711", "r", "build"), "it executes job build of acme/api, run 9, attempt 2"),
        (Activity("acme/api", "9", 2, "4711", "r"), "it executes a job of acme/api, run 9, attempt 2"),
    ],
)
def test_a_reason_says_what_a_busy_instance_does(job: Activity, shown: str) -> None:
    assert describe(job) == shown


async def test_past_its_maximum_runtime_a_job_has_the_time_in_which_its_agent_ends_itself() -> None:
    async with a_world(settings=on_github()) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        until = record(world, one).threshold
        await asyncio.sleep((until - world.clock.now()).total_seconds() + 1)
        assert [action for action in await refreshed(world) if action.subject == one] == []
        assert machines(world) == [one]
        await asyncio.sleep(70)
        assert machines(world) == []  # its agent ended it, and reported that to the CI


async def test_an_instance_that_is_busy_for_longer_than_that_is_ended() -> None:
    async with a_world(settings=on_github(Timings(max_runtime=60.0))) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        text = begin_job(world, one).text()
        await asyncio.sleep(5)
        mute(world, [one])  # it beats on, and does not end itself
        ended = []
        for seq in range(1000, 1000 + 60):
            await world.ports().signals.beat(Heartbeat(one, world.clock.now(), seq, text))
            await asyncio.sleep(5)
            ended += [now() for action in await refreshed(world) if action.subject == one]
        assert ended[:1] == [pytest.approx(60 + OVERTIME, abs=10)]


async def test_a_debt_that_a_job_holds_up_costs_little() -> None:
    async with a_world(settings=on_github(Timings(max_runtime=7200.0))) as world:
        (one,) = ids(await provisioned(world, "4711", 1))
        begin_job(world, one)
        await released(world, "4711")
        await asyncio.sleep(30)
        ports = world.ports()
        service = Service(ports, world.settings)
        (debts,) = [loop for loop in service.loops if loop.name == "debts"]
        before, began = requests(ports).copy(), now()
        while now() < began + 300:
            assert await debts.run_once()
            await asyncio.sleep(1)
        spent = requests(ports) - before
        polls = spent["records.due_provisions"] + spent["records.owing_instances"]
        assert spent.total() - polls <= 5 * (300 / 15 + 1), spent
        (owing,) = world.memory.tables.provisions.values()
        assert len(steps(world, owing.id)) <= 6  # its story keeps the other steps
        assert record(world, one).state is RUNNING


async def test_with_the_embedded_ci_a_release_reads_no_pulse_for_it() -> None:
    async with a_world(settings=small()) as world:
        await provisioned(world, "run", 3)
        ports = world.ports()
        await released(world, "run", ports)
        embedded = requests(ports).copy()
    async with a_world(settings=on_github()) as world:
        await provisioned(world, "4711", 3)
        ports = world.ports()
        await released(world, "4711", ports)
        assert requests(ports).total() == embedded.total() + 1  # one read of the pulses of all of them


@pytest.mark.parametrize("seed", mostly_slow(range(8), quick=2))
async def test_killed_anywhere_a_release_leaves_a_debt_and_never_an_ended_job(seed: int) -> None:
    async with a_world(settings=on_github(), seed=seed) as world:
        first, second = ids(await provisioned(world, "4711", 2))
        begin_job(world, first)
        process, _ = world.start("victim", lambda ports: released(world, "4711", ports))
        await asyncio.sleep(0.02 * (seed + 1))
        process.kill()
        for _ in range(4):
            await asyncio.sleep(60)
            await refreshed(world)
        assert record(world, first).state is RUNNING
        assert record(world, second).is_claimable
        end_job(world, first)
        for _ in range(3):
            await asyncio.sleep(30)
            await refreshed(world)
        assert record(world, first).is_claimable
        assert debts_of(world, "4711") == []
