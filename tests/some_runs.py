"""Runs on virtual time, on a home and through a server, and runners that they lose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from bullpen.cli.remote_pool import RemotePool
from bullpen.cli.remote_run import run_remotely
from bullpen.client import AsyncClient
from bullpen.client.transport import AsyncTransport
from bullpen.jobs import JobRequest
from bullpen.model.job import RUNNING, Job
from bullpen.provision import Request
from bullpen.run import RunOptions, RunOutcome, run
from bullpen.sim.world import World
from server.fixtures import a_house

ORDER = JobRequest("run-1", ("true",))


def wanted(*commands: str, **changes: Any) -> list[JobRequest]:
    return [
        replace(ORDER, command=tuple(words.split()), name=f"job-{n}", index=n, **changes)
        for n, words in enumerate(commands)
    ]


async def a_run(
    world: World,
    requests: list[JobRequest],
    count: int = 2,
    stop: asyncio.Event | None = None,
    served: Path | None = None,
    **needs: Any,
) -> tuple[RunOutcome, list[str]]:
    """What came of it, and what it printed. With `served`, through a server that has this directory for itself."""
    printed: list[str] = []
    partial, options = needs.pop("allow_partial", False), needs.pop("options", RunOptions())
    files = needs.pop("files", None)
    asked = world.settings.requirements("small", **needs)
    request = Request("run-1", count, asked, world.settings.timings.max_runtime, allow_partial=partial)
    begun = {
        "stop": stop or asyncio.Event(),
        "options": options,
        "write": lambda job, line: printed.append(f"{job.name} {line}"),
    }
    if served is None:
        return await run(world.ports(), world.settings, request, requests, files=files, **begun), printed
    async with a_client(world, served) as client:
        pool = RemotePool(client)
        return await run_remotely(pool, client, request, requests, tell=lambda report: None, **begun), printed


@asynccontextmanager
async def a_client(world: World, home: Path) -> AsyncIterator[AsyncClient]:
    """Of a server in this process that serves the world, with all its loops."""
    async with a_house(home, settings=world.settings, ports=world.ports()) as house:
        stop = asyncio.Event()
        serving = asyncio.get_running_loop().create_task(house.context.service.run(stop))
        async with AsyncClient("http://127.0.0.1") as client:
            transport = client._requester.transport
            assert isinstance(transport, AsyncTransport)
            await transport.close()
            transport._client = httpx.AsyncClient(transport=httpx.ASGITransport(app=house.app))
            yield client
        stop.set()
        await serving


async def until_running(world: World, count: int, losses: int = 0) -> list[Job]:
    """The jobs that run and were lost so often, once there are so many."""
    while True:
        running = [j for j in world.memory.tables.jobs.values() if j.state is RUNNING and j.losses == losses]
        if len(running) >= count:
            return running
        await asyncio.sleep(0.1)


async def lose_runner(world: World, job: Job) -> None:
    world.agents[job.instance_id].kill()
    world.memory.yard.end(job.instance_id)
