"""GitHub's runner prepares a job for minutes before its agent knows which one it is. Nothing ends it meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec
import pytest

from bullpen.config import Github, Settings
from bullpen.controllers import Service
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.ports import Conclusion, Ports
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from scale_sets.fixtures import (
    REPOSITORY,
    a_set_world,
    hub_of,
    push,
    serve,
    session,
    settings_of,
    until_done,
)
from scale_sets.test_listener import Spy
from scale_sets.watched import WatchedRuns

PREPARES = 295.0  # seconds: the agent gives its runner 300
LASTS = 600.0
IDLE = 60.0  # by then the first member listens
SURPLUS = 350.0  # by then a member of a set with `min` 0 is withdrawn: it waits for 300 s after a new session


@asynccontextmanager
async def a_slow_world(settings: Settings) -> AsyncIterator[World]:
    async with a_set_world(settings, temper=lambda _: Temper(prepares_in=PREPARES)) as world:
        hub_of(world).sets.troubles = SetTroubles(busy_known_after=60.0)
        yield world


def conclusion(world: World, run: str) -> Conclusion | None:
    (job,) = hub_of(world).runs[run].jobs
    return job.conclusion


async def test_a_set_that_retires_ends_no_runner_that_prepares_its_job() -> None:
    async with a_slow_world(settings_of(min=1)) as world:
        watched, stopping = WatchedRuns(world), asyncio.Event()

        async def main(ports: Ports) -> None:
            await Service(ports, world.settings, process="web-1").run(stopping)

        world.agents["web-1"], _ = world.start("web-1", main)
        await asyncio.sleep(IDLE)
        run = push(world, lasts=LASTS)
        await asyncio.sleep(5)
        stopping.set()
        await asyncio.sleep(5)
        world.settings = msgspec.structs.replace(world.settings, github=Github(scope=REPOSITORY, token="t"))
        serve(world, "web-2")
        await until_done(world, run)
        assert (watched.ended_under_a_job, conclusion(world, run)) == ([], Conclusion.SUCCESS)


async def test_a_member_that_gets_a_job_while_it_is_withdrawn_may_prepare_it() -> None:
    async with a_slow_world(settings_of(linger=30.0)) as world:
        watched, runs = WatchedRuns(world), list[str]()

        def between(ports: Ports) -> Ports:
            async def remove(id: int) -> object:
                if not runs:  # the job comes while the request is on its way, and GitHub does not know it yet
                    runs.append(push(world, lasts=LASTS))
                    await asyncio.sleep(0)
                return await ports.scale_sets.remove_runner(id)

            return replace(ports, scale_sets=Spy(ports.scale_sets, remove_runner=remove))

        serve(world, between=between)
        await asyncio.sleep(SURPLUS)
        await until_done(world, *runs)
        assert (watched.ended_under_a_job, conclusion(world, runs[0])) == ([], Conclusion.SUCCESS)


@pytest.mark.parametrize("at", [60.0, PREPARES + 60.0])
async def test_what_a_runner_was_given_is_remembered_until_a_heartbeat_names_the_job(at: float) -> None:
    """A rescue needs it if the machine dies before: the heartbeat only says that the runner is busy."""
    async with a_slow_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(IDLE)
        push(world, lasts=LASTS)
        await asyncio.sleep(at)
        assert len(session(world).started) == (1 if at < PREPARES else 0)
