"""A set of the pool's name at GitHub is the pool's own only if its id is recorded or it has the mark of the record."""

import asyncio
from dataclasses import replace

import pytest

from bullpen.errors import PermissionDenied, Unavailable
from bullpen.model.scale_set import READY, RETIRED, WANTED
from bullpen.ports import Ports, RegisteredSet, ScaleSetSpec
from bullpen.scale_sets.ownership import MARK
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from fixtures import Failure, faults, requests
from scale_sets.desired_sets import NAME, a_strangers, at_github, desired, failure, github, pass_over, record, settings

DAY = 86400.0


def another_pools(world: World, group: str = "") -> int:
    """A set that another pool of Bullpen created: it differs by its mark alone."""
    assert world.memory.hub is not None
    labels = (NAME, f"{MARK}feedfeedfeedfeed")
    return world.memory.hub.sets.create(ScaleSetSpec(NAME, group, labels)).id


async def denied(world: World) -> None:
    """The set is wanted, and GitHub refuses to create it."""
    ports = world.ports()

    async def create(spec: ScaleSetSpec) -> RegisteredSet:
        raise PermissionDenied("the call needs Administration: write")

    ports.scale_sets.create = create  # type: ignore[method-assign]
    await failure(world, ports=ports)
    assert record(world).state is WANTED


def unanswered(ports: Ports) -> None:
    faults(ports).fail_next("scale_sets.create", Failure.LOST_ANSWER)


async def drops_labels(ports: Ports) -> Ports:
    """As an Enterprise Server that keeps no label beside the name."""
    inner = ports.scale_sets.find_named

    async def find_named(name: str, group: str = "") -> RegisteredSet | None:
        found = await inner(name, group)
        return replace(found, labels=(found.name,)) if found is not None else None

    ports.scale_sets.find_named = find_named  # type: ignore[method-assign]
    return ports


# ---- who created it


async def test_a_set_that_took_the_name_after_a_refused_creation_is_left_alone() -> None:
    async with github() as world:
        await denied(world)
        await asyncio.sleep(DAY)
        other = another_pools(world)
        before = at_github(world)
        said = await failure(world)
        assert f"github.scale-sets.small.name ('{NAME}')" in said
        assert f"{other}, that this pool did not create" in said
        assert (record(world).state, record(world).ci_id, at_github(world)) == (WANTED, 0, before)


async def test_a_set_that_took_the_name_is_not_deleted_when_the_wanted_one_leaves_the_settings() -> None:
    async with github() as world:
        await denied(world)
        other = another_pools(world)
        assert await pass_over(world, settings()) == ["retire set", "delete set"]
        assert record(world).state is RETIRED
        assert [one.id for one in at_github(world).values()] == [other]


@pytest.mark.parametrize("answered", [True, False])
async def test_of_two_pools_that_start_together_the_second_leaves_the_set_of_the_first_alone(answered: bool) -> None:
    """Both have looked before either creates: GitHub answers 409 to the second, or the answer is lost."""
    async with github() as world:
        ports = world.ports()
        create = ports.scale_sets.create
        made: list[int] = []

        async def second(spec: ScaleSetSpec) -> RegisteredSet:
            if not made:
                made.append(another_pools(world))
            if not answered:
                raise Unavailable("no answer")
            return await create(spec)

        ports.scale_sets.create = second  # type: ignore[method-assign]
        said = await failure(world, ports=ports)
        if not answered:
            said = await failure(world)
        assert f"{made[0]}, that this pool did not create" in said
        assert record(world).ci_id == 0


