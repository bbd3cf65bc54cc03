"""What refresh promises: desired against actual, each action with its reason, and a dry run that changes nothing."""

import asyncio
import copy
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from builders import a_plan, messages
from bullpen.config import Aws, Engines, ResourceClass, Settings, Timings
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import ConfigError, Refused
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED
from bullpen.model.job import QUEUED
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.progress import ProgressReport
from bullpen.model.provision import ABORTED, COMMITTED
from bullpen.model.signal import Kind, Signal
from bullpen.model.signal_text import refuses_runner
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.ports import Gap, Sighting
from bullpen.ports.health import Finding
from bullpen.refresh import Action, Hindered, refresh
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import (
    Rates,
    a_world,
    faults,
    ids,
    machines,
    mute,
    provisioned,
    records,
    refreshed,
    released,
    small,
    steps,
    tickets,
    with_pool,
)
from liveness.fixtures import Crew
from spread_marks import mostly_slow


def whole_state(world: World) -> Any:
    memory = world.memory
    queues = {name: sorted(queue.bodies()) for name, queue in memory.queues.items()}
    tables = memory.tables
    return copy.deepcopy(
        (tables.instances, tables.provisions, queues, memory.yard.machines, memory.registrations, memory.topics)
    )


def done_to(actions: list[Action], subject: str) -> list[str]:
    return [action.what for action in actions if action.subject == subject]


async def killed_after(world: World, run_id: str, count: int, seconds: float) -> None:
    """A provision that is killed after so many seconds."""
    process, _ = world.start("victim", lambda ports: provisioned(world, run_id, count, ports))
    await asyncio.sleep(seconds)
    process.kill()


async def a_mess(world: World) -> None:
    """Something for every phase of refresh."""
    pool = await with_pool(world, 4)
    await killed_after(world, "dead", 2, 0.1)
    await killed_after(world, "cold", 5, 0.5)
    await provisioned(world, "run", 1)
    await world.ports().queue.ensure("retired")
    world.memory.queues["small"]._ready.clear()
    mute(world, pool[:1])
    await asyncio.sleep(700)


async def test_a_second_refresh_has_nothing_to_do() -> None:
    async with a_world() as world:
        await with_pool(world, 3)
        await refreshed(world)
        assert await refreshed(world) == []


async def test_every_action_has_a_reason() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await a_mess(world)
        actions = await refreshed(world, dry_run=True) + await refreshed(world)
        assert len(actions) > 5
        assert [action for action in actions if not (action.what and action.subject and action.reason)] == []


async def test_a_dry_run_changes_nothing_and_says_what_would_be_done() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await a_mess(world)
        before = whole_state(world)
        ports = world.ports()
        actions = await refreshed(world, ports, dry_run=True)
        assert actions
        assert whole_state(world) == before
        changing = ("apply", "send", "ensure", "retire", "create_fleet", "terminate", "remove", "purge")
        assert [kind for kind in faults(ports).requests if kind.partition(".")[2] in changing] == []
        assert {"retire queue", "settle provision", "roll back", "terminate"} <= {action.what for action in actions}


async def test_a_dry_run_reports_no_progress() -> None:
    async with a_world() as world:
        reports: list[ProgressReport] = []
        planned = await refresh(world.ports(), world.settings, dry_run=True, tell=reports.append)
        assert planned
        assert reports == []
        await refresh(world.ports(), world.settings, tell=reports.append)
        assert [report.text for report in reports] == [f"{one.what} {one.subject}: {one.reason}" for one in planned]


async def test_a_queue_is_made_for_each_class_and_one_that_is_not_configured_is_retired() -> None:
    async with a_world() as world:
        await world.ports().queue.ensure("old")
        actions = await refreshed(world)
        assert done_to(actions, "old") == ["retire queue"]
        assert sorted(world.memory.queues) == ["large", "medium", "small"]


async def test_idle_instances_of_a_class_that_is_gone_are_ended() -> None:
    async with a_world(settings=small()) as world:
        (one,) = await with_pool(world, 1)
        world.settings = Settings(classes={"other": ResourceClass(cpu=1, mem=1024)})
        assert done_to(await refreshed(world), one) == ["terminate"]
        assert machines(world) == []


