"""Re-runs that the CI announces neither by a message nor by a webhook: its list of queued jobs shows them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from msgspec.structs import replace as replaced

from bullpen.config import Github, ScaleSetSettings
from bullpen.controllers import Service
from bullpen.engines.memory.github import JobSpec
from bullpen.errors import Throttled
from bullpen.model.scale_set import SetRepository
from bullpen.ports import Ports, ScaleSetSpec
from bullpen.scale_sets.queued_runs import REFUSED, REPOSITORIES, TRIED, QueuedRuns
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, requests
from scale_sets.fixtures import (
    REPOSITORY,
    SET,
    a_set_world,
    hub_of,
    make_set,
    members,
    push,
    set_of,
    settings_of,
    until_done,
)

POLL = 60.0


def looks(ports: Ports) -> int:
    return requests(ports)["workflows.waiting_jobs"]


async def serving(world: World) -> Ports:
    """The ports of a process that serves."""
    found: list[Ports] = []

    async def main(ports: Ports) -> None:
        found.append(ports)
        await Service(ports, world.settings, process="web-1").run(asyncio.Event())

    world.agents["web-1"], _ = world.start("web-1", main)
    await asyncio.sleep(1)
    return found[0]


async def a_quiet_set(world: World) -> tuple[Ports, str]:
    """A process serves, a run has completed, and no runner is registered any more."""
    ports, run = await serving(world), push(world, lasts=30.0)
    await until_done(world, run)
    await asyncio.sleep(700)
    assert set_of(world).runners == {}
    return ports, run


async def test_a_rerun_that_only_the_list_shows_gets_a_runner_of_a_set_that_keeps_none() -> None:
    async with a_set_world() as world:
        _, run = await a_quiet_set(world)
        hub_of(world).rerun(hub_of(world).runs[run], ("job-0",))
        assert await until_done(world, run) < POLL + 20.0 + 90.0
        await asyncio.sleep(700)
        assert members(world) == []


@pytest.mark.parametrize("webhook_secret", ["", "s"])
async def test_the_list_is_asked_for_once_a_minute_while_no_runner_is_registered(webhook_secret: str) -> None:
    async with a_set_world(settings_of(webhook_secret=webhook_secret)) as world:
        ports, _ = await a_quiet_set(world)
        before = looks(ports)
        await asyncio.sleep(10 * POLL)
        assert 9 <= looks(ports) - before <= 10


async def test_with_a_webhook_the_list_is_not_asked_for_while_a_runner_is_registered() -> None:
    async with a_set_world(settings_of(min=1, webhook_secret="s")) as world:
        ports = await serving(world)
        await asyncio.sleep(20 * POLL)
        assert looks(ports) == 0


async def test_without_a_webhook_the_list_is_asked_for_once_a_minute_for_all_sets_of_a_repository() -> None:
    one = ScaleSetSettings(events="trusted", resource_class="small", min=1)
    github = Github(scope=REPOSITORY, token="t", scale_sets={key: replaced(one, name=f"s-{key}") for key in "abc"})
    async with a_world(settings=replaced(settings_of(), github=github)) as world:
        ports = await serving(world)
        await asyncio.sleep(20 * POLL)
        assert 17 <= looks(ports) <= 20


async def test_the_list_is_asked_for_although_one_of_the_sets_cannot_be_held() -> None:
    one = ScaleSetSettings(events="trusted", resource_class="small", min=1)
    github = Github(scope=REPOSITORY, token="t", scale_sets={key: replaced(one, name=f"s-{key}") for key in "ab"})
    async with a_world(settings=replaced(settings_of(), github=github)) as world:
        ports, sets = await serving(world), hub_of(world).sets
        await asyncio.sleep(5 * POLL)
        (first,) = [set.id for set in sets.sets.values() if set.spec.name == "s-a"]
        sets.delete(first)
        sets.create(ScaleSetSpec("s-a"))  # by another owner
        await asyncio.sleep(5 * POLL)
        before = looks(ports)
        await asyncio.sleep(10 * POLL)
        assert 9 <= looks(ports) - before <= 10


async def test_without_a_webhook_a_label_that_no_set_has_is_reported_while_runners_are_registered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        await serving(world)
        await asyncio.sleep(300)
        assert len(members(world)) == 1
        hub_of(world).start(REPOSITORY, JobSpec("job", label="bullpen-smal"))
        await asyncio.sleep(2 * POLL)
        (line,) = [one.getMessage() for one in caplog.records if "no scale set has" in one.getMessage()]
        assert f"labels=bullpen-smal repository={REPOSITORY}" in line


async def test_a_label_of_the_list_that_no_set_has_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with a_set_world() as world:
        await a_quiet_set(world)
        hub_of(world).start(REPOSITORY, JobSpec("job", label="bullpen-smal"))
        await asyncio.sleep(3 * POLL)
        (line,) = [one.getMessage() for one in caplog.records if "no scale set has" in one.getMessage()]
        assert "bullpen-smal " in line


# ---- one look


async def looking(
    world: World, noted: list[str], names: tuple[str, ...] = (REPOSITORY,), lists: Callable[[], bool] = lambda: True
) -> tuple[QueuedRuns, Ports]:
    ports, one = world.ports(), await make_set(world)
    one = replace(one, rules=replace(one.rules, repositories=tuple(map(SetRepository, names))))

    def note(labels: Sequence[str], repository: str) -> None:
        assert repository in names
        noted.append(" ".join(labels))

    return QueuedRuns(ports, lambda: one, lists, note, POLL), ports


async def test_jobs_that_wait_are_noted_with_all_their_labels() -> None:
    async with a_world(settings=settings_of()) as world:
        noted: list[str] = []
        runs, ports = await looking(world, noted)
        hub_of(world).start(REPOSITORY, JobSpec("a", label=SET), JobSpec("b", label="other"), JobSpec("hosted"))
        found = await ports.workflows.waiting_jobs(REPOSITORY, 10)
        several = replace(found[0], id=1, labels=("self-hosted", "bullpen-large"))

        async def listed(repository: str, runs: int) -> list[object]:
            return [*found, several]

        ports.workflows.waiting_jobs = listed  # type: ignore[assignment, method-assign]
        await runs.look()
        assert noted == [SET, "other", "self-hosted bullpen-large"]


async def test_a_job_that_no_runner_gets_is_not_noted_for_ever() -> None:
    async with a_world(settings=settings_of()) as world:
        noted: list[str] = []
        runs, _ = await looking(world, noted)
        hub_of(world).start(REPOSITORY, JobSpec("stuck", label=SET))
        await runs.look()
        await asyncio.sleep(TRIED - 1)
        await runs.look()
        assert noted == [SET, SET]
        await asyncio.sleep(1)
        await runs.look()
        assert noted == [SET, SET]
        hub_of(world).start(REPOSITORY, JobSpec("fresh", label=SET))
        await runs.look()
        assert noted == [SET, SET, SET]


async def test_a_look_asks_about_some_repositories_and_the_next_one_about_others() -> None:
    async with a_world(settings=settings_of()) as world:
        noted: list[str] = []
        names = tuple(f"acme/r{n}" for n in range(5))
        runs, ports = await looking(world, noted, names)
        for name in names:
            hub_of(world).start(name, JobSpec("job", label=f"of-{name}"))
        for _ in range(3):
            before = looks(ports)
            await runs.look()
            assert looks(ports) - before == REPOSITORIES
        assert set(noted) == {f"of-{name}" for name in names}


async def test_a_repository_whose_runs_may_not_be_listed_is_reported_and_left_out_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_world(settings=settings_of()) as world:
        runs, ports = await looking(world, [])
        hub_of(world).denied.add("waiting_jobs")
        for _ in range(3):
            assert await runs.look() == 0.0
        assert looks(ports) == 1
        assert [one.getMessage() for one in caplog.records if "cannot be listed" in one.getMessage()]
        await asyncio.sleep(REFUSED)
        await runs.look()
        assert looks(ports) == 2


async def test_a_limit_of_the_ci_is_waited_out_and_an_outage_is_no_error() -> None:
    async with a_world(settings=settings_of()) as world:
        runs, ports = await looking(world, [])
        faults(ports).fail_next("workflows.waiting_jobs", Failure.LOST_REQUEST)
        assert await runs.look() == 0.0

        async def limited(repository: str, runs: int) -> list[object]:
            raise Throttled("wait", retry_after=900.0)

        ports.workflows.waiting_jobs = limited  # type: ignore[assignment, method-assign]
        assert await runs.look() == 900.0


async def test_a_holder_that_need_not_list_asks_for_no_list() -> None:
    async with a_world(settings=settings_of()) as world:
        runs, ports = await looking(world, [], lists=lambda: False)
        await runs.look()
        assert looks(ports) == 0
