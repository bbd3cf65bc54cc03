"""A member of a scale set dies: without a job it is replaced, with one the job is run again, and no living one is
ended."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace

import msgspec
import pytest

from builders import expire
from bullpen.config import Liveness, Settings
from bullpen.controllers import Service
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.errors import PermissionDenied
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.lost_worker import worker_losses
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model.activity import Activity, names_job, parse
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.model.signal import direct_key
from bullpen.model.worker import CLEANED_UP
from bullpen.ports import Conclusion, Ports, Registration, Removal
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from bullpen.workflows.alerts import ReportCollector
from bullpen.workflows.holdings import RunHoldings
from bullpen.workflows.machine_state import MachineStates
from bullpen.workflows.replace_runners import RunnerReplacement
from bullpen.workflows.reprovision import Refusal, RunnerProvider
from fixtures import machines, records, refreshed
from scale_sets.fixtures import (
    REPOSITORY,
    SET,
    a_set_world,
    hub_of,
    members,
    push,
    serve,
    session,
    set_of,
    settings_of,
    until_done,
)
from scale_sets.test_listener import Spy

pytestmark = pytest.mark.slow

LOST = 90.0  # seconds in which a silent agent is declared lost: its lease of a minute, and the confirm window


def dies(world: World, id: str) -> None:
    """The machine is gone from one moment to the next."""
    world.memory.yard.end(id)


def mutes(world: World, id: str) -> None:
    """Its agent is gone. Its machine and its runner go on."""
    world.agents[id].kill()


def on(world: World, run: str) -> str:
    """The instance on which the only job of a run runs, or ran last."""
    (job,) = hub_of(world).runs[run].jobs
    found = hub_of(world).instance_of(job.runner)
    assert found is not None
    return found


async def until_taken(world: World, run: str) -> str:
    """Wait until a runner has the job of the run; returns its instance."""
    (job,) = hub_of(world).runs[run].jobs
    while not job.runner:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.01)
    return on(world, run)


def state(world: World, id: str) -> str:
    return world.memory.tables.instances[id].state


def conclusions(world: World, run: str) -> list[Conclusion]:
    return [job.conclusion for job in hub_of(world).runs[run].jobs]


async def until_run_again(world: World, run: str) -> None:
    """Wait until the second attempt of a run has completed."""
    for _ in range(300):
        if hub_of(world).reruns:
            break
        await asyncio.sleep(5)
    assert hub_of(world).reruns, "not run again within 25 minutes"
    await until_done(world, run)


# ---- without a job


@pytest.mark.parametrize("ends", [dies, mutes])
async def test_an_idle_member_that_dies_is_ended_deregistered_and_replaced(
    ends: Callable[[World, str], None],
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        (before,) = members(world)
        ends(world, before.id)
        await asyncio.sleep(LOST)
        assert state(world, before.id) == TERMINATED
        assert before.id not in machines(world)
        assert not any(before.id in runner for runner in set_of(world).runners)
        (after,) = members(world)
        assert after.id != before.id


async def test_refresh_ends_an_idle_member_that_died_where_no_process_serves() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serving = serve(world)
        await asyncio.sleep(60)
        (one,) = members(world)
        serving.kill()
        mutes(world, one.id)
        await asyncio.sleep(LOST)
        done = [(action.what, action.subject) for action in await refreshed(world)]
        assert ("terminate", one.id) in done
        assert set_of(world).runners == {}
        assert state(world, one.id) == TERMINATED


async def test_a_member_whose_heartbeat_only_looks_old_is_not_ended() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world, skew=-600.0)
        await asyncio.sleep(300)
        assert [one for one in records(world, TERMINATED) if one.run_id] == []


@pytest.mark.parametrize(
    "troubles",
    [SetTroubles(lost=1.0), SetTroubles(busy_known_after=3600.0)],
    ids=["the message about it is lost", "GitHub calls the runner idle"],
)
async def test_a_member_that_is_cut_off_and_gets_a_job_all_the_same_is_not_ended_under_it(
    troubles: SetTroubles,
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        (one,) = members(world)
        world.agents[one.id].pause()
        hub_of(world).sets.troubles = troubles
        run = push(world, lasts=300.0)
        assert on(world, run) == one.id
        await asyncio.sleep(250)
        assert one.id in machines(world)
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]


# ---- under a job


def dies_on_its_next_job(world: World) -> None:
    """The machine that gets the next job is gone before a heartbeat names the job."""
    hub = hub_of(world)
    usual = hub.on_work

    def die(id: str, activity: Activity | None) -> None:
        hub.on_work = usual
        asyncio.get_running_loop().call_soon(dies, world, id, context=Context())

    hub.on_work = die


def activity_of(world: World, id: str) -> str:
    """What the last heartbeat of its worker says."""
    return world.memory.tables.workers[direct_key(id)].activity


def provided(world: World) -> list[str]:
    """Labels for which runners were provisioned."""
    return [one.run_id for one in world.memory.tables.provisions.values() if one.run_id]


async def a_lost_job(world: World, lasts: float = 200.0, after: float = 20.0) -> tuple[str, str]:
    """A job whose machine dies under it; returns its run and the instance."""
    run = push(world, lasts=lasts)
    dead = await until_taken(world, run)
    await asyncio.sleep(after)
    dies(world, dead)
    return run, dead


async def test_a_job_whose_runner_dies_is_run_again_once_through_the_set() -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        serve(world)
        await asyncio.sleep(60)
        run, dead = await a_lost_job(world)
        assert names_job(activity_of(world, dead))
        await until_run_again(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        assert state(world, dead) == TERMINATED
        assert on(world, run) != dead
        await asyncio.sleep(600)
        assert hub_of(world).reruns == [(run, 1, ("job-0",))]
        assert not any(one.owes_reschedule for one in world.memory.tables.workers.values())
        assert provided(world) == []
        assert len(members(world)) == 1


async def test_a_job_whose_runner_dies_before_its_first_heartbeat_is_run_again_too() -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        serve(world)
        await asyncio.sleep(60)
        dies_on_its_next_job(world)
        run = push(world, lasts=200.0)
        dead = await until_taken(world, run)
        await asyncio.sleep(LOST)
        assert not names_job(activity_of(world, dead))
        assert [job.runner for job in session(world).started if dead in job.runner]
        await until_run_again(world, run)
        assert hub_of(world).reruns == [(run, 1, ("job-0",))]
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        await asyncio.sleep(600)
        assert session(world).started == ()
        assert not any(one.owes_reschedule for one in world.memory.tables.workers.values())


@pytest.mark.parametrize("late", [0.0, 1.0])
async def test_a_job_whose_runner_dies_while_it_prepares_the_job_is_run_again_too(late: float) -> None:
    """Its agent did not know yet which job it was. What the CI says about its start may come after the loss."""
    settings = settings_of(min=1, rescue=(REPOSITORY,))
    async with a_set_world(settings, temper=lambda _: Temper(prepares_in=100.0)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.troubles = SetTroubles(late=late, late_by=(120.0, 120.0))
        run, dead = await a_lost_job(world)
        hub_of(world).sets.troubles = SetTroubles()
        told = parse(activity_of(world, dead))
        assert told is not None
        assert not told.is_named
        await until_run_again(world, run)
        assert hub_of(world).reruns == [(run, 1, ("job-0",))]
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        await asyncio.sleep(600)
        assert state(world, dead) == TERMINATED
        assert not any(one.owes_reschedule for one in world.memory.tables.workers.values())


async def test_a_job_is_run_again_if_the_holder_dies_with_its_runner() -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        holder = serve(world, "web-1")
        await asyncio.sleep(30)
        serve(world, "web-2")
        await asyncio.sleep(30)
        assert session(world).holder == "web-1"
        holder.kill()
        dies_on_its_next_job(world)
        run = push(world, lasts=200.0)
        await until_run_again(world, run)
        assert hub_of(world).reruns == [(run, 1, ("job-0",))]
        assert conclusions(world, run) == [Conclusion.SUCCESS]


async def test_a_job_is_run_again_if_its_start_is_reported_after_its_worker_was_lost() -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.troubles = SetTroubles(late=1.0, late_by=(240.0, 240.0))
        dies_on_its_next_job(world)
        run = push(world, lasts=200.0)
        dead = await until_taken(world, run)
        hub_of(world).sets.troubles = SetTroubles()
        await asyncio.sleep(150)
        assert session(world).started == ()
        assert world.memory.tables.workers[direct_key(dead)].owes_reschedule
        await until_run_again(world, run)
        assert hub_of(world).reruns == [(run, 1, ("job-0",))]


async def test_all_lost_jobs_of_an_attempt_are_run_again_together_also_after_serve_was_killed() -> None:
    async with a_set_world(settings_of(min=3, rescue=(REPOSITORY,))) as world:
        serving = serve(world)
        await asyncio.sleep(60)
        run = push(world, jobs=3, lasts=200.0)
        await asyncio.sleep(20)
        lost = [hub_of(world).instance_of(job.runner) for job in hub_of(world).runs[run].jobs[:2]]
        serving.kill()
        for id in lost:
            assert id is not None
            dies(world, id)
        await asyncio.sleep(300)
        serve(world, "web-2")
        await until_run_again(world, run)
        assert hub_of(world).reruns == [(run, 1, ("job-0", "job-1"))]
        assert set(conclusions(world, run)) == {Conclusion.SUCCESS}


async def test_a_lost_job_of_a_repository_that_did_not_opt_in_is_not_run_again() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        run, dead = await a_lost_job(world)
        await until_done(world, run)
        await asyncio.sleep(300)
        assert hub_of(world).reruns == []
        assert conclusions(world, run) == [Conclusion.FAILURE]
        assert "not in github.rescue" in list(world.memory.tables.stories[direct_key(dead)])[-1].why


async def test_a_runner_that_is_cut_off_from_bullpen_and_online_at_github_is_not_ended_under_its_job() -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        serve(world)
        await asyncio.sleep(60)
        run = push(world, lasts=900.0)
        cut_off = await until_taken(world, run)
        await asyncio.sleep(20)
        world.agents[cut_off].pause()
        await asyncio.sleep(800)
        assert cut_off in machines(world)
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        assert hub_of(world).reruns == []


# ---- under a job that goes on without its agent


def mutes_on_its_next_job(world: World) -> None:
    """The agent whose runner gets the next job is gone before a heartbeat names the job. Its runner goes on."""
    hub = hub_of(world)
    usual = hub.on_work

    def mute(id: str, activity: Activity | None) -> None:
        hub.on_work = usual
        mutes(world, id)

    hub.on_work = mute


@pytest.mark.parametrize("is_reported", [True, False], ids=["its agent reported the job", "GitHub alone knows the job"])
async def test_a_member_whose_agent_died_under_its_job_leaves_its_place_once_the_job_has_ended(
    is_reported: bool,
) -> None:
    async with a_set_world(settings_of(max=1, max_runtime_min=60)) as world:
        serve(world)
        await asyncio.sleep(60)
        if not is_reported:
            mutes_on_its_next_job(world)
        first = push(world, lasts=600.0)
        hangs = await until_taken(world, first)
        await asyncio.sleep(60)
        if is_reported:
            mutes(world, hangs)
        assert names_job(activity_of(world, hangs)) is is_reported
        await asyncio.sleep(400)
        assert hangs in machines(world)
        await until_done(world, first)
        assert conclusions(world, first) == [Conclusion.SUCCESS]
        second = push(world, lasts=30.0)
        assert await until_done(world, second) < 300
        assert state(world, hangs) == TERMINATED


async def until_forgotten(world: World, id: str) -> None:
    """Wait until the worker of an instance is cleaned up."""
    while world.memory.tables.workers[direct_key(id)].state is not CLEANED_UP:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(5)


async def a_forgotten_worker(world: World, between: Callable[[Ports], Ports] = lambda ports: ports) -> tuple[str, str]:
    """A job whose agent died so long ago that its worker is cleaned up; returns its run and the instance."""
    serve(world, between=between)
    run = push(world, lasts=3600.0)
    hangs = await until_taken(world, run)
    await asyncio.sleep(60)
    mutes(world, hangs)
    await until_forgotten(world, hangs)
    await asyncio.sleep(600)
    assert hangs in machines(world)
    return run, hangs


def forgetting() -> Settings:
    """Workers are forgotten sooner than the longest job ends."""
    return msgspec.structs.replace(settings_of(max=1, max_runtime_min=300), liveness=Liveness(cleanup=600.0))


async def test_a_member_leaves_its_place_after_a_job_that_outlasts_the_memory_of_its_worker() -> None:
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        second = push(world, lasts=30.0)
        assert await until_done(world, second) < 300
        assert state(world, hangs) == TERMINATED


async def test_a_member_whose_worker_is_forgotten_leaves_its_place_also_if_its_run_is_run_again_at_once() -> None:
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        hub = hub_of(world)
        while not hub.runs[run].completed:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.5)
        hub.rerun(hub.runs[run], ("job-0",))
        await asyncio.sleep(300)
        assert state(world, hangs) == TERMINATED
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        assert on(world, run) != hangs


def seems_busy(world: World, id: str) -> str:
    """GitHub calls a runner of the instance busy; returns the name of the runner."""
    runner = f"bullpen.{id}.0.1"
    world.memory.registrations[runner] = Registration(id, "", True, runner=runner, online=True)
    return runner


async def test_a_member_whose_worker_is_forgotten_stays_until_github_no_longer_calls_its_runner_busy() -> None:
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        runner = seems_busy(world, hangs)
        await until_done(world, run)
        await asyncio.sleep(600)
        assert state(world, hangs) == RUNNING
        world.memory.registrations[runner] = replace(world.memory.registrations[runner], busy=False)
        await asyncio.sleep(120)
        assert state(world, hangs) == TERMINATED
        assert not world.memory.tables.workers[direct_key(hangs)].owes_reschedule


async def test_the_loss_of_a_forgotten_worker_is_settled_once_its_threshold_has_ended_its_member() -> None:
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        seems_busy(world, hangs)
        await until_done(world, run)
        await asyncio.sleep(600)
        assert world.memory.tables.workers[direct_key(hangs)].owes_reschedule
        one = world.memory.tables.instances[hangs]
        await world.ports().records.apply(expire(one))
        await asyncio.sleep(120)
        assert not world.memory.tables.workers[direct_key(hangs)].owes_reschedule


async def test_a_member_whose_runner_github_refuses_to_remove_leaves_its_place_once_the_runner_is_offline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def between(ports: Ports) -> Ports:
        async def remove(handle: str) -> Removal:
            raise PermissionDenied("403")

        return replace(ports, ci=Spy(ports.ci, remove=remove))

    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world, between)
        await until_done(world, run)
        await asyncio.sleep(600)
        refused = "GitHub refuses to remove the runner of a lost worker"
        assert f"{refused} controller=runs instance={hangs} error=403" in caplog.text
        assert state(world, hangs) == TERMINATED
        assert not world.memory.tables.workers[direct_key(hangs)].owes_reschedule


async def test_a_run_that_is_cancelled_for_lack_of_runners_settles_its_losses_also_if_a_runner_seems_busy() -> None:
    """Otherwise Bullpen might re-run what it has cancelled."""
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        seems_busy(world, hangs)
        ports, report, worker = world.ports(), ReportCollector(), world.memory.tables.workers[direct_key(hangs)]
        settings = msgspec.structs.replace(
            world.settings, github=msgspec.structs.replace(world.settings.github, rescue=(REPOSITORY,))
        )
        losses = await worker_losses(ports, settings, [worker])
        machines_, runners = MachineStates(ports, settings, report), RunnerProvider(ports, settings, asyncio.Event())
        replacement = RunnerReplacement(ports, settings, machines_, runners, report)
        found = await ports.workflows.run(REPOSITORY, run)
        await replacement._fail(found, "a-label", [], RunHoldings(run, losses=losses), Refusal("no capacity"))
        assert not world.memory.tables.workers[direct_key(hangs)].owes_reschedule


async def test_a_member_that_goes_on_with_another_worker_stays_although_its_first_one_is_forgotten() -> None:
    async with a_set_world(forgetting()) as world:
        run, hangs = await a_forgotten_worker(world)
        beat = HeartbeatRequest(key=f"{hangs}/new", token=0, lease=3600)
        await record_heartbeat(world.ports(), world.settings, beat, instance_id=hangs)
        await until_done(world, run)
        await asyncio.sleep(300)
        assert state(world, hangs) == RUNNING


def retired(settings: Settings) -> Settings:
    """The set left the settings."""
    return msgspec.structs.replace(settings, github=msgspec.structs.replace(settings.github, scale_sets={}))


def with_a_new_image(settings: Settings) -> Settings:
    small = msgspec.structs.replace(settings.classes["small"], image_generation=2)
    return msgspec.structs.replace(settings, classes={"small": small})


@pytest.mark.parametrize("changed", [retired, with_a_new_image])
@pytest.mark.parametrize("is_reported", [True, False], ids=["its agent reported the job", "GitHub alone knows the job"])
async def test_a_runner_that_is_cut_off_finishes_its_job_although_its_set_does_not_take_it_any_more(
    changed: Callable[[Settings], Settings], is_reported: bool
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serving = serve(world)
        await asyncio.sleep(60)
        if not is_reported:
            mutes_on_its_next_job(world)
        run = push(world, lasts=1500.0)
        cut_off = await until_taken(world, run)
        await asyncio.sleep(60)
        mutes(world, cut_off)
        await asyncio.sleep(2)
        serving.kill()
        await asyncio.sleep(20)
        world.settings = changed(world.settings)
        serve(world, "web-2")
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        await asyncio.sleep(300)
        assert state(world, cut_off) == TERMINATED


async def test_a_member_whose_agent_died_under_its_job_keeps_the_threshold_that_it_had() -> None:
    async with a_set_world(settings_of(max=1, max_runtime_min=60)) as world:
        serve(world)
        run = push(world, lasts=3600.0)
        hangs = await until_taken(world, run)
        await asyncio.sleep(60)
        mutes(world, hangs)
        threshold = world.memory.tables.instances[hangs].threshold
        await asyncio.sleep(3000)
        assert world.memory.tables.instances[hangs].threshold == threshold


# ---- a job whose end is not certain


async def test_a_member_that_reports_a_job_long_after_its_run_completed_is_ended_and_replaced() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        run = push(world, lasts=400.0)
        hangs = await until_taken(world, run)
        await asyncio.sleep(20)
        hub_of(world).on_work = lambda id, activity: None  # its runner hangs: the agent misses the end of the job
        await until_done(world, run)
        await asyncio.sleep(30)
        assert state(world, hangs) == RUNNING
        await asyncio.sleep(240)
        assert state(world, hangs) == TERMINATED
        assert hangs not in [one.id for one in members(world)]
        assert len(members(world)) == 1


async def test_a_member_whose_job_goes_on_after_its_completion_was_reported_is_left_alone() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.troubles = SetTroubles(false_end=1.0)
        run = push(world, lasts=1200.0)
        works = await until_taken(world, run)
        await asyncio.sleep(1100)
        assert state(world, works) == RUNNING
        await until_done(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]


# ---- jobs that are run again, and not announced


async def test_a_lost_job_that_is_run_again_gets_a_runner_of_a_set_that_keeps_none() -> None:
    async with a_set_world(settings_of(rescue=(REPOSITORY,))) as world:
        hub_of(world).denied.add("waiting_jobs")  # no list shows it
        serve(world)
        run, _ = await a_lost_job(world)
        await until_run_again(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]
        await asyncio.sleep(700)
        assert members(world) == []
        assert set_of(world).runners == {}


async def test_a_rerun_that_a_webhook_shows_gets_a_runner_of_a_set_that_keeps_none() -> None:
    async with a_set_world() as world:
        hub_of(world).denied.add("waiting_jobs")  # no list shows it
        service, run = await a_completed_run(world)
        hub_of(world).rerun(hub_of(world).runs[run], ("job-0",))
        service.sets.note_queued([SET])
        assert await until_done(world, run) < 120.0


async def test_a_webhook_about_a_job_that_begins_anyway_costs_no_runner() -> None:
    async with a_set_world() as world:
        service, _ = await a_completed_run(world)
        run = push(world, lasts=30.0)
        service.sets.note_queued([SET])
        await until_done(world, run)
        await asyncio.sleep(150)
        assert members(world) == []


async def test_a_label_that_no_set_has_is_reported_once_with_the_sets_that_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world() as world:
        service, _ = await a_completed_run(world)
        for _ in range(2):
            service.sets.note_queued(["bullpen-smal"])
            await asyncio.sleep(10)
        (line,) = [one.getMessage() for one in caplog.records if "no scale set has" in one.getMessage()]
        assert "labels=bullpen-smal " in line
        assert f"sets={SET}" in line
        assert "github.scale-sets.NAME.name" in line


async def test_a_job_that_asks_for_more_than_its_set_has_gets_no_runner_and_is_reported_with_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world() as world:
        service, _ = await a_completed_run(world)
        for _ in range(6):
            assert not service.sets.note_queued(["self-hosted", SET], REPOSITORY)
            await asyncio.sleep(10)
        assert members(world) == []
        (line,) = [one.getMessage() for one in caplog.records if "more labels than its scale set" in one.getMessage()]
        assert "self-hosted, bullpen-small" in line
        assert REPOSITORY in line
        assert f"Write `runs-on: {SET}` in the workflow, without other labels: github.scale-sets.small.name" in line


async def a_completed_run(world: World) -> tuple[Service, str]:
    """A process serves, a run has completed, and everything is given back."""
    made: list[Service] = []

    async def main(ports: Ports) -> None:
        made.append(Service(ports, world.settings, process="web-1"))
        await made[0].run(asyncio.Event())

    process, _ = world.start("web-1", main)
    world.agents["web-1"] = process  # ends with the world
    run = push(world, lasts=30.0)
    await until_done(world, run)
    await asyncio.sleep(700)
    assert set_of(world).runners == {}
    return made[0], run
