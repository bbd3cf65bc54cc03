"""`why` of a job of GitHub, by the URL of its page: GitHub says how it stands, the pool who could serve it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bullpen.engines.memory.github import JobSpec
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.errors import BullpenError, ConfigError, NotFound, Throttled, Unavailable
from bullpen.explain import Explanation, why
from bullpen.explain.queue import queue
from bullpen.model.instance import RUNNING
from bullpen.model.scale_set import RETIRING
from bullpen.model.ticket import RefusalRule
from bullpen.model.wait import SubjectKind, WaitCause, WaitKind
from bullpen.operate.pauses import pause
from bullpen.ports import Ports
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, on_github, provisioned, records
from scale_sets.fixtures import REPOSITORY, SET, a_set_world, hub_of, push, serve, settings_of
from scale_sets.outage import Outage

HOST = "https://github.com"


def url_of(world: World, run: str, at: int = 0) -> str:
    return f"{HOST}/{REPOSITORY}/actions/runs/{run}/job/{hub_of(world).runs[run].jobs[at].id}"


async def explained(world: World, id: str) -> Explanation:
    return await why(world.ports(), world.settings, id)


async def cause_of(world: World, id: str) -> WaitCause:
    (one,) = (await explained(world, id)).waits
    assert one.because
    assert (one.kind, one.repository) == (WaitKind.JOB, REPOSITORY)
    return one.cause


def start(world: World, label: str, *labels: str) -> str:
    return hub_of(world).start(REPOSITORY, JobSpec("build", label=label, lasts=600.0))


async def test_a_job_whose_labels_match_no_run_and_no_set_matches_nothing() -> None:
    async with a_set_world() as world:
        run = start(world, "ubuntu-latest")
        found = await explained(world, url_of(world, run))
        (one,) = found.waits
        assert (one.cause, found.kind) == (WaitCause.NO_MATCH, SubjectKind.JOB)
        assert "ubuntu-latest" in one.because
        assert SET in one.because


async def test_a_job_of_a_run_that_never_got_runners_matches_no_provision() -> None:
    async with a_world(settings=on_github()) as world:
        run = start(world, "4711")
        assert await cause_of(world, url_of(world, run)) is WaitCause.NO_MATCH


async def test_a_job_of_a_run_waits_as_the_provision_of_its_run() -> None:
    async with a_world(settings=on_github(), temper=lambda n: Temper(boots_in=60.0)) as world:
        run = start(world, "4711")
        task = asyncio.get_running_loop().create_task(provisioned(world, "4711", 1, repository=REPOSITORY))
        await asyncio.sleep(10)
        assert await cause_of(world, url_of(world, run)) is WaitCause.BOOTING
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_job_behind_another_one_of_its_run_is_queued_behind_it() -> None:
    async with a_world(settings=on_github()) as world:
        jobs = [JobSpec(f"build-{n}", label="4711", lasts=600.0) for n in range(2)]
        run = hub_of(world).start(REPOSITORY, *jobs)
        await provisioned(world, "4711", 1, repository=REPOSITORY)
        await asyncio.sleep(10)
        urls = [url_of(world, run, at) for at in range(2)]
        found = [await explained(world, url) for url in urls]
        waiting = [one for each in found for one in each.waits]
        assert [one.cause for one in waiting] == [WaitCause.QUEUED_BEHIND]
        (instance,) = records(world, RUNNING)
        assert any(f"runs on {instance.id} of this pool" in each.summary for each in found)


async def test_a_job_of_a_completed_run_waits_for_nothing() -> None:
    async with a_set_world() as world:
        serve(world)
        run = push(world, lasts=5.0)
        await asyncio.sleep(120)
        found = await explained(world, url_of(world, run))
        assert found.waits == ()
        assert "has completed: success" in found.summary


async def test_a_job_of_a_set_without_a_server_waits_for_a_server() -> None:
    async with a_set_world() as world:
        run = push(world)
        assert await cause_of(world, url_of(world, run)) is WaitCause.NO_SERVER
        (of_set,) = (await explained(world, SET)).waits
        assert (of_set.cause, of_set.kind) == (WaitCause.NO_SERVER, WaitKind.SET)


@pytest.mark.parametrize(
    ("settings", "fields", "cause"),
    [
        (settings_of(max=1), {}, WaitCause.CAP),
        (settings_of(), {"temper": lambda n: Temper(boots_in=100.0)}, WaitCause.BOOTING),
        (settings_of(), {"capacity": 0}, WaitCause.NO_CAPACITY),
    ],
    ids=["cap", "booting", "no capacity"],
)
async def test_a_job_of_a_set_waits_as_its_supplier_says(settings: Any, fields: Any, cause: WaitCause) -> None:
    async with a_set_world(settings, **fields) as world:
        serve(world)
        push(world, lasts=600.0)
        await asyncio.sleep(5)
        run = push(world, lasts=600.0)
        await asyncio.sleep(70)
        assert await cause_of(world, url_of(world, run)) is cause
        waits = (await queue(world.ports(), world.settings)).waits  # GitHub announces no job beyond `max`
        assert {one.cause for one in waits} <= {cause}


@pytest.mark.parametrize(("paused", "option"), [("", ""), ("small", " --class small")])
async def test_a_job_of_a_set_whose_class_is_paused_says_what_to_resume(paused: str, option: str) -> None:
    async with a_set_world() as world:
        await pause(world.ports(), world.settings, paused, "a new image", operator="ana")
        serve(world)
        run = push(world, lasts=600.0)
        await asyncio.sleep(30)
        (one,) = (await explained(world, url_of(world, run))).waits
        assert one.cause is WaitCause.PAUSED
        assert "a new image" in one.because
        assert one.next == f"Run `bullpen resume{option}`."


async def test_a_set_that_the_settings_have_no_more_says_what_to_do() -> None:
    async with a_set_world() as world:
        serve(world)
        await asyncio.sleep(5)
        (known,) = (await world.ports().records.scale_sets()).values()
        world.memory.tables.scale_sets[known.name] = replace(known, state=RETIRING)
        (one,) = (await explained(world, SET)).waits
        assert one.cause is WaitCause.NO_MATCH
        assert one.next


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (Throttled("the rate limit of GitHub is used up", retry_after=60.0), WaitCause.GITHUB_LIMIT),
        (Unavailable("GitHub does not answer"), WaitCause.GITHUB_OUTAGE),
    ],
    ids=["limit", "outage"],
)
async def test_while_github_does_not_answer_that_is_the_cause(failure: BullpenError, cause: WaitCause) -> None:
    async with a_set_world() as world:
        run = push(world)
        ports = world.ports()

        async def away(*args: Any) -> Any:
            raise failure

        ports.workflows.run = away  # type: ignore[method-assign, assignment]
        (one,) = (await why(ports, world.settings, url_of(world, run))).waits
        assert (one.cause, one.because) == (cause, str(failure))


async def test_a_set_that_cannot_be_heard_waits_for_github() -> None:
    async with a_set_world(capacity=0) as world:
        outage = Outage(world)
        serve(world, between=outage.between)
        push(world, lasts=600.0)
        await asyncio.sleep(60)
        assert {one.cause for one in (await explained(world, SET)).waits} == {WaitCause.NO_CAPACITY}
        outage.begin()
        await asyncio.sleep(90)
        assert {one.cause for one in (await explained(world, SET)).waits} == {WaitCause.GITHUB_OUTAGE}
        outage.end()
        await asyncio.sleep(60)
        assert {one.cause for one in (await explained(world, SET)).waits} == {WaitCause.NO_CAPACITY}


async def test_a_set_that_is_limited_by_github_says_so() -> None:
    async with a_set_world(capacity=0) as world:
        ports: list[Ports] = []

        def noted(own: Ports) -> Ports:
            ports.append(own)
            return own

        serve(world, between=noted)
        push(world, lasts=600.0)
        await asyncio.sleep(60)

        async def limited(*args: Any, **kwargs: Any) -> Any:
            raise Throttled("the rate limit is used up", retry_after=900.0)

        for one in ports:
            one.scale_sets.poll = limited  # type: ignore[method-assign]
        await asyncio.sleep(120)
        assert {one.cause for one in (await explained(world, SET)).waits} == {WaitCause.GITHUB_LIMIT}


async def test_a_runner_group_that_is_closed_to_the_repository_is_the_cause() -> None:
    async with a_set_world(capacity=0) as world:
        hub_of(world).sets.troubles = SetTroubles(unannounced=1.0)
        run = push(world)
        serve(world)
        await asyncio.sleep(5)
        assert world.memory.tables.set_sessions[f"session:{SET}"].waiting == ()
        hub_of(world).open_groups = {REPOSITORY: ["Other"]}
        assert await cause_of(world, url_of(world, run)) is WaitCause.RUNNER_GROUP_CLOSED
        hub_of(world).open_groups = {REPOSITORY: ["Default"]}
        assert await cause_of(world, url_of(world, run)) is WaitCause.BOOTING


async def test_a_url_that_names_nothing_is_a_clear_error() -> None:
    async with a_set_world() as world:
        run = push(world)
        with pytest.raises(NotFound, match="has no such job"):
            await explained(world, f"{HOST}/{REPOSITORY}/actions/runs/{run}/job/999999")
        with pytest.raises(ConfigError, match=r"must be a job at https://github.com"):
            await explained(world, f"https://elsewhere.example/{REPOSITORY}/actions/runs/{run}/job/1")
        with pytest.raises(ConfigError, match=r"must be a run at https://github.com"):
            await explained(world, f"https://elsewhere.example/{REPOSITORY}/actions/runs/{run}")
    async with a_world() as world:
        with pytest.raises(ConfigError, match="this pool runs its own jobs"):
            await explained(world, f"{HOST}/{REPOSITORY}/actions/runs/1/job/1")


@pytest.mark.parametrize("job", ["", "/job/1"])
async def test_github_is_not_asked_about_a_repository_that_the_pool_does_not_serve(job: str) -> None:
    async with a_world(settings=on_github()) as world:
        ports = world.ports()

        async def asked(*args: Any) -> Any:
            raise AssertionError("GitHub was asked")

        ports.workflows.run = asked  # type: ignore[method-assign, assignment]
        with pytest.raises(ConfigError, match=r"must be a (run|job) in acme/widgets \(github.scope\)"):
            await why(ports, world.settings, f"{HOST}/acme/secret/actions/runs/4711{job}")


async def test_a_candidate_of_a_run_on_github_is_judged_as_pickup_does() -> None:
    async with a_world(settings=on_github()) as world:
        await provisioned(world, "4700", 1, repository=REPOSITORY)
        run = start(world, "4711")
        found = await explained(world, url_of(world, run))
        assert found.waits[0].cause is WaitCause.NO_MATCH
        assert all(rule is not RefusalRule.FITS for rule, _ in found.waits[0].refusals)
