"""Jobs that ask for a scale set get a runner of the pool, warm if there is one, and everything is given back."""

import asyncio

import msgspec
import pytest

from bullpen.config import Github, Liveness
from bullpen.controllers import Service
from bullpen.model.instance import IDLE, TERMINATED
from bullpen.model.set_session import FREE
from bullpen.ports import Ports, ScaleSetSpec
from bullpen.sim.agent import Temper
from fixtures import machines, records, with_pool
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


async def test_a_job_gets_a_warm_runner_at_once_and_the_runner_goes_back() -> None:
    async with a_set_world() as world:
        pool = await with_pool(world, 1, trust_domain="acme/widgets")
        serve(world)
        await asyncio.sleep(400)  # the probe of the new session is given back
        assert set_of(world).runners == {}
        await with_pool(world, 1, trust_domain="acme/widgets")
        run = push(world, lasts=30.0)
        took = await until_done(world, run)
        assert took < 33.0, took
        (job,) = hub_of(world).runs[run].jobs
        assert hub_of(world).instance_of(job.runner) in machines(world)
        await asyncio.sleep(300)
        assert members(world) == []
        assert set_of(world).runners == {}
        assert all(one.attested for one in records(world, IDLE))
        assert pool


async def test_jobs_without_a_warm_runner_get_machines_that_are_launched_for_them() -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        serve(world)
        run = push(world, jobs=5, lasts=30.0)
        took = await until_done(world, run)
        assert took < 100.0, took
        assert len(world.memory.yard.sightings) <= 6


async def test_a_set_with_a_minimum_keeps_runners_registered() -> None:
    async with a_set_world(settings_of(min=2)) as world:
        serve(world)
        await asyncio.sleep(60)
        assert len(set_of(world).runners) == 2
        run = push(world, lasts=30.0)
        assert await until_done(world, run) < 31.0
        await asyncio.sleep(120)
        assert len(set_of(world).runners) == 2
        assert session(world).holder == "web-1"


@pytest.mark.parametrize("registers_in", [0.2, 6.0])
async def test_no_machine_is_launched_for_one_that_is_still_registering(registers_in: float) -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=20.0, registers_in=registers_in)) as world:
        serve(world)
        serve(world, "web-2")
        await until_done(world, push(world, jobs=5, lasts=30.0))
        assert len(world.memory.yard.sightings) <= 6


async def test_machines_that_register_late_are_given_back_and_not_ended() -> None:
    async with a_set_world(settings_of(idle_target=4), temper=lambda n: Temper(registers_in=12.0)) as world:
        serve(world)
        await asyncio.sleep(30)
        push(world, jobs=2)
        await asyncio.sleep(60)
        assert records(world, TERMINATED) == []


async def test_a_set_of_the_same_name_that_another_owner_made_is_left_alone() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        stranger = hub_of(world).sets.create(ScaleSetSpec(SET))
        await asyncio.sleep(200)
        stored = world.memory.tables.scale_sets[f"set:{SET}"]
        assert stored.ci_id != stranger.id
        assert stranger.session is None


async def test_a_set_that_was_deleted_is_reported_with_its_setting_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        await asyncio.sleep(100)
        (line,) = [one.getMessage() for one in caplog.records if "was deleted at the CI" in one.getMessage()]
        assert "setting=github.scale-sets.small.name" in line
        assert "To remove it, remove [github.scale-sets.small] from the settings" in line


async def test_a_set_to_which_another_pool_listens_is_reported_with_its_setting() -> None:
    async with a_set_world() as world:
        hub_of(world).sets.open(set_of(world).id, "another pool")
        serve(world)
        await asyncio.sleep(10)
        assert f"change github.scale-sets.small.name ('{SET}')" in session(world).why


async def test_a_set_that_was_deleted_is_made_again_and_its_members_register_with_it() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        await asyncio.sleep(200)
        assert len(set_of(world).runners) == 1
        assert await until_done(world, push(world, lasts=30.0)) < 40.0


async def test_members_of_another_trust_domain_than_the_set_has_now_are_withdrawn() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        process = serve(world)
        await asyncio.sleep(400)
        process.kill()
        world.settings = settings_of(min=1, trust_domain="acme/other", repositories=("acme/widgets",))
        serve(world, "web-2")
        await asyncio.sleep(300)
        assert [one.trust_domain for one in members(world)] == ["acme/other"]


@pytest.mark.slow
async def test_without_heartbeats_a_set_that_left_the_settings_is_given_up_and_no_runner_is_taken_for_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world() as world:
        without = msgspec.structs.replace(world.settings, github=Github(scope=REPOSITORY, token="t"))
        made: list[Service] = []

        async def main(ports: Ports) -> None:
            made.append(Service(ports, without, process="web-1"))
            await made[0].run(asyncio.Event())

        run = push(world, lasts=3600.0)
        first = serve(world)
        await asyncio.sleep(120)
        first.kill()
        world.agents["web-2"], _ = world.start("web-2", main)
        await asyncio.sleep(120)  # the set retires, and its runner has a job
        assert list(made[0].sets.held) == [SET]
        made[0].adopt(msgspec.structs.replace(without, liveness=Liveness(tracking=False)))
        await asyncio.sleep(5)
        assert session(world).state is FREE
        await asyncio.sleep(300)
        assert (session(world).state, made[0].sets.held) == (FREE, {})
        assert [one.run_id for one in members(world)] == [f"set:{SET}"]
        assert len([one for one in caplog.records if "not served without heartbeats" in one.getMessage()]) == 1
        await until_done(world, run)
        assert hub_of(world).runs[run].shown().conclusion == "success"


async def test_a_holder_that_gives_up_its_set_closes_the_session_however_long_that_takes() -> None:
    async with a_set_world() as world:
        made: list[tuple[Service, Ports]] = []

        async def main(ports: Ports) -> None:
            made.append((Service(ports, world.settings, process="web-1"), ports))
            await made[0][0].run(asyncio.Event())

        world.agents["web-1"], _ = world.start("web-1", main)
        await asyncio.sleep(60)
        ((service, ports),) = made
        close = ports.scale_sets.close

        async def close_slowly(set_id: int, session_id: str) -> None:
            await asyncio.sleep(7)  # several turns of the controller
            await close(set_id, session_id)

        ports.scale_sets.close = close_slowly  # type: ignore[method-assign]
        service.adopt(msgspec.structs.replace(world.settings, liveness=Liveness(tracking=False)))
        await asyncio.sleep(30)
        assert (session(world).state, session(world).ci_session) == (FREE, "")
        assert set_of(world).session is None
