"""A member ends between the commit and its own write, and the provision is killed at every callback: what is answered
runs, a repetition gets exactly as many, and a commit that was revoked gives everything back."""

import pytest

from bullpen.model.instance import RUNNING
from bullpen.provision import Outcome
from bullpen.sim.world import World
from histories import SETTINGS, Actor, history, killed_everywhere, loses_members, provisioning

pytestmark = pytest.mark.slow


def running(world: World) -> list[str]:
    return sorted(one.id for one in world.memory.tables.instances.values() if one.state is RUNNING)


@pytest.mark.parametrize(("pool", "ended"), [(0, 1), (2, 1), (3, 3)])
def test_killed_while_it_replaces_what_was_lost_a_repetition_gets_exactly_as_many(pool: int, ended: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        world = World(settings=SETTINGS)

        async def before(world: World) -> None:
            loses_members(world, "run", ended=ended)

        victim = Actor("victim", provisioning("run", 3), die_at=step)
        repeated = Actor("repeated", provisioning("run", 3), begins_at=8.0)
        broken = history([victim, repeated], {"run": 3}, pool=pool, world=lambda: world, before=before)
        for actor in (victim, repeated):
            if isinstance(actor.result, Outcome) and sorted(m.instance.id for m in actor.result.members) != running(
                world
            ):
                broken.append(f"{actor.name} was told {actor.result}, and {running(world)} run")
        if not isinstance(repeated.result, Outcome):
            broken.append(f"the repetition has no answer: {repeated.failure}")
        return victim, broken

    assert killed_everywhere(play, stride=2) > 60


@pytest.mark.parametrize("pool", [0, 4])
def test_killed_while_it_gives_back_what_it_could_not_complete_all_goes_back_or_none(pool: int) -> None:
    def play(step: int) -> tuple[Actor, list[str]]:
        world = World(settings=SETTINGS)

        async def before(world: World) -> None:
            loses_members(world, "run", capacity=0)

        victim = Actor("victim", provisioning("run", 4), die_at=step)
        broken = history([victim], {"run": 3}, pool=pool, world=lambda: world, before=before)
        if isinstance(victim.result, Outcome) and (victim.result.succeeded or running(world)):
            broken.append(f"told {victim.result}, and {running(world)} run")
        revoked = [one.id for one in world.memory.tables.provisions.values() if one.is_revoked]
        held = [one for one in world.memory.tables.instances.values() if one.provision_id in revoked]
        broken += [
            f"{one.id} is {one.state}, though {one.provision_id} is revoked" for one in held if one.state is RUNNING
        ]
        return victim, broken

    assert killed_everywhere(play, stride=1) > 60
