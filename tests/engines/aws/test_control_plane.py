"""Use cases on the stores of AWS, without a service: what one process wrote, another one finds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from builders import NOW, Walk, later, on_offer, running
from bullpen.config import ResourceClass, Settings
from bullpen.model.instance import IDLE, TERMINATED
from bullpen.model.signal import Heartbeat, Kind, Signal
from bullpen.ports import Ports
from bullpen.refresh import Action, refresh
from bullpen.release import release
from conformance import engines as opening
from conformance.landing import land
from engines.aws.counted import an_agent
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop

ELSEWHERE = Settings(classes={"large": ResourceClass(cpu=4, mem=16384)})


class Still:
    """A clock that stands at NOW."""

    now = staticmethod(lambda: NOW)


@asynccontextmanager
async def a_pool(make_settings: MakeSettings, walk: Walk) -> AsyncIterator[Ports]:
    """With one instance."""
    async with opening.aws(make_settings) as opened:
        await opened.ports.queue.ensure("small")
        await land(opened.ports.records, walk)
        yield replace(opened.ports, clock=Still())


async def test_a_refresh_ends_an_idle_machine_whose_agent_knows_that_it_will_be_taken(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_pool(aws_settings, on_offer("i-1")) as ports:
        agent = an_agent(aws_settings().aws.pool, engines.dynamodb, "i-1")
        agent.beat(None)
        agent.beat(None, later(120))
        agent.close()
        done = await refresh(ports, Settings())
        assert Action("terminate", "i-1", "its machine is to be taken away at 00:02:00Z") in done
        assert (await ports.records.instances(["i-1"]))["i-1"].state is TERMINATED


async def test_a_run_whose_class_was_removed_is_released_and_refresh_ends_its_machine(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_pool(aws_settings, running("i-1", "run-1")) as ports:
        assert [(one.what, one.subject) for one in await refresh(ports, ELSEWHERE) if "queue" in one.what] == [
            ("make queue", "large"),
            ("retire queue", "small"),
        ]

        async def clean() -> None:
            async with asyncio.timeout(120):
                while (one := (await ports.records.instances(["i-1"]))["i-1"]).state is not IDLE:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await ports.signals.beat(Heartbeat("i-1", NOW, 1))
            await ports.signals.report(Signal("i-1", Kind.CLEAN_OK, "", one.round, seq=1))

        given_back, _ = await asyncio.gather(release(ports, ELSEWHERE, "run-1", stop=asyncio.Event()), clean())
        assert given_back.offered == ("i-1",)
        await refresh(ports, ELSEWHERE)
        assert (await ports.records.instances(["i-1"]))["i-1"].state is TERMINATED