async def test_idle_instances_of_an_older_image_are_ended_and_running_ones_are_not() -> None:
    async with a_world(settings=small()) as world:
        pool = await with_pool(world, 2)
        serving = ids(await provisioned(world, "run", 1))
        world.settings = small(image_generation=2)
        await refreshed(world)
        assert machines(world) == serving
        assert set(serving) < set(pool)


async def test_idle_instances_past_their_threshold_are_ended() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        await asyncio.sleep(421)
        assert done_to(await refreshed(world), one) == ["terminate"]
        assert machines(world) == []


async def test_the_pool_is_created_up_to_its_idle_target_and_then_adopted() -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        actions = await refreshed(world)
        assert [action.what for action in actions if action.what == "create"] == ["create"]
        assert len(records(world, CREATED)) == 3
        await asyncio.sleep(5)
        await refreshed(world)
        assert [one.trust_domain for one in records(world, IDLE) if one.is_claimable] == ["", "", ""]
        assert len(tickets(world)) == 3
        assert len(machines(world)) == 3


async def test_a_booting_machine_counts_for_the_idle_target() -> None:
    async with a_world(settings=small(idle_target=2), temper=lambda n: Temper(boots_in=60.0)) as world:
        await refreshed(world)
        await refreshed(world)
        assert len(machines(world)) == 2


async def test_the_youngest_are_kept_for_the_idle_target_and_only_the_surplus_expires() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        old = ids(await provisioned(world, "old", 1))
        young = ids(await provisioned(world, "young", 1))
        await released(world, "old")
        await asyncio.sleep(30)
        await released(world, "young")
        await asyncio.sleep(400)
        actions = await refreshed(world)
        assert done_to(actions, old[0]) == ["terminate"]
        assert done_to(actions, young[0]) == ["keep"]
        assert machines(world) == young


async def test_a_kept_instance_gets_a_ticket_of_its_new_version() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        await with_pool(world, 1)
        await asyncio.sleep(300)
        await refreshed(world)
        (one,) = records(world, IDLE)
        assert one.version in [ticket.version for ticket in tickets(world)]


async def test_warming_respects_the_caps() -> None:
    async with a_world(settings=small(idle_target=3, max_instances=3)) as world:
        await provisioned(world, "run", 2)
        await refreshed(world)
        assert len(machines(world)) <= 3


async def test_without_capacity_warming_is_given_up_and_the_rest_is_done() -> None:
    async with a_world(settings=small(idle_target=3), capacity=0) as world:
        await refreshed(world)
        assert [p.state for p in world.memory.tables.provisions.values()] == [ABORTED]


async def test_part_of_the_capacity_warms_part_of_the_target() -> None:
    async with a_world(settings=small(idle_target=3), capacity=2) as world:
        await refreshed(world)
        assert len(machines(world)) == 2
        assert [p.state for p in world.memory.tables.provisions.values()] == [COMMITTED]


async def test_a_class_that_cannot_be_launched_does_not_stop_the_other_work() -> None:
    classes = {name: ResourceClass(cpu=1, mem=1024, idle_target=1) for name in ("small", "large")}
    async with a_world(settings=Settings(classes=classes)) as world:
        ports = world.ports()
        launch, purged = ports.compute.create_fleet, list[Any]()

        async def create_fleet(plan: Any) -> Any:
            if plan.resource_class == "small":
                raise ConfigError("no type fits", remedy="allow more")
            return await launch(plan)

        async def purge(now: datetime, limit: int) -> int:
            purged.append(now)
            return 0

        ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
        ports.records.purge = purge  # type: ignore[method-assign]
        with pytest.raises(Hindered, match="no type fits") as caught:
            await refreshed(world, ports)
        done = [(one.what, one.subject) for one in caught.value.actions]
        assert done[-2:] == [("cannot create", "1 × small"), ("create", "1 × large")]
        assert (caught.value.exit_code, caught.value.remedy) == (2, "allow more")
        assert [one.resource_class for one in records(world)] == ["large"]
        assert purged


