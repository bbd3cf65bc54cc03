"""Refresh makes, corrects and retires scale sets, with a reason for each; a set that fails does not stop the rest."""

import pytest

from bullpen.config import Settings
from bullpen.model.scale_set import READY, RETIRED
from bullpen.ports import ScaleSetSpec
from bullpen.refresh import Action, Hindered, refresh
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, refreshed
from scale_sets.desired_sets import NAME, at_github, record, settings


def of_sets(actions: list[Action]) -> list[tuple[str, str]]:
    return [(one.what, one.reason) for one in actions if one.subject == NAME]


async def with_settings(world: World, of: Settings) -> list[Action]:
    return await refresh(world.ports(), of)


async def test_refresh_creates_a_set_and_gives_its_reasons() -> None:
    async with a_world(settings=settings("small")) as world:
        assert of_sets(await refreshed(world)) == [
            ("create set", "the settings ask for it"),
            ("create set", "GitHub does not have it"),
        ]
        assert record(world).state is READY
        assert of_sets(await refreshed(world)) == []


async def test_a_dry_run_shows_the_first_step_and_takes_none() -> None:
    async with a_world(settings=settings("small")) as world:
        assert of_sets(await refreshed(world, dry_run=True)) == [("create set", "the settings ask for it")]
        assert (world.memory.tables.scale_sets, at_github(world)) == ({}, {})


async def test_refresh_retires_what_left_the_settings() -> None:
    async with a_world(settings=settings("small")) as world:
        await refreshed(world)
        done = of_sets(await with_settings(world, settings()))
        assert done == [("retire set", "the settings do not have it"), ("delete set", "it retires, and has no runner")]
        assert record(world).state is RETIRED


async def test_a_foreign_set_is_an_error_that_names_the_setting_and_the_rest_is_done() -> None:
    async with a_world(settings=settings("small", "other")) as world:
        assert world.memory.hub is not None
        world.memory.hub.sets.create(ScaleSetSpec(NAME))
        with pytest.raises(Hindered, match=rf"github\.scale-sets\.small\.name \('{NAME}'\)") as caught:
            await refreshed(world)
        assert f"--adopt-set {NAME}" in caught.value.remedy
        assert record(world, "bullpen-other").state is READY


async def test_adopt_takes_it() -> None:
    async with a_world(settings=settings("small")) as world:
        assert world.memory.hub is not None
        other = world.memory.hub.sets.create(ScaleSetSpec(NAME)).id
        await refresh(world.ports(), world.settings, adopt=[NAME])
        assert record(world).ci_id == other


async def test_an_outage_of_github_is_reported_and_no_error() -> None:
    async with a_world(settings=settings("small", "a", "b", "c")) as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.find_named", *[Failure.LOST_REQUEST] * 4)
        actions = await refreshed(world, ports)
        assert [one.what for one in actions if one.subject.startswith("bullpen-")] == ["cannot check set"] * 4
