"""GitHub does not show a member: one that cannot register is left alone, and one that it lost registers again."""

import asyncio

import pytest

from bullpen.errors import NotFound
from bullpen.model.instance import TERMINATED
from bullpen.ports import JitConfiguration
from fixtures import machines, records
from scale_sets.fixtures import a_set_world, hub_of, members, push, serve, set_of, settings_of, until_done

pytestmark = pytest.mark.slow


async def test_no_member_is_ended_while_github_makes_no_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_set_world(settings_of(min=3)) as world:
        serve(world)
        await asyncio.sleep(400)
        run = push(world, jobs=3, lasts=60.0)
        await asyncio.sleep(20)
        before = {one.id for one in members(world)}
        assert len(before) == 6

        def refuses(*asked: str) -> JitConfiguration:
            raise NotFound("no answer")

        with monkeypatch.context() as outage:
            outage.setattr(hub_of(world), "configure", refuses)
            await until_done(world, run)
            await asyncio.sleep(1800)
        assert [one.id for one in records(world, TERMINATED) if one.id in before] == []
        later = push(world, jobs=6, lasts=60.0)
        assert await until_done(world, later) < 120
        assert {hub_of(world).instance_of(job.runner) for job in hub_of(world).runs[later].jobs} == before


async def test_a_member_whose_registration_github_lost_registers_again_and_keeps_its_machine() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(400)
        (lost,) = set_of(world).runners
        (one,) = members(world)
        hub_of(world).set_runners.drop(lost)
        await asyncio.sleep(420)
        (again,) = set_of(world).runners
        assert (again != lost, [found.id for found in members(world)]) == (True, [one.id])
        run = push(world, lasts=30.0)
        await until_done(world, run)
        assert one.id in machines(world)


async def test_a_member_that_github_loses_again_and_again_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(400)
        (one,) = members(world)
        runners = hub_of(world).set_runners
        connect = runners.connect

        def lose(encoded: str) -> bool:
            connected = connect(encoded)
            for runner in [name for name in set_of(world).runners if one.id in name]:
                runners.drop(runner)
            return connected

        monkeypatch.setattr(runners, "connect", lose)
        for runner in list(set_of(world).runners):
            runners.drop(runner)
        await asyncio.sleep(1200)
        assert one.id not in machines(world)
        (after,) = members(world)
        assert [hub_of(world).instance_of(runner) for runner in set_of(world).runners] == [after.id]
