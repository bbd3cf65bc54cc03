"""Provisions that wait for room under a cap: first come, first served, nothing held, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from builders import expire, later, register
from bullpen.config import Limits, ResourceClass, Settings
from bullpen.errors import Unavailable
from bullpen.model.instance import CLAIMED, CREATED, IDLE, LIVE, RUNNING
from bullpen.model.pause import Pause
from bullpen.model.progress import ProgressReport, WorkPhase
from bullpen.model.provision import ABORTED, COMMITTED, Provision
from bullpen.pool.lifecycle import expire_and_terminate
from bullpen.provision import Outcome
from bullpen.refresh import Action
from bullpen.sim.world import World
from fixtures import (
    Failure,
    a_world,
    faults,
    ids,
    machines,
    mute,
    now,
    provisioned,
    records,
    refreshed,
    released,
    requests,
    with_pool,
)


def capped(cap: int, **classes: dict[str, Any]) -> Settings:
    """Classes `small` and `large`, and a pool of at most `cap`."""
    kinds: dict[str, dict[str, Any]] = {"small": {}, "large": {}} | classes
    return Settings(
        limits=Limits(max_instances=cap),
        classes={name: ResourceClass(**{"cpu": 1, "mem": 1024, **changed}) for name, changed in kinds.items()},
    )


@asynccontextmanager
async def a_pool(cap: int, **classes: dict[str, Any]) -> AsyncIterator[World]:
    """A world whose waiting provisions are gone when the test ends."""
    async with a_world(settings=capped(cap, **classes)) as world:
        yield world
        left = [task for task in asyncio.all_tasks() if task.get_name() == "waiter"]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def begin(work: Coroutine[Any, Any, Outcome]) -> "asyncio.Task[Outcome]":
    return asyncio.create_task(work, name="waiter")


async def waits(world: World, run_id: str, count: int = 1, **changed: Any) -> "asyncio.Task[Outcome]":
    """A provision that has come to the queue."""
    task = begin(provisioned(world, run_id, count, **{"wait": 600.0, **changed}))
    async with asyncio.timeout(10):
        while run_id not in [one.run_id for one in in_queue(world)]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return task


def in_queue(world: World) -> list[Provision]:
    """The provisions that wait, in order."""
    waiting = [one for one in world.memory.tables.provisions.values() if one.is_waiting]
    return sorted(waiting, key=lambda one: (one.place.since, one.id) if one.place else (one.deadline, one.id))


def of_run(world: World, run_id: str) -> Provision:
    (found,) = [one for one in world.memory.tables.provisions.values() if one.run_id == run_id]
    return found


# ---- waiting


async def test_a_provision_waits_until_another_run_is_released() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 2)
        waiter = await waits(world, "next", 2)
        await asyncio.sleep(100)
        assert not waiter.done()
        began = now()
        await released(world, "busy")
        outcome = await waiter
        assert outcome.succeeded, outcome.reason
        assert outcome.selected == 2
        assert now() - began < 10
        assert in_queue(world) == []


async def test_a_provision_also_waits_for_room_to_launch_or_for_instances_to_evict() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 2, resource_class="large")
        waiter = await waits(world, "next", 2)
        await released(world, "busy")
        assert (await waiter).created == 2
        assert [one.resource_class for one in records(world, *LIVE)] == ["small", "small"]


async def test_a_provision_that_has_room_does_not_wait_and_writes_no_place() -> None:
    async with a_pool(2) as world:
        outcome = await provisioned(world, "run", 2, wait=600.0)
        assert outcome.succeeded
        assert now() < 5
        lines = world.memory.tables.stories[outcome.provision_id]
        assert [line.step for line in lines if line.step in ("wait", "admit")] == []


async def test_a_provision_that_waited_long_enough_fails_and_names_what_holds_the_cap() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 2)
        began = now()
        outcome = await provisioned(world, "next", 1, wait=60.0)
        assert "waited 60 s: limits.max-instances is 2; the total would be 3; in use: 2 small" in outcome.reason
        assert 60 <= now() - began < 63
        assert outcome.exit_code == 1
        assert of_run(world, "next").state is ABORTED
        assert in_queue(world) == []


async def test_more_than_a_cap_can_ever_give_is_refused_at_once() -> None:
    async with a_pool(2) as world:
        outcome = await provisioned(world, "run", 3, wait=600.0)
        assert "limits.max-instances is 2: 3 will never fit" in outcome.reason
        assert now() < 1


async def test_instances_on_offer_are_claimed_even_if_the_cap_was_lowered_below_the_count() -> None:
    async with a_pool(3) as world:
        pool = await with_pool(world, 3)
        world.settings = replace(world.settings, limits=Limits(max_instances=2))
        assert ids(await provisioned(world, "run", 3, wait=60.0)) == pool


async def test_a_waiting_provision_holds_nothing() -> None:
    async with a_pool(3) as world:
        await provisioned(world, "busy", 2)
        pool = await with_pool(world, 1)
        await waits(world, "next", 3)
        await asyncio.sleep(30)
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool
        assert records(world, CLAIMED, CREATED) == []
        assert of_run(world, "next").fleets == ()
        (one,) = records(world, IDLE)
        assert [line.step for line in world.memory.tables.stories[one.id]].count("claim") == 0


async def test_a_waiting_provision_reports_its_position_and_what_holds_the_cap() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        first, second = list[ProgressReport](), list[ProgressReport]()
        await waits(world, "one", tell=first.append)
        await waits(world, "two", tell=second.append)
        await asyncio.sleep(30)
        assert [one.text for one in first] == [
            "waiting for room: limits.max-instances is 1; the total would be 2; in use: 1 small running"
        ]
        assert [one.text for one in second] == [
            "waiting for room: limits.max-instances is 1; 1 provision waits in front"
        ]
        assert {(one.phase, one.about) for one in first} == {(WorkPhase.QUEUE, "limits.max-instances")}


async def test_a_stop_ends_a_waiting_provision_at_once_and_leaves_nothing() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        stop = asyncio.Event()
        waiter = await waits(world, "next", stop=stop)
        await asyncio.sleep(20)
        began = now()
        stop.set()
        assert (await waiter).interrupted
        assert now() - began < 1
        assert of_run(world, "next").state is ABORTED
        assert in_queue(world) == []


async def test_the_release_of_its_run_ends_a_waiting_provision() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        waiter = await waits(world, "next")
        await asyncio.sleep(20)
        began = now()
        await released(world, "next")
        outcome = await waiter
        assert "its run was released" in outcome.reason
        assert now() - began < 6
        assert in_queue(world) == []


async def test_a_store_that_is_away_for_a_while_does_not_end_a_waiting_provision() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        ports = world.ports()
        waiter = await waits(world, "next", ports=ports)
        look = ports.records.ahead

        async def away(limit: int) -> tuple[list[Provision], list[Pause]]:
            raise Unavailable("the store is away")

        ports.records.ahead = away  # type: ignore[method-assign]
        await asyncio.sleep(20)
        ports.records.ahead = look  # type: ignore[method-assign]
        await released(world, "busy")
        assert (await waiter).succeeded


async def test_a_waiting_provision_offers_an_instance_whose_release_died() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        waiter = await waits(world, "next")
        process, _ = world.start("releaser", lambda ports: released(world, "busy", ports))
        while not records(world, IDLE):  # noqa: ASYNC110
            await asyncio.sleep(0)
        process.kill()
        assert (await waiter).selected == 1


async def test_if_fewer_are_acceptable_a_provision_waits_only_for_the_first_instance() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "one", 1)
        await provisioned(world, "two", 1)
        waiter = await waits(world, "next", 5, allow_partial=True)
        await released(world, "one")
        assert len((await waiter).members) == 1


# ---- first come, first served


async def test_of_many_the_first_to_come_is_served_first_and_the_cap_is_kept() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 2)
        waiters = [await waits(world, f"run-{number}", 1 + number % 2) for number in range(6)]
        served: list[str] = []
        for number, waiter in enumerate(waiters):
            waiter.add_done_callback(lambda _, number=number: served.append(f"run-{number}"))  # type: ignore[misc]
        await released(world, "busy")
        for number, waiter in enumerate(waiters):
            outcome = await waiter
            assert outcome.succeeded, outcome.reason
            assert len(machines(world)) <= 2
            await asyncio.sleep(1)
            await released(world, f"run-{number}")
        assert served == [f"run-{number}" for number in range(6)]


async def test_a_clock_that_is_behind_puts_no_new_provision_in_front() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        await waits(world, "first")
        await waits(world, "second", ports=world.ports(skew=-10.0))
        assert [one.run_id for one in in_queue(world)] == ["first", "second"]


async def test_a_new_provision_without_a_wait_fails_at_once_even_if_an_instance_on_offer_fits() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 1)
        pool = await with_pool(world, 1)
        await waits(world, "first", 2)
        began = now()
        outcome = await provisioned(world, "late", 1)
        assert "limits.max-instances is 2; 1 provision waits in front" in outcome.reason
        assert "--wait" in outcome.remedy
        assert now() - began < 1
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool


async def test_a_small_request_does_not_overtake_a_large_one() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "one", 1)
        await provisioned(world, "two", 1)
        first, second = await waits(world, "first", 2), await waits(world, "second", 1)
        await released(world, "one")
        await asyncio.sleep(60)
        assert (first.done(), second.done()) == (False, False)
        await released(world, "two")
        assert (await first).succeeded
        assert not second.done()
        await released(world, "first")
        assert (await second).succeeded


async def test_a_later_provision_of_another_class_may_use_what_none_in_front_could() -> None:
    async with a_pool(3, large={"idle_target": 2}) as world:
        pool = await with_pool(world, 2, resource_class="large")
        await provisioned(world, "busy", 1)
        waiter = await waits(world, "first", 1)
        outcome = await provisioned(world, "late", 2, resource_class="large")
        assert ids(outcome) == pool
        assert not waiter.done()


async def test_a_new_provision_of_another_class_leaves_idle_instances_that_those_in_front_may_evict() -> None:
    async with a_pool(3) as world:
        await provisioned(world, "busy", 2)
        await with_pool(world, 1, resource_class="large")
        waiter = await waits(world, "first", 2)
        outcome = await provisioned(world, "late", 1, resource_class="large")
        assert "1 provision waits in front" in outcome.reason
        await released(world, "busy")
        assert (await waiter).succeeded


async def test_a_new_provision_that_would_have_to_launch_does_not_overtake() -> None:
    async with a_pool(4, large={"idle_target": 1}) as world:
        await with_pool(world, 1, resource_class="large")
        await provisioned(world, "busy", 2)
        await waits(world, "first", 3)  # there is room for one more, and it needs two
        outcome = await provisioned(world, "late", 2, resource_class="large")
        assert "1 provision waits in front" in outcome.reason
        assert len(machines(world)) == 3


async def test_the_queue_of_a_class_does_not_hold_up_other_classes() -> None:
    async with a_pool(9, small={"max_instances": 1}) as world:
        await provisioned(world, "busy", 1)
        waiter = await waits(world, "first")
        assert of_run(world, "first").waits_for == "classes.small.max-instances"
        assert (await provisioned(world, "other", 2, resource_class="large")).created == 2
        assert "1 provision waits in front" in (await provisioned(world, "late", 1)).reason
        assert not waiter.done()


async def test_a_provision_that_waited_for_a_class_waits_for_the_pool_with_its_first_time_of_arrival() -> None:
    async with a_pool(2, small={"max_instances": 1}) as world:
        (busy,) = ids(await provisioned(world, "busy", 1))
        await provisioned(world, "large", 1, resource_class="large")
        await waits(world, "first")
        before = of_run(world, "first").place
        assert before is not None
        assert before.cap == "classes.small.max-instances"
        tables = world.memory.tables
        tables.land([register("i-rival", run_id="rival", resource_class="large", until=later(9000))])
        tables.land([expire(tables.instances[busy])])
        await asyncio.sleep(5)
        after = of_run(world, "first").place
        assert after is not None
        assert (after.cap, after.since) == ("limits.max-instances", before.since)


async def test_a_provision_waits_in_the_queue_of_the_cap_under_which_no_eviction_makes_room() -> None:
    async with a_pool(3, small={"max_instances": 2}) as world:
        await with_pool(world, 1, trust_domain="another")  # its place can be freed, in its class
        await provisioned(world, "busy", 1, resource_class="large")
        await provisioned(world, "free", 1, resource_class="large")
        reports = list[ProgressReport]()
        waiter = await waits(world, "first", 2, tell=reports.append)
        assert of_run(world, "first").waits_for == "limits.max-instances"
        held = "in use: 2 large running, 1 small idle"
        assert reports[-1].text == f"waiting for room: limits.max-instances is 3; the total would be 5; {held}"
        await released(world, "free")
        late = await provisioned(world, "late", 1, resource_class="large")
        assert "1 provision waits in front" in late.reason
        assert (await waiter).created == 2


async def test_warming_the_pool_does_not_overtake() -> None:
    async with a_pool(3, large={"idle_target": 1}) as world:
        await provisioned(world, "busy", 2)
        await waits(world, "first", 2)
        actions = [one for one in await refreshed(world) if "create" in one.what]
        reason = "limits.max-instances is 3; 1 provision waits in front"
        assert actions == [Action("cannot create", "1 × large", reason, is_done=False)]
        assert len(machines(world)) == 2
        foreseen = [one for one in await refreshed(world, dry_run=True) if "create" in one.what]
        assert foreseen == actions


async def test_a_second_provision_of_a_waiting_run_waits_for_it() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        first = await waits(world, "run")
        second = begin(provisioned(world, "run", 1, wait=600.0))
        await asyncio.sleep(60)
        await released(world, "busy")
        assert ids(await first) == ids(await second)


async def test_a_runner_of_the_run_that_died_while_it_waited_is_replaced_too() -> None:
    async with a_pool(3) as world:
        (dead,) = ids(await provisioned(world, "run", 1))
        await provisioned(world, "busy", 2)
        waiter = await waits(world, "run", 2)
        mute(world, [dead])
        await asyncio.sleep(100)
        await released(world, "busy")
        outcome = await waiter
        assert outcome.succeeded, outcome.reason
        assert ids(outcome) == [one.id for one in records(world, RUNNING)]
        assert dead not in ids(outcome)
        assert len(ids(outcome)) == 2


# ---- killed, or too late


async def test_a_waiting_provision_that_was_killed_leaves_the_queue_by_itself() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 1)
        await with_pool(world, 1)
        process, _ = world.start("victim", lambda ports: provisioned(world, "first", 2, ports, wait=3600.0))
        await asyncio.sleep(10)
        process.kill()
        assert len(in_queue(world)) == 1
        assert not (await provisioned(world, "late", 1)).succeeded
        await asyncio.sleep(31)
        assert (await provisioned(world, "later", 1)).selected == 1
        record = of_run(world, "first")
        assert (record.state, record.reason) == (ABORTED, "it waited, and its process shows no sign of life")


async def test_refresh_says_why_it_aborts_a_waiting_provision_that_was_killed() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        process, _ = world.start("victim", lambda ports: provisioned(world, "first", 1, ports, wait=3600.0))
        await asyncio.sleep(10)
        process.kill()
        await asyncio.sleep(31)
        reason = "it waited, and its process shows no sign of life"
        action = Action("settle provision", of_run(world, "first").id, reason)
        assert action in await refreshed(world, dry_run=True)
        assert action in await refreshed(world)


async def test_the_next_in_the_queue_moves_up_when_the_one_in_front_was_killed() -> None:
    async with a_pool(2) as world:
        await provisioned(world, "busy", 1)
        await with_pool(world, 1)
        process, _ = world.start("victim", lambda ports: provisioned(world, "first", 2, ports, wait=3600.0))
        await asyncio.sleep(5)
        waiter = await waits(world, "second", 1)
        process.kill()
        began = now()
        assert (await waiter).succeeded
        assert now() - began < 45


async def test_an_admitted_provision_that_loses_the_race_gives_everything_back_and_keeps_its_place() -> None:
    async with a_pool(3) as world:
        await provisioned(world, "busy", 2)
        pool = await with_pool(world, 1)
        ports = world.ports()
        first = await waits(world, "first", 2, ports=ports, trust_domain="default")
        await waits(world, "second", 1)
        since = in_queue(world)[0].place
        apply, beaten = ports.records.apply, list[str]()

        async def overtaken(*changes: Any, **rest: Any) -> list[Any]:
            landed = await apply(*changes, **rest)
            if not beaten and any(change.step == "plan_fleet" for change in changes):
                beaten.append("a program that knows no queue")
                world.memory.tables.land([register("i-rival", run_id="rival", until=later(9000))])
            return landed

        ports.records.apply = overtaken  # type: ignore[method-assign]
        one, two = [one.id for one in records(world, RUNNING)]
        fates = await expire_and_terminate(
            world.ports(), world.settings, records(world, RUNNING)[:1], "lost", by="a test"
        )
        assert list(fates) == [one]
        await asyncio.sleep(20)
        assert beaten
        assert not first.done()
        back = in_queue(world)[0]
        assert (back.run_id, back.place and back.place.since) == ("first", since and since.since)
        assert of_run(world, "first").fleets[0].count == 0
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool
        rival = world.memory.tables.instances["i-rival"]
        world.memory.tables.land([expire(rival)])
        outcome = await first
        assert outcome.succeeded, outcome.reason
        assert two not in ids(outcome)


async def test_each_check_of_a_waiting_provision_costs_few_requests() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        ahead, behind = world.ports(), world.ports()
        await waits(world, "first", ports=ahead)
        await waits(world, "second", ports=behind)
        await asyncio.sleep(10)
        before = (requests(ahead).copy(), requests(behind).copy())
        await asyncio.sleep(100)
        spent = [requests(ports) - earlier for ports, earlier in zip((ahead, behind), before, strict=True)]
        assert spent[1]["records.live"] == 0, "one that is not in front looks at the queue, not at the pool"
        assert spent[0]["records.live"] <= spent[0]["records.ahead"] <= 150
        assert spent[0].total() <= 900
        assert spent[1].total() <= 400


async def test_lost_answers_do_not_change_the_outcome() -> None:
    async with a_pool(1) as world:
        await provisioned(world, "busy", 1)
        ports = world.ports()
        waiter = await waits(world, "next", ports=ports)
        faults(ports).fail_next("records.apply", Failure.LOST_ANSWER)
        await asyncio.sleep(6)
        await released(world, "busy")
        assert (await waiter).succeeded
        assert of_run(world, "next").state is COMMITTED
        assert [one.run_id for one in records(world, RUNNING)] == ["next"]
