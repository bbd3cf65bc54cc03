"""`queue`: everything that waits, the longest wait first, and how long provisions took."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from bullpen import jobs
from bullpen.config import Limits
from bullpen.explain import queue as module
from bullpen.explain import why
from bullpen.explain.queue import queue
from bullpen.explain.why import JOBS_EXPLAINED, WITH_CANDIDATES
from bullpen.inventory import record_stories
from bullpen.jobs.request import JobRequest
from bullpen.model.wait import WaitCause, WaitKind
from bullpen.provision.eviction import Headroom
from bullpen.schema.queue import queue_of
from fixtures import a_world, provisioned, requests, small

CAPPED = msgspec.structs.replace(small(), limits=Limits(max_instances=1))


async def test_the_longest_wait_comes_first_and_latencies_are_by_class_and_repository() -> None:
    async with a_world(settings=CAPPED) as world:
        await provisioned(world, "holder", 1, repository="acme/web")
        tasks = []
        for name in ("first", "second"):
            work = provisioned(world, name, 1, wait=3600.0, repository="acme/api")
            tasks.append(asyncio.get_running_loop().create_task(work))
            await asyncio.sleep(10)
        found = queue_of(await queue(world.ports(), world.settings))
        assert [(one.subject, one.kind, one.cause) for one in found.waits] == [
            ("first", WaitKind.RUN, WaitCause.CAP),
            ("second", WaitKind.RUN, WaitCause.CAP),
        ]
        assert all(one.candidates == [] and one.refusals for one in found.waits)
        rows = {one.repository: one for one in found.latencies}
        assert (rows["acme/web"].count, rows["acme/web"].oldest) == (1, None)
        assert rows["acme/web"].p99 is not None
        assert (rows["acme/api"].count, rows["acme/api"].p50) == (0, None)
        assert 19.0 <= (rows["acme/api"].oldest or 0.0) <= 21.0
        assert found.data_since is not None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_jobs_that_match_nothing_are_listed_apart_too() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        wanted = [JobRequest("misspelt", ("true",)), JobRequest("run", ("sleep", "60")), JobRequest("run", ("true",))]
        submitted = await jobs.submit(world.ports(), wanted, by="a test")
        await asyncio.sleep(3)
        found = queue_of(await queue(world.ports(), world.settings))
        assert [one.subject for one in found.unmatched] == [submitted[0].id]
        assert {one.cause for one in found.waits} == {WaitCause.NO_MATCH, WaitCause.QUEUED_BEHIND}


async def test_of_a_great_many_waits_some_are_listed_and_the_others_counted() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        many = module.JOBS_OF_RUN + 30
        await jobs.submit(world.ports(), [JobRequest("run", ("sleep", "60"))] * many, by="a test")
        await asyncio.sleep(3)
        found = queue_of(await queue(world.ports(), world.settings))
        assert len(found.waits) == module.JOBS_OF_RUN
        assert found.more == many - 1 - module.JOBS_OF_RUN


async def test_a_pool_in_which_nothing_waits_has_an_empty_queue() -> None:
    async with a_world() as world:
        found = queue_of(await queue(world.ports(), world.settings))
        assert (found.waits, found.more, found.unmatched, found.latencies, found.data_since) == ([], 0, [], [], None)


async def test_of_many_jobs_of_a_run_only_the_first_list_its_runners() -> None:
    async with a_world() as world:
        await provisioned(world, "run", 1)
        await jobs.submit(world.ports(), [JobRequest("run", ("sleep", "60"))] * 300, by="a test")
        await asyncio.sleep(3)
        waits = (await why(world.ports(), world.settings, "run")).waits
        assert len(waits) == JOBS_EXPLAINED
        assert [bool(one.candidates) for one in waits[:6]] == [True] * WITH_CANDIDATES + [False]


async def test_runs_that_are_not_explained_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNS", 2)
    async with a_world() as world:
        await jobs.submit(world.ports(), [JobRequest(f"run-{n}", ("true",)) for n in range(5)], by="a test")
        found = queue_of(await queue(world.ports(), world.settings))
        assert (len(found.waits), found.more) == (2, 3)


async def test_a_run_with_more_jobs_than_a_page_shows_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_stories, "JOBS", 3)
    async with a_world() as world:
        await provisioned(world, "run", 1)
        wanted = [JobRequest("run", ("sleep", "1"))] * 8
        first = await jobs.submit(world.ports(), wanted, by="a test")
        await asyncio.sleep(60)
        await jobs.submit(world.ports(), [JobRequest("run", ("sleep", "600"))] * 9, by="a test")
        await asyncio.sleep(3)
        assert len((await why(world.ports(), world.settings, "run")).waits) == 8
        assert (await why(world.ports(), world.settings, first[0].id)).waits == ()


async def test_all_jobs_of_a_run_are_explained_by_one_look_at_its_provision(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world(settings=CAPPED) as world:
        await provisioned(world, "holder", 1)
        task = asyncio.get_running_loop().create_task(provisioned(world, "run", 1, wait=3600.0))
        await asyncio.sleep(5)
        await jobs.submit(world.ports(), [JobRequest("run", ("true",))] * 60, by="a test")
        looks = Counter[str]()
        foreseen = Headroom.foreseen

        async def counted(self: Headroom, *args: Any) -> Any:
            looks["foreseen"] += 1
            return await foreseen(self, *args)

        monkeypatch.setattr(Headroom, "foreseen", counted)
        ports = world.ports()
        waits = (await why(ports, world.settings, "run")).waits
        assert (len(waits), {one.cause for one in waits}) == (61, {WaitCause.CAP})
        assert looks["foreseen"] == 1
        assert sum(requests(ports).values()) < 20
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
