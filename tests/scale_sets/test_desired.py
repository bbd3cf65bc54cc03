"""Scale sets are what the settings say, at the CI and in the records; other owners' sets are left alone."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from builders import see_repository
from bullpen.errors import PermissionDenied, Refused, Unavailable
from bullpen.model.scale_set import READY, WANTED, SetRepository
from bullpen.ports import RegisteredSet, ScaleSetSpec
from bullpen.scale_sets.actions import SetAction
from bullpen.sim.loop import virtual_run
from fixtures import Failure, a_world, faults, requests
from scale_sets.desired_sets import (
    NAME,
    a_strangers,
    at_github,
    desired,
    failure,
    github,
    hide,
    pass_over,
    record,
    settings,
)

# ---- created and found


async def test_a_set_of_the_settings_is_created_and_ready() -> None:
    async with github() as world:
        assert await pass_over(world) == ["create set", "create set"]
        one, seen = record(world), at_github(world)[NAME]
        assert (one.state, one.ci_id, one.group_id) == (READY, seen.id, 1)
        assert (seen.labels, seen.disable_update) == ((NAME, one.mark), True)
        assert one.rules.repositories == (SetRepository("acme/widgets", 1001),)
        assert one.rules.trust_domain == "acme/widgets/1001"


async def test_a_second_pass_does_nothing_and_asks_github_once() -> None:
    async with github() as world:
        await pass_over(world)
        ports = world.ports()
        assert await pass_over(world, ports=ports) == []
        assert requests(ports)["scale_sets.find"] == 1
        assert sum(count for kind, count in requests(ports).items() if kind.startswith("scale_sets.")) == 1


async def test_it_is_wanted_before_it_is_created() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_REQUEST)
        await failure(world, ports=ports)
        assert record(world).state is WANTED
        assert at_github(world) == {}


async def test_a_set_whose_creation_was_not_answered_is_found_and_not_created_twice() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_ANSWER)
        await failure(world, ports=ports)
        assert await pass_over(world) == ["find set"]
        assert record(world).ci_id == at_github(world)[NAME].id


def test_killed_at_any_callback_the_next_pass_finishes() -> None:
    async def history(step: int) -> bool:
        async with github() as world:
            victim, task = world.start("victim", lambda ports: desired(world, ports=ports).run_once())
            victim.die_at = step
            await victim.ended()
            await pass_over(world)
            assert (record(world).state, record(world).ci_id) == (READY, at_github(world)[NAME].id), step
            assert len(at_github(world)) == 1, step
            return victim.dead or not task.done()

    died = 0
    while virtual_run(history(died + 1), allow_left_behind=True):
        died += 1
    assert died > 10


def test_several_at_once_create_one_set() -> None:
    async def history() -> None:
        async with github() as world:
            tasks = [world.start(f"p{n}", lambda ports: desired(world, ports=ports).run_once())[1] for n in range(4)]
            for report in await asyncio.gather(*tasks):
                assert report.failures == {}
            assert len(at_github(world)) == 1
            assert record(world).state is READY

    virtual_run(history())


# ---- another owner's


@pytest.mark.parametrize("label", ["same case", "other case"])
async def test_a_set_of_this_name_that_the_pool_did_not_create_is_left_alone(label: str) -> None:
    async with github() as world:
        other = a_strangers(world, NAME if label == "same case" else NAME.upper())
        said = await failure(world)
        assert f"github.scale-sets.small.name ('{NAME}')" in said
        assert f"{other}, that this pool did not create" in said
        assert f"--adopt-set {NAME}" in said
        assert world.memory.tables.scale_sets == {}
        assert [one.labels for one in at_github(world).values()] == [("theirs",)]


async def test_an_operator_may_adopt_it() -> None:
    async with github() as world:
        other = a_strangers(world)
        assert await pass_over(world, adopt=[NAME]) == ["create set", "find set", "correct set"]
        assert (record(world).ci_id, at_github(world)[NAME].labels) == (other, (NAME, record(world).mark))


async def test_a_set_that_took_the_name_of_a_lost_one_is_left_alone() -> None:
    async with github() as world:
        await pass_over(world)
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(record(world).ci_id)
        other = a_strangers(world)
        assert "did not create" in await failure(world)
        assert record(world).ci_id != other
        assert await pass_over(world, adopt=[NAME]) == ["recreate set", "find set", "correct set"]
        assert record(world).ci_id == other


async def test_a_set_of_this_name_in_the_new_group_is_left_alone() -> None:
    async with github() as world:
        await pass_over(world)
        a_strangers(world, NAME, "special")
        assert "did not create" in await failure(world, settings("small", runner_group="special"))
        assert record(world).rules.group == ""


# ---- corrected


async def test_a_set_that_was_deleted_by_hand_is_created_again() -> None:
    async with github() as world:
        await pass_over(world)
        first = record(world).ci_id
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(first)
        assert await pass_over(world) == ["recreate set", "create set"]
        assert record(world).ci_id == at_github(world)[NAME].id != first


@pytest.mark.parametrize(
    "changed",
    [{"name": "renamed"}, {"labels": (NAME, "more")}, {"disable_update": False}, {"group": "special"}],
    ids=lambda changed: next(iter(changed)),
)
async def test_what_was_changed_at_github_is_changed_back(changed: dict[str, Any]) -> None:
    async with github() as world:
        await pass_over(world)
        before = at_github(world)
        assert world.memory.hub is not None
        world.memory.hub.sets.correct(record(world).ci_id, ScaleSetSpec(**{"name": NAME, **changed}))
        assert await pass_over(world) == ["correct set"]
        assert at_github(world) == before


async def test_what_github_does_not_change_is_tried_once_and_not_at_every_pass() -> None:
    async with github() as world:
        await pass_over(world)
        ports = world.ports()
        brought = desired(world, ports=ports)
        found = replace(at_github(world)[NAME], disable_update=False)

        async def shown(*_: object) -> RegisteredSet:
            return found

        ports.scale_sets.find = ports.scale_sets.correct = shown  # type: ignore[assignment, method-assign]
        assert [[one.what for one in (await brought.run_once()).actions] for _ in range(3)] == [["correct set"], [], []]


async def test_what_is_changed_at_github_twice_is_changed_back_twice() -> None:
    async with github() as world:
        keeper = desired(world)
        await keeper.run_once()
        assert world.memory.hub is not None
        for _ in range(2):
            world.memory.hub.sets.correct(record(world).ci_id, ScaleSetSpec("renamed"))
            assert [one.what for one in (await keeper.run_once()).actions] == ["correct set"]
            assert list(at_github(world)) == [NAME]


async def test_changed_settings_change_the_rules_of_the_record() -> None:
    async with github() as world:
        await pass_over(world)
        assert await pass_over(world, settings("small", max=3)) == ["correct set"]
        assert record(world).rules.max == 3


async def test_ids_of_repositories_that_the_record_knows_are_no_drift() -> None:
    async with github() as world:
        hide(world)
        await pass_over(world)
        stored = record(world)
        known = replace(stored.rules, repositories=(SetRepository("acme/widgets", 7),))
        await desired(world)._writes.correct(stored, known.knowing(()), None, 0)
        assert record(world).rules.trust_domain == "acme/widgets/7"
        assert await pass_over(world) == []


async def test_ids_of_repositories_that_are_seen_later_are_added_and_not_called_a_change_of_the_settings() -> None:
    async with github() as world:
        hide(world)
        await pass_over(world)
        await world.ports().records.apply(see_repository("acme/widgets", 7))
        (action,) = (await desired(world).run_once()).actions
        assert action.reason == "GitHub's ids of its repositories are known now"
        assert record(world).rules.repositories == (SetRepository("acme/widgets", 7),)
        assert list(world.memory.tables.stories[f"set:{NAME}"])[-1].why == action.reason
        (action,) = (await desired(world, settings("small", max=3)).run_once()).actions
        assert action.reason == "the settings have changed"


async def test_a_set_moves_to_another_group_with_its_id() -> None:
    async with github() as world:
        await pass_over(world)
        first = record(world).ci_id
        assert await pass_over(world, settings("small", runner_group="special")) == ["correct set", "correct set"]
        assert (record(world).ci_id, record(world).group_id, at_github(world)[NAME].group) == (first, 2, 2)


async def test_a_set_that_was_created_in_the_old_group_is_moved_and_not_left_behind() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_ANSWER)
        await failure(world, ports=ports)
        moved = ["find set", "correct set", "correct set"]
        assert await pass_over(world, settings("small", runner_group="special")) == moved
        assert [one.group for one in at_github(world).values()] == [2]


async def test_a_group_that_does_not_exist_is_named() -> None:
    async with github() as world:
        said = await failure(world, settings("small", runner_group="closed"))
        assert said.startswith("github.scale-sets.small: ")
        assert "'closed'" in said


# ---- failures


async def test_one_failing_set_does_not_stop_the_others() -> None:
    async with a_world(settings=settings("small", "other")) as world:
        a_strangers(world)
        report = await desired(world).run_once()
        assert list(report.failures) == [NAME]
        assert record(world, "bullpen-other").state is READY


@pytest.mark.parametrize("kind", [PermissionDenied, Unavailable])
async def test_an_error_of_github_keeps_its_kind_and_begins_with_the_setting(kind: type[Refused]) -> None:
    async with github() as world:
        ports = world.ports()

        async def fails(*_: object) -> None:
            raise kind("the call needs Administration: write", remedy="Grant it.")

        ports.scale_sets.find_named = fails  # type: ignore[method-assign, assignment]
        with pytest.raises(kind, match=r"^github\.scale-sets\.small: the call needs") as caught:
            await desired(world, ports=ports).bring(NAME)
        assert caught.value.remedy == "Grant it."


async def test_a_dry_run_changes_nothing() -> None:
    async with github() as world:
        (action,) = await desired(world).foresee(NAME)
        assert action == SetAction("create set", NAME, "the settings ask for it")
        assert (world.memory.tables.scale_sets, at_github(world)) == ({}, {})