async def test_a_machine_that_must_not_be_ended_is_reported_with_the_remedy() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        sightings = world.memory.yard.sightings
        sightings[one] = replace(sightings[one], stays="it is protected; switch that off")
        assert Action("cannot end", one, "it is protected; switch that off", is_done=False) in await refreshed(world)


async def test_a_pre_warmed_machine_that_never_boots_is_ended() -> None:
    async with a_world(settings=small(idle_target=1), temper=lambda n: Temper(boots_in=1e6)) as world:
        await refreshed(world)
        (first,) = machines(world)
        await asyncio.sleep(661)
        await refreshed(world)
        assert first not in machines(world)


@pytest.mark.parametrize("skew", [-300.0, 0.0, 50.0])
async def test_an_overdue_claim_is_rolled_back_if_its_agent_lives_whatever_its_clock(skew: float) -> None:
    async with a_world(settings=small(Timings(cleaning=600.0))) as world:
        (one,) = await an_overdue_claim(world, skew)
        actions = await refreshed(world)
        assert done_to(actions, one) == ["roll back"]
        assert records(world)[0].state is IDLE


@pytest.mark.parametrize("skew", [-300.0, 0.0, 50.0])
async def test_an_overdue_claim_whose_agent_is_silent_is_ended(skew: float) -> None:
    async with a_world(settings=small(Timings(cleaning=600.0))) as world:
        (one,) = await an_overdue_claim(world, skew)
        mute(world, [one])
        await asyncio.sleep(20)
        actions = await refreshed(world)
        assert done_to(actions, one) == ["terminate"]
        assert machines(world) == []


async def an_overdue_claim(world: World, skew: float) -> list[str]:
    """A claim whose provision is gone and settled; the agent's clock is wrong."""
    world.temper = lambda n: Temper(skew=skew)
    pool = await with_pool(world, 1)
    await killed_after(world, "dead", 1, 0.1)
    tables = world.memory.tables
    (record,) = [p for p in tables.provisions.values() if p.run_id == "dead"]
    tables.remove(record)
    (one,) = records(world, CLAIMED)
    overdue = replace(one, threshold=world.clock.now())
    tables.instances[one.id] = overdue
    tables.instance_indexes.follow(one.id, overdue)
    return pool


async def test_a_run_past_its_maximum_runtime_is_ended() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 1)
        await asyncio.sleep(1801)
        actions = await refreshed(world)
        assert done_to(actions, ids(outcome)[0]) == ["terminate"]


async def test_a_provision_past_its_deadline_is_aborted_and_what_it_held_given_back() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        await killed_after(world, "dead", 2, 0.1)
        assert len(records(world, CLAIMED)) == 2
        await asyncio.sleep(601)
        await refreshed(world)
        await asyncio.sleep(6)
        await refreshed(world)
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == pool


@pytest.mark.slow
async def test_a_committed_provision_whose_process_died_is_carried_out() -> None:
    async with a_world() as world:
        await with_pool(world, 2)
        for step in range(20, 400):
            run = f"run-{step}"
            process, _ = world.start("victim", lambda ports, run=run: provisioned(world, run, 2, ports))  # type: ignore[misc]
            process.die_at = step
            await process.ended()
            committed = [p for p in world.memory.tables.provisions.values() if p.run_id == run and p.members]
            if committed:
                break
            await released(world, run)
        assert len(records(world, CLAIMED)) == 2
        await asyncio.sleep(6)
        await refreshed(world)
        assert len(records(world, RUNNING)) == 2


async def test_a_machine_without_a_record_is_ended_only_when_seen_twice_a_minute_apart() -> None:
    async with a_world() as world:
        ports = world.ports()
        answer = await ports.compute.create_fleet(a_plan(provision_id="p-unknown"))
        stray = answer.machines[0].id
        assert done_to(await refreshed(world), stray) == []
        await asyncio.sleep(59)
        assert done_to(await refreshed(world), stray) == []
        await asyncio.sleep(2)
        assert done_to(await refreshed(world), stray) == ["terminate"]
        assert machines(world) == []
        await asyncio.sleep(61)
        assert done_to(await refreshed(world), stray) == ["bury"], "this engine lists the dead"
        await asyncio.sleep(61)
        assert done_to(await refreshed(world), stray) == []


