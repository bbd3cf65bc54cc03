"""What `doctor` finds about the repositories of scale sets."""

from typing import Any

import pytest

from bullpen.cli.doctor_repositories import check_set_repositories
from bullpen.config import Settings
from bullpen.ports import Ports
from bullpen.ports.health import Finding, Health
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, requests
from scale_sets.desired_sets import has_id, hide, pass_over, settings

WIDGETS, GADGETS = "acme/widgets", "acme/gadgets"


def of_acme(*named: str, **changed: Any) -> Settings:
    fields = {"trust_domain": "products", "repositories": named, **changed}
    return settings("small", github={"scope": "acme"}, **fields)


async def look(world: World, ports: Ports | None = None) -> Finding:
    (found,) = await check_set_repositories(ports or world.ports(), world.settings)
    assert found.name == "set repositories"
    return found


async def test_repositories_that_github_shows_are_well_and_nothing_is_recorded() -> None:
    async with a_world(settings=of_acme(WIDGETS, GADGETS)) as world:
        found = await look(world)
        assert (found.health, found.found) == (Health.OK, "known by their ids: acme/widgets, acme/gadgets")
        assert world.memory.tables.repositories == {}


async def test_of_many_only_some_are_listed() -> None:
    async with a_world(settings=of_acme(*(f"acme/r{n}" for n in range(8)))) as world:
        assert (await look(world)).found == "known by their ids: acme/r0, acme/r1, acme/r2, acme/r3, acme/r4 and 3 more"


async def test_a_repository_that_does_not_exist_or_is_not_visible() -> None:
    async with a_world(settings=of_acme(WIDGETS, GADGETS)) as world:
        hide(world, GADGETS)
        found = await look(world)
        assert found.health is Health.FAILED
        assert "github.scale-sets.small.repositories: acme/gadgets does not exist, or the token" in found.found
        assert "OWNER/NAME/ID" in found.remedy


async def test_a_repository_that_is_named_with_its_id_need_not_be_visible() -> None:
    async with a_world(settings=of_acme("acme/gadgets/77")) as world:
        hide(world, GADGETS)
        assert (await look(world)).health is Health.OK


async def test_a_repository_that_was_created_again() -> None:
    async with a_world(settings=of_acme(WIDGETS)) as world:
        await pass_over(world)
        has_id(world, 2002)
        found = await look(world)
        assert found.health is Health.FAILED
        assert "acme/widgets has the id 2002 now, and this pool knows it by 1001: its jobs are refused" in found.found
        assert 'write "acme/widgets/2002"' in found.remedy


@pytest.mark.parametrize("named", [("acme/widgets/2002",), (WIDGETS, "acme/widgets/2002")], ids=["alone", "both"])
async def test_a_repository_that_was_created_again_and_admitted_is_well(named: tuple[str, ...]) -> None:
    async with a_world(settings=of_acme(*named)) as world:
        await pass_over(world, of_acme(WIDGETS))
        has_id(world, 2002)
        assert (await look(world)).health is Health.OK


async def test_an_id_in_the_settings_that_the_repository_does_not_have() -> None:
    async with a_world(settings=of_acme("acme/widgets/5")) as world:
        found = await look(world)
        assert "acme/widgets has the id 1001 now, and this pool knows it by 5" in found.found


async def test_a_github_that_does_not_answer_is_a_finding() -> None:
    async with a_world(settings=of_acme(WIDGETS)) as world:
        ports = world.ports()
        faults(ports).fail_next("workflows.repository_id", Failure.LOST_REQUEST)
        found = await look(world, ports)
        assert (found.health, found.remedy) == (Health.FAILED, "Try again.")


async def test_a_set_for_all_repositories_is_no_finding() -> None:
    async with a_world(settings=of_acme("*")) as world:
        ports = world.ports()
        assert await check_set_repositories(ports, world.settings) == []
        assert requests(ports)["workflows.repository_id"] == 0
