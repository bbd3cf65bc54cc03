"""GitHub refuses to register runners for a set, because the pool's credentials expired or lack a permission.

No machine is to blame: none is ended for it, and none is launched in vain.
"""

import asyncio

from bullpen.engines.memory.github import CONFIGURE
from bullpen.model.instance import TERMINATED, Instance
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import machines, records, with_pool
from scale_sets.fixtures import a_set_world, hub_of, push, serve, session, set_of, settings_of, until_done

HOUR = 3600.0
DENIED = f"{CONFIGURE}: the token lacks a permission"


def refuse(world: World) -> None:
    """From now on GitHub registers no runner for a set; polls go on as before."""
    hub_of(world).denied.add(CONFIGURE)


def whys(world: World, one: Instance, step: str) -> list[str]:
    return [entry.why for entry in world.memory.tables.stories[one.id] if entry.step == step]


async def test_jobs_that_wait_while_registrations_are_refused_launch_no_machines_without_end() -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        refuse(world)
        serve(world)
        push(world, jobs=5, lasts=30.0)
        await asyncio.sleep(HOUR)
        assert len(world.memory.yard.sightings) <= 6
        assert session(world).missing == 0


async def test_a_claim_whose_registration_is_refused_is_given_back_and_its_machine_is_not_ended() -> None:
    async with a_set_world() as world:
        pool = await with_pool(world, 3, trust_domain="acme/widgets")
        refuse(world)
        serve(world)
        push(world, jobs=3)
        await asyncio.sleep(120)
        assert sorted(machines(world)) == sorted(pool)
        found = [one for one in records(world) if DENIED in "".join(whys(world, one, "roll_back"))]
        assert len(found) == 3


async def test_while_registrations_are_refused_one_machine_at_a_time_tries_less_and_less_often() -> None:
    async with a_set_world(settings_of(idle_target=5)) as world:
        await with_pool(world, 5, trust_domain="acme/widgets")
        refuse(world)
        serve(world)
        push(world, jobs=5)
        await asyncio.sleep(800)
        claims = sum(len(whys(world, one, "claim")) for one in records(world))
        assert 4 <= claims <= 10  # at most 5 at first; then one after 30, 60, 120, 240 and 300 s


async def test_jobs_that_wait_for_a_refused_registration_say_so_and_run_once_it_is_allowed() -> None:
    async with a_set_world() as world:
        await with_pool(world, 3, trust_domain="acme/widgets")
        refuse(world)
        serve(world)
        run = push(world, jobs=3, lasts=30.0)
        await asyncio.sleep(200)
        assert [job.why for job in session(world).waiting] == [f"GitHub registers no runner: {DENIED}"] * 3
        hub_of(world).denied.clear()
        assert await until_done(world, run) < 300 + 60
        assert records(world, TERMINATED) == []


async def test_members_whose_next_registration_is_refused_are_not_ended_and_go_on_once_it_is_allowed() -> None:
    async with a_set_world(settings_of(min=3, idle_target=3)) as world:
        serve(world)
        await asyncio.sleep(400)
        refuse(world)
        await until_done(world, push(world, jobs=3, lasts=10.0))
        await asyncio.sleep(HOUR)
        ends = [why for one in records(world, TERMINATED) for why in whys(world, one, "expire")]
        assert set(ends) <= {"idle past its threshold"}
        hub_of(world).denied.clear()
        await asyncio.sleep(400)
        assert len(set_of(world).runners) == 3