async def test_a_machine_whose_record_no_list_shows_is_spared_and_reported() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        world.memory.tables.instance_indexes.follow(one, None)  # as from an index that lags, or cannot be read
        assert done_to(await refreshed(world), one) == []
        await asyncio.sleep(61)
        assert done_to(await refreshed(world), one) == ["spare"]
        assert machines(world) == [one]


async def test_a_machine_that_outlived_its_record_s_end_is_ended() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        yard = world.memory.yard
        machine, sighting = yard.machines[one], yard.sightings[one]
        yard.end(one)
        await refreshed(world)
        assert records(world)[0].owes is None
        yard.machines[one], yard.sightings[one] = machine, sighting
        await refreshed(world)
        await asyncio.sleep(61)
        assert done_to(await refreshed(world), one) == ["terminate"]


async def test_a_machine_whose_provision_is_unreadable_is_left_alone() -> None:
    async with a_world() as world:
        ports = world.ports()
        answer = await ports.compute.create_fleet(a_plan(provision_id="p-unknown"))

        async def unreadable(_id: str) -> Any:
            raise Refused("DynamoDB item TYPE#Provision / ID#p-unknown: `state` is resting")

        ports.records.provision = unreadable  # type: ignore[method-assign, assignment]
        for _ in range(2):
            assert done_to(await refreshed(world, ports), answer.machines[0].id) == []
            await asyncio.sleep(61)


async def test_a_machine_of_an_open_provision_is_left_to_it() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=170.0)) as world:
        task = asyncio.create_task(provisioned(world, "run", 1))
        await asyncio.sleep(1)
        (one,) = records(world, CREATED)
        world.memory.tables.instances.pop(one.id)
        world.memory.tables.instance_indexes.follow(one.id, None)
        for _ in range(2):
            assert done_to(await refreshed(world), one.id) == []
            await asyncio.sleep(61)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_record_whose_machine_is_gone_is_ended() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        world.memory.yard.end(one)
        assert done_to(await refreshed(world), one) == ["terminate"]
        assert [one.state for one in records(world)] == [TERMINATED]
        assert records(world)[0].owes is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the disk was full\nno space left on device", "the disk was full\nno space left on device"),
        (refuses_runner("2.1.0", "GitHub refuses it"), "GitHub refuses it"),
    ],
)
async def test_the_last_failure_of_a_machine_is_the_reason_of_its_end(text: str, shown: str) -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        (record,) = records(world)
        words = Signal(one, Kind.FAILED, "", record.round, 999, text)
        await world.ports().signals.report(words)
        world.memory.yard.end(one)
        await refreshed(world)
        expired = next(line for line in world.memory.tables.stories[one] if line.step == "expire")
        assert expired.why == f"its machine is gone: {shown}"


async def test_a_registration_without_an_instance_is_removed_when_seen_twice() -> None:
    async with a_world() as world:
        outcome = await provisioned(world, "run", 1)
        (one,) = ids(outcome)
        world.memory.yard.end(one)
        for _ in range(2):
            assert "deregister" not in done_to(await refreshed(world), one)
        await asyncio.sleep(61)
        assert done_to(await refreshed(world), one) == ["deregister"]
        assert world.memory.registrations == {}


async def test_lost_tickets_are_sent_again_at_the_second_look() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 2)
        world.memory.queues["small"]._ready.clear()
        world.memory.queues["small"]._hidden.clear()
        await refreshed(world)
        assert tickets(world) == []
        await asyncio.sleep(1)
        assert done_to(await refreshed(world), "small") == ["send tickets"]
        assert sorted(ticket.instance_id for ticket in tickets(world)) == pool