def test_killed_at_any_callback_no_set_is_taken_that_another_owner_creates_meanwhile() -> None:
    async def history(step: int) -> bool:
        async with github() as world:
            victim, task = world.start("victim", lambda ports: desired(world, ports=ports).run_once())
            victim.die_at = step
            await victim.ended()
            has_own = NAME in at_github(world)
            other = 0 if has_own else another_pools(world)
            report = await desired(world).run_once()
            if has_own:
                assert (record(world).state, record(world).ci_id) == (READY, at_github(world)[NAME].id), step
            else:
                assert "did not create" in str(report.failures[NAME]), step
                assert [one.id for one in at_github(world).values()] == [other], step
                assert all(one.ci_id != other for one in world.memory.tables.scale_sets.values()), step
            return victim.dead or not task.done()

    died = 0
    while virtual_run(history(died + 1), allow_left_behind=True):
        died += 1
    assert died > 10


async def test_an_operator_may_adopt_a_set_that_took_the_name_of_a_wanted_one() -> None:
    async with github() as world:
        await denied(world)
        other = a_strangers(world)
        assert await pass_over(world, adopt=[NAME]) == ["find set", "correct set"]
        assert (record(world).state, record(world).ci_id) == (READY, other)
        assert at_github(world)[NAME].labels == (NAME, record(world).mark)


async def test_a_set_that_was_created_while_it_retired_is_known_when_the_settings_have_it_again() -> None:
    async with github() as world:
        ports = world.ports()
        unanswered(ports)
        await failure(world, ports=ports)
        late = at_github(world)[NAME]
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(late.id)
        await pass_over(world, settings())  # nothing was to be deleted
        made = world.memory.hub.sets.create(ScaleSetSpec(NAME, "", late.labels))
        assert await pass_over(world) == ["create set", "find set"]
        assert record(world).ci_id == made.id


async def test_a_lost_set_that_another_process_has_created_again_is_known() -> None:
    async with github() as world:
        await pass_over(world)
        one = at_github(world)[NAME]
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(one.id)
        made = world.memory.hub.sets.create(ScaleSetSpec(NAME, "", one.labels))
        assert await pass_over(world) == ["recreate set", "find set"]
        assert record(world).ci_id == made.id


async def test_where_the_mark_is_dropped_a_creation_without_an_answer_needs_an_operator() -> None:
    async with github() as world:
        ports = await drops_labels(world.ports())
        unanswered(ports)
        await failure(world, ports=ports)
        assert f"--adopt-set {NAME}" in await failure(world, ports=ports)
        assert await pass_over(world, ports=ports, adopt=[NAME]) == ["find set"]
        assert record(world).ci_id == at_github(world)[NAME].id


async def test_where_the_mark_is_dropped_the_set_is_not_corrected_for_it() -> None:
    async with github() as world:
        await pass_over(world)
        assert world.memory.hub is not None
        world.memory.hub.sets.correct(record(world).ci_id, ScaleSetSpec(NAME))
        assert await pass_over(world) == []


# ---- equal names in several groups


async def test_a_set_is_not_created_beside_one_of_its_name_in_another_group() -> None:
    async with github() as world:
        other = a_strangers(world, NAME, "special")
        said = await failure(world)
        assert (
            f"github.scale-sets.small.name ('{NAME}'): the runner group 'special' has a scale set of this name" in said
        )
        assert f"{other}: GitHub gives a job to either of them" in said
        assert "github.scale-sets.small.runner-group" in said
        assert world.memory.tables.scale_sets == {}


async def test_an_operator_may_create_a_set_beside_one_of_its_name_in_another_group() -> None:
    async with github() as world:
        other = a_strangers(world, NAME, "special")
        assert await pass_over(world, adopt=[NAME]) == ["create set", "create set"]
        assert record(world).ci_id != other
        assert await pass_over(world) == []
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(record(world).ci_id)
        assert await pass_over(world) == ["recreate set", "create set"]  # what was allowed once is not asked again


async def test_all_groups_are_asked_once_and_not_at_every_pass_of_a_wanted_set() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_REQUEST)
        await failure(world, ports=ports)
        await pass_over(world, ports=ports)
        await pass_over(world, ports=ports)
        assert requests(ports)["scale_sets.find_everywhere"] == 1
