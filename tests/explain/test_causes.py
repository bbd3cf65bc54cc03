"""`why`, for each cause of the list: what waits, in a simulated pool, has that cause and no other."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from bullpen import jobs
from bullpen.config import Limits, ResourceClass, Settings, Timings
from bullpen.explain import Explanation, why
from bullpen.jobs.request import JobRequest
from bullpen.model.instance import IDLE, RUNNING
from bullpen.model.ticket import RefusalRule, UsageClass
from bullpen.model.wait import ExplainedWait, SubjectKind, WaitCause, WaitKind
from bullpen.operate.pauses import pause
from bullpen.pool.lifecycle import expire_and_terminate
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, mute, provisioned, records, refreshed, released, small, with_pool

HOUR = 3600.0


def capped(most: int, **kind: Any) -> Settings:
    return msgspec.structs.replace(small(**kind), limits=Limits(max_instances=most))


def begin(work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
    return asyncio.get_running_loop().create_task(work)


async def explained(world: World, id: str) -> Explanation:
    return await why(world.ports(), world.settings, id)


async def wait_of(world: World, id: str) -> ExplainedWait:
    """The only wait of a run, a job or an instance."""
    found = await explained(world, id)
    (one,) = found.waits
    assert one.because
    assert one.next
    return one


async def ended(*tasks: "asyncio.Task[object]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def submitted(world: World, run_id: str, *commands: str, **changed: Any) -> list[str]:
    wanted = [JobRequest(run_id, tuple(one.split()), index=at, **changed) for at, one in enumerate(commands)]
    return [job.id for job in await jobs.submit(world.ports(), wanted, by="a test")]


async def test_at_a_full_cap_the_cause_is_the_cap_with_the_runs_that_hold_it() -> None:
    async with a_world(settings=capped(2)) as world:
        await provisioned(world, "holder", 2)
        task = begin(provisioned(world, "waiter", 1, wait=HOUR))
        await asyncio.sleep(5)
        one = await wait_of(world, "waiter")
        assert (one.cause, one.kind, one.resource_class) == (WaitCause.CAP, WaitKind.RUN, "small")
        assert "limits.max-instances is 2" in one.because
        assert "run holder holds 2" in one.because
        assert one.refusals == ((RefusalRule.TAKEN, 2),)
        await ended(task)


async def test_behind_another_provision_the_cause_is_the_cap_with_the_one_in_front() -> None:
    async with a_world(settings=capped(2)) as world:
        await provisioned(world, "holder", 2)
        first = begin(provisioned(world, "first", 2, wait=HOUR))
        await asyncio.sleep(5)
        second = begin(provisioned(world, "second", 1, wait=HOUR))
        await asyncio.sleep(5)
        one = await wait_of(world, "second")
        assert one.cause is WaitCause.CAP
        assert "(run first) came first" in one.because
        await ended(first, second)


async def test_while_a_runner_that_fits_is_cleaned_the_cause_is_cleaning() -> None:
    async with a_world(settings=capped(1), temper=lambda n: Temper(cleans_in=60.0)) as world:
        await provisioned(world, "holder", 1)
        waiter = begin(provisioned(world, "waiter", 1, wait=HOUR))
        await asyncio.sleep(5)
        release = begin(released(world, "holder"))
        await asyncio.sleep(5)
        one = await wait_of(world, "waiter")
        assert one.cause is WaitCause.CLEANING
        assert [candidate.rule for candidate in one.candidates] == [RefusalRule.CLEANING]
        (cleaned,) = records(world, IDLE)
        assert (await wait_of(world, cleaned.id)).cause is WaitCause.CLEANING
        await ended(waiter, release)


@pytest.mark.parametrize(
    ("before", "asked", "cause", "rule"),
    [
        ({"trust_domain": "a"}, {"trust_domain": "b"}, WaitCause.TRUST_DOMAIN, RefusalRule.TRUST_DOMAIN),
        ({}, {"usage_class": UsageClass.SPOT}, WaitCause.REQUIREMENTS, RefusalRule.USAGE_CLASS),
        ({}, {"cpu": 64}, WaitCause.REQUIREMENTS, RefusalRule.CPU),
        ({}, {"mem": 999_999}, WaitCause.REQUIREMENTS, RefusalRule.MEM),
        ({}, {"allowed_types": ("other.*",)}, WaitCause.REQUIREMENTS, RefusalRule.INSTANCE_TYPE),
    ],
    ids=["trust domain", "usage class", "cpu", "mem", "type"],
)
async def test_at_a_cap_that_idle_runners_fill_the_cause_is_the_rule_that_refuses_them(
    before: dict[str, Any], asked: dict[str, Any], cause: WaitCause, rule: RefusalRule
) -> None:
    async with a_world(settings=capped(1, idle_target=1)) as world:
        await with_pool(world, 1, **before)
        task = begin(provisioned(world, "waiter", 1, wait=HOUR, **asked))
        await asyncio.sleep(5)
        one = await wait_of(world, "waiter")
        assert (one.cause, one.refusals) == (cause, ((rule, 1),))
        assert "limits.max-instances is 1" in one.because
        assert one.candidates[0].detail
        await ended(task)


async def test_idle_runners_of_an_older_image_are_the_cause_where_they_fill_the_cap() -> None:
    async with a_world(settings=capped(1, idle_target=1)) as world:
        await with_pool(world, 1)
        world.settings = capped(1, idle_target=1, image_generation=2)
        task = begin(provisioned(world, "waiter", 1, wait=HOUR))
        await asyncio.sleep(5)
        one = await wait_of(world, "waiter")
        assert (one.cause, one.refusals) == (WaitCause.IMAGE_RETIRED, ((RefusalRule.IMAGE_RETIRED, 1),))
        await ended(task)


async def test_while_no_machine_can_be_launched_the_cause_is_no_capacity() -> None:
    async with a_world(settings=small(attempts=10), capacity=0) as world:
        task = begin(provisioned(world, "waiter", 1))
        await asyncio.sleep(3)
        one = await wait_of(world, "waiter")
        assert one.cause is WaitCause.NO_CAPACITY
        assert "could not be launched" in one.because
        await task
        (job,) = await submitted(world, "waiter", "true")
        assert (await wait_of(world, job)).cause is WaitCause.NO_CAPACITY
        assert (await explained(world, "waiter")).timeline is not None


@pytest.mark.parametrize(
    ("fields", "cause", "says"),
    [
        ({"temper": lambda n: Temper(boot_failure="no disk")}, WaitCause.BOOTING, "no disk"),
        ({"temper": lambda n: Temper(boots_in=9000.0)}, WaitCause.BOOTING, "did not get ready within"),
        ({"settings": capped(1)}, WaitCause.CAP, "limits.max-instances is 1"),
    ],
    ids=["boot failure", "late", "cap"],
)
async def test_a_job_whose_provision_failed_has_the_cause_of_that(
    fields: dict[str, Any], cause: WaitCause, says: str
) -> None:
    async with a_world(**fields) as world:
        assert not (await provisioned(world, "run", 2)).succeeded
        (job,) = await submitted(world, "run", "true")
        one = await wait_of(world, job)
        assert one.cause is cause
        assert says in one.because


async def test_a_job_whose_provision_was_stopped_or_released_has_a_run_that_is_over() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        stop = asyncio.Event()
        stopped, freed = begin(provisioned(world, "stopped", 1, stop=stop)), begin(provisioned(world, "freed", 1))
        await asyncio.sleep(10)
        stop.set()
        await released(world, "freed")
        await asyncio.gather(stopped, freed)
        for run in ("stopped", "freed"):
            (job,) = await submitted(world, run, "true")
            assert (await wait_of(world, job)).cause is WaitCause.RUN_OVER, run


async def test_a_job_whose_provision_was_given_up_for_a_dead_process_waits_for_a_process() -> None:
    settings = small(Timings(provision=60.0))
    async with a_world(settings=settings, temper=lambda n: Temper(boots_in=900.0)) as world:
        process, _ = world.start("victim", lambda ports: provisioned(world, "run", 1, ports))
        await asyncio.sleep(20)
        process.kill()
        await asyncio.sleep(60)
        await refreshed(world)
        (job,) = await submitted(world, "run", "true")
        one = await wait_of(world, job)
        assert one.cause is WaitCause.NO_SERVER
        assert "its deadline passed" in one.because


async def test_while_a_machine_boots_the_time_left_is_that_of_the_machines_before() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        await provisioned(world, "before", 1)
        task = begin(provisioned(world, "waiter", 1))
        await asyncio.sleep(10)
        one = await wait_of(world, "waiter")
        assert one.cause is WaitCause.BOOTING
        assert one.seconds_left == pytest.approx(30.2, abs=0.5)
        machine = next(each for each in records(world) if each.run_id == "waiter")
        of_machine = await wait_of(world, machine.id)
        assert (of_machine.cause, of_machine.kind) == (WaitCause.BOOTING, WaitKind.INSTANCE)
        assert of_machine.seconds_left == pytest.approx(30.2, abs=0.5)
        await ended(task)


async def test_without_a_boot_before_the_time_left_is_not_known() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        task = begin(provisioned(world, "waiter", 1))
        await asyncio.sleep(10)
        one = await wait_of(world, "waiter")
        assert (one.cause, one.seconds_left) == (WaitCause.BOOTING, None)
        await ended(task)


@pytest.mark.parametrize("paused", ["small", ""])
async def test_in_a_paused_class_or_pool_the_cause_is_the_pause_with_its_note(paused: str) -> None:
    async with a_world() as world:
        await pause(world.ports(), world.settings, paused, "new image tonight", operator="ana")
        task = begin(provisioned(world, "waiter", 1, wait=HOUR))
        await asyncio.sleep(5)
        one = await wait_of(world, "waiter")
        assert one.cause is WaitCause.PAUSED
        assert "new image tonight" in one.because
        assert "bullpen resume" in one.next
        await ended(task)


async def test_a_job_behind_others_of_its_run_is_queued_behind_them() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 2)
        first, second, third, last = await submitted(world, "run", *["sleep 600"] * 4)
        await asyncio.sleep(3)
        one = await wait_of(world, last)
        assert (one.cause, one.kind, one.run_id) == (WaitCause.QUEUED_BEHIND, WaitKind.JOB, "run")
        assert "other jobs occupy all 2 runners of run run, and a job was queued before it" in one.because
        assert {candidate.detail for candidate in one.candidates} == {f"executes {first}", f"executes {second}"}
        of_run = (await explained(world, "run")).waits
        assert [each.subject for each in of_run] == [third, last]


async def test_a_job_of_a_released_run_waits_because_its_run_is_over() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        await released(world, "run")
        (job,) = await submitted(world, "run", "true")
        one = await wait_of(world, job)
        assert one.cause is WaitCause.RUN_OVER
        assert "liveness.wait-for-runner" in one.next


async def test_a_job_that_no_runner_or_run_can_match_says_so() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        (unable,) = await submitted(world, "run", "true", capability="gpu")
        (lost,) = await submitted(world, "misspelt", "true")
        await asyncio.sleep(3)
        one = await wait_of(world, unable)
        assert (one.cause, one.refusals) == (WaitCause.NO_MATCH, ((RefusalRule.CAPABILITY, 1),))
        assert "'gpu'" in one.because
        assert (await wait_of(world, lost)).cause is WaitCause.NO_MATCH


async def test_a_job_whose_only_runner_is_silent_waits_for_a_lost_runner() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 1)
        mute(world, [outcome.members[0].instance.id])
        await asyncio.sleep(60)
        (job,) = await submitted(world, "run", "true")
        one = await wait_of(world, job)
        assert (one.cause, one.refusals) == (WaitCause.RUNNER_LOST, ((RefusalRule.SILENT, 1),))


@pytest.mark.parametrize("paused", [None, "small", ""])
async def test_a_job_whose_only_runner_has_ended_waits_for_another_or_for_the_resume(paused: str | None) -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        (job,) = await submitted(world, "run", "true", capability="unheard-of")
        await expire_and_terminate(world.ports(), world.settings, records(world, RUNNING), "a test ends it", by="test")
        if paused is not None:
            await pause(world.ports(), world.settings, paused, "a new image", operator="ada")
        wait = await wait_of(world, job)
        if paused is None:
            assert (wait.cause, wait.because) == (
                WaitCause.RUNNER_LOST,
                "run run has lost its runners, and did not give them back",
            )
        else:
            assert wait.cause is WaitCause.PAUSED
            assert wait.because.endswith("a new image")
            assert "bullpen resume" in wait.next


async def test_runners_that_work_through_a_server_wait_for_it_where_none_runs() -> None:
    served = msgspec.structs.replace(small(), agent=msgspec.structs.replace(Settings().agent, serve_url="https://b"))
    async with a_world(settings=served) as world:
        outcome = await provisioned(world, "run", 1)
        mute(world, [outcome.members[0].instance.id])
        await asyncio.sleep(60)
        (job,) = await submitted(world, "run", "true")
        assert (await wait_of(world, job)).cause is WaitCause.NO_SERVER


async def test_a_provision_whose_process_died_waits_for_a_process_that_takes_over() -> None:
    settings = small(Timings(provision=60.0), attempts=10)
    async with a_world(settings=settings, temper=lambda n: Temper(boots_in=900.0)) as world:
        process, _ = world.start("victim", lambda ports: provisioned(world, "waiter", 1, ports))
        await asyncio.sleep(20)
        assert (await wait_of(world, "waiter")).cause is WaitCause.BOOTING
        process.kill()
        await asyncio.sleep(60)
        one = await wait_of(world, "waiter")
        assert one.cause is WaitCause.NO_SERVER
        assert "no sign of life" in one.because


async def test_a_cleaning_that_no_process_finishes_waits_for_a_server() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=600.0)) as world:
        await provisioned(world, "run", 1)
        process, _ = world.start("victim", lambda ports: released(world, "run", ports))
        await asyncio.sleep(5)
        process.kill()
        (one,) = records(world, IDLE)
        assert one.owes is not None
        await asyncio.sleep((one.owes.due_at - world.clock.now()).total_seconds() + 31)
        assert (await wait_of(world, one.id)).cause is WaitCause.NO_SERVER
        until = world.clock.now() + timedelta(seconds=60)
        await world.ports().health.note("web-1", [], until)
        assert (await wait_of(world, one.id)).cause is WaitCause.CLEANING


async def test_a_second_provision_of_the_same_run_is_queued_behind_the_first() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        first = begin(provisioned(world, "run", 1))
        await asyncio.sleep(5)
        second = begin(provisioned(world, "run", 2))
        await asyncio.sleep(5)
        causes = {one.cause for one in (await explained(world, "run")).waits}
        assert causes <= {WaitCause.BOOTING, WaitCause.QUEUED_BEHIND}
        await ended(first, second)


async def test_what_waits_for_nothing_has_no_cause_and_says_what_it_does() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        (idle,) = records(world, IDLE)
        found = await explained(world, idle.id)
        assert (found.waits, found.kind) == ((), SubjectKind.INSTANCE)
        assert "is on offer until" in found.summary
        await provisioned(world, "run", 1)
        assert records(world, RUNNING)
        assert (await explained(world, "run")).summary == "run run has 1 runner, and waits for nothing"
        await released(world, "run")
        over = await explained(world, "run")
        assert "is over" in over.summary
        assert over.timeline is not None


async def test_a_class_that_the_settings_do_not_have_any_more_is_still_explained() -> None:
    async with a_world(settings=capped(1)) as world:
        await provisioned(world, "holder", 1)
        task = begin(provisioned(world, "waiter", 1, wait=HOUR))
        await asyncio.sleep(5)
        others = {"other": ResourceClass(cpu=1, mem=1024)}
        gone = replace_classes(world.settings, others)
        (one,) = (await why(world.ports(), gone, "waiter")).waits
        assert one.cause is WaitCause.NO_MATCH
        assert "'small'" in one.because
        await ended(task)


def replace_classes(settings: Settings, classes: dict[str, ResourceClass]) -> Settings:
    return msgspec.structs.replace(settings, classes=classes)