@pytest.mark.slow
async def test_a_termination_that_is_owed_is_carried_out() -> None:
    async with a_world() as world:
        (one,) = await with_pool(world, 1)
        mute(world, [one])
        await asyncio.sleep(421)
        for step in range(1, 200):
            process, _ = world.start("victim", lambda ports: refreshed(world, ports))
            process.die_at = step
            await process.ended()
            if records(world, TERMINATED):
                break
        assert machines(world) == [one]
        await refreshed(world)
        assert machines(world) == []
        assert steps(world, one)[-2:] == ["expire", "done"]


async def test_records_of_the_terminated_are_purged_after_their_time() -> None:
    async with a_world() as world:
        await with_pool(world, 1)
        await asyncio.sleep(421)
        await refreshed(world)
        assert len(records(world, TERMINATED)) == 1
        await asyncio.sleep(3601)
        await refreshed(world)
        assert records(world) == []


# ----------------------------------------------------------------------------------------------------- several at once


@pytest.mark.parametrize("seed", mostly_slow(range(8), quick=2))
async def test_refreshes_at_once_create_no_more_than_the_idle_target(seed: int) -> None:
    slow = Rates(latency=(0.01, 0.3))
    async with a_world(settings=small(idle_target=2), seed=seed, rates=slow) as world:
        await asyncio.gather(*(refreshed(world) for _ in range(6)))
        assert len(machines(world)) == 2
        assert {p.state for p in world.memory.tables.provisions.values()} <= {COMMITTED, ABORTED}


async def test_machines_that_another_refresh_is_about_to_launch_count_for_the_idle_target() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        process, _ = world.start("victim", lambda ports: refreshed(world, ports))
        while not [p for p in world.memory.tables.provisions.values() if p.fleets]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        process.kill()
        actions = await refreshed(world, dry_run=True)
        assert [action for action in actions if action.what == "create"] == []


# ----------------------------------------------------------------------------------------------------- heaps of tickets


async def test_the_tickets_of_an_instance_that_is_kept_for_ever_do_not_pile_up() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        await refreshed(world)
        for _ in range(50):
            await asyncio.sleep(220)
            await refreshed(world)
            assert await world.ports().queue.count("small") <= 3


async def test_a_heap_of_stale_tickets_is_dropped_and_what_is_current_stays() -> None:
    async with a_world() as world:
        pool = await with_pool(world, 3)
        stale = [one.ticket() for one in records(world, IDLE)]
        bodies = [replace(ticket, version=1).to_json() for ticket in stale for _ in range(50)]
        await world.ports().queue.send("small", messages([*bodies, "no ticket at all"]))
        assert done_to(await refreshed(world), "small") == ["drop stale tickets"]
        assert sorted(ticket.instance_id for ticket in tickets(world)) == pool
        assert {ticket.version for ticket in tickets(world)} == {one.version for one in records(world, IDLE)}
        assert await refreshed(world) == []


async def test_a_few_stale_tickets_are_not_worth_the_work() -> None:
    async with a_world(settings=small()) as world:
        await with_pool(world, 1)
        await world.ports().queue.send("small", messages(["stale"] * 11))
        assert await refreshed(world) == []


# ------------------------------------------------------------------------------------------------------ dead machines


async def test_a_machine_that_ended_unregistered_is_buried_by_refresh_and_not_by_a_dry_run() -> None:
    async with a_world() as world:
        sightings = world.memory.yard.sightings
        sightings["i-dead"] = Sighting("i-dead", "p-unknown", world.clock.now(), alive=False)
        ports = world.ports()
        assert done_to(await refreshed(world, ports, dry_run=True), "i-dead") == ["bury"]
        assert faults(ports).requests["compute.terminate"] == 0
        assert done_to(await refreshed(world, ports), "i-dead") == ["bury"]
        assert faults(ports).requests["compute.terminate"] == 1
        await asyncio.sleep(1)
        assert done_to(await refreshed(world, ports), "i-dead") == [], "however long it is listed"


# ------------------------------------------------------------------------------------------------------------- leases


async def a_silent_worker(crew: Crew) -> None:
    """It holds a job and has missed its lease of 15 s."""
    await crew.machine()
    await crew.answered(instance_id="i-1")
    await crew.works()
    await asyncio.sleep(20)


