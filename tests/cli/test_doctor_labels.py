"""What `doctor` finds about the labels of queued jobs."""

from dataclasses import replace
from typing import Any

from bullpen.cli.doctor_sets import REPOSITORIES, check_set_labels
from bullpen.engines.memory.github import JobSpec
from bullpen.errors import PermissionDenied
from bullpen.ports.health import Finding, Health
from bullpen.sim.world import World
from fixtures import a_world, requests
from scale_sets.desired_sets import NAME, settings

REPOSITORY = "acme/widgets"


async def look(world: World, ports: Any = None) -> Finding:
    (found,) = await check_set_labels(ports or world.ports(), world.settings)
    return found


def queue(world: World, label: str) -> None:
    assert world.memory.hub is not None
    world.memory.hub.start(REPOSITORY, JobSpec("job", label=label))


async def test_jobs_that_ask_for_a_set_or_for_something_else_are_well() -> None:
    async with a_world(settings=settings("small")) as world:
        for label in (NAME, "ubuntu-latest", "4711-1-small"):
            queue(world, label)
        assert (await look(world)).health is Health.OK


async def test_a_label_that_no_set_has_is_a_warning_with_the_setting() -> None:
    async with a_world(settings=settings("small")) as world:
        queue(world, "bullpen-smal")
        found = await look(world)
        assert found.health is Health.WARNING
        assert found.found == f"job asks for a label that no scale set has: bullpen-smal, in {REPOSITORY}"
        assert "github.scale-sets.NAME.name" in found.remedy


async def test_more_labels_than_the_set_has_are_a_warning_with_what_to_write() -> None:
    async with a_world(settings=settings("small")) as world:
        queue(world, NAME)
        ports = world.ports()
        listed = ports.workflows.waiting_jobs

        async def waiting_jobs(repository: str, runs: int) -> list[Any]:
            return [replace(one, labels=("self-hosted", *one.labels)) for one in await listed(repository, runs)]

        ports.workflows.waiting_jobs = waiting_jobs  # type: ignore[method-assign]
        found = await look(world, ports)
        assert found.health is Health.WARNING
        assert f"job asks for more labels than its scale set has: self-hosted, {NAME}" in found.found
        assert f"Write `runs-on: {NAME}`" in found.remedy
        assert "github.scale-sets.small.name" in found.remedy


async def test_a_list_that_is_refused_is_a_warning_that_names_the_permission() -> None:
    async with a_world(settings=settings("small")) as world:
        ports = world.ports()

        async def refused(*_: object) -> list[Any]:
            raise PermissionDenied("the call needs Actions: read", remedy="Grant it.")

        ports.workflows.waiting_jobs = refused  # type: ignore[method-assign, assignment]
        found = await look(world, ports)
        assert (found.health, found.remedy) == (Health.WARNING, "Grant it.")
        assert "Actions: read" in found.found


async def test_of_many_repositories_some_are_looked_at() -> None:
    many = tuple(f"acme/r{n}" for n in range(9))
    hub = {"scope": "acme"}
    async with a_world(settings=settings("small", repositories=many, trust_domain="acme", github=hub)) as world:
        ports = world.ports()
        await look(world, ports)
        assert requests(ports)["workflows.waiting_jobs"] == REPOSITORIES