async def test_the_job_of_a_silent_worker_goes_back_to_the_queue() -> None:
    crew = Crew()
    await a_silent_worker(crew)
    actions = await refresh(crew.process(), crew.settings)
    assert done_to(actions, "w") == ["sweep lease"]
    assert (crew.worker().state, crew.job().state) == (INACTIVE, QUEUED)


async def test_a_dry_run_only_names_the_silent_worker_and_does_not_wait() -> None:
    crew = Crew()
    await a_silent_worker(crew)
    began = asyncio.get_running_loop().time()
    actions = await refresh(crew.process(), crew.settings, dry_run=True)
    assert done_to(actions, "w") == ["sweep lease"]
    assert (crew.worker().state, crew.job().state) == (ACTIVE, JOB_RUNNING)
    assert asyncio.get_running_loop().time() == began


async def test_jobs_that_are_owed_are_given_away_without_waiting() -> None:
    crew = Crew()
    await a_silent_worker(crew)
    await crew.loses("w")
    began = asyncio.get_running_loop().time()
    assert done_to(await refresh(crew.process(), crew.settings), "w") == ["sweep lease"]
    assert crew.job().state is QUEUED
    assert asyncio.get_running_loop().time() == began


async def test_a_silent_worker_without_a_job_is_not_awaited() -> None:
    crew = Crew()
    await crew.machine()
    await crew.answered(instance_id="i-1")
    await asyncio.sleep(20)
    began = asyncio.get_running_loop().time()
    assert done_to(await refresh(crew.process(), crew.settings), "w") == []
    assert asyncio.get_running_loop().time() == began


async def test_a_worker_that_cannot_be_given_up_is_waited_for_three_windows_at_most() -> None:
    crew = Crew()
    await crew.machine()
    await crew.answered(instance_id="i-1", lease=300)
    await crew.submits()
    await crew.assigns()
    await asyncio.sleep(301)
    began = asyncio.get_running_loop().time()
    await refresh(crew.process(), crew.settings)
    assert crew.worker().state is ACTIVE, "its own window is longer"
    assert asyncio.get_running_loop().time() - began < 3 * crew.settings.liveness.confirm + 1


class Ground:
    """An infrastructure with a gap, which notes what is done to it."""

    def __init__(self, *, blocks: bool) -> None:
        self.open = [Gap("make table", "pool", "it does not exist", blocks=blocks)]
        self.mended: list[str] = []

    def check(self) -> None:
        return

    async def gaps(self) -> list[Gap]:
        return list(self.open)

    async def mend(self, gap: Gap) -> None:
        self.open.remove(gap)
        self.mended.append(gap.what)

    async def examine(self) -> list[Finding]:
        return []


async def test_gaps_in_the_infrastructure_are_closed_before_anything_else() -> None:
    ground = Ground(blocks=True)
    ports = replace(Memory().ports(LoopClock(), SeededChance(0)), infrastructure=ground)
    done = [action.what for action in await refresh(ports, Settings())]
    assert done == ["make table", "make queue", "make queue", "make queue"]
    assert ground.mended == ["make table"]


@pytest.mark.parametrize(("blocks", "shown"), [(True, ["make table"]), (False, ["make table"] + ["make queue"] * 3)])
async def test_a_dry_run_closes_no_gap_and_stops_at_one_that_blocks(blocks: bool, shown: list[str]) -> None:
    ground = Ground(blocks=blocks)
    ports = replace(Memory().ports(LoopClock(), SeededChance(0)), infrastructure=ground)
    assert [action.what for action in await refresh(ports, Settings(), dry_run=True)] == shown
    assert ground.mended == []


async def test_queues_that_an_operator_makes_are_neither_made_nor_retired() -> None:
    settings = Settings(engines=Engines(pool="aws"), aws=Aws(manage="external"))
    ports = Memory().ports(LoopClock(), SeededChance(0))
    await ports.queue.ensure("gone")
    assert await refresh(ports, settings) == []
    assert await ports.queue.names() == ["gone"]
