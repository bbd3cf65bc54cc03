"""Webhooks about runs for which the pool holds nothing: they cost the store almost nothing, and none is forgotten."""

import asyncio

from bullpen.workflows.controller import STRANGERS
from fixtures import requests
from workflows.fixtures import a_scene, build


async def test_a_storm_of_foreign_deliveries_costs_one_reading_for_many() -> None:
    async with a_scene() as scene:
        ports = scene.world.ports()
        controller = scene.controller(ports)
        await controller.run_once()
        before = requests(ports)["records.live"]
        for n in range(int(STRANGERS)):
            controller.note("acme/widgets", str(1000 + n))
            await controller.run_once()
            await asyncio.sleep(2)
        assert requests(ports)["records.live"] - before == 1


async def test_a_note_of_a_run_that_gets_runners_meanwhile_is_acted_on_within_seconds() -> None:
    async with a_scene() as scene:
        controller = scene.controller()
        await controller.run_once()
        run = await scene.run(build(lasts=1), runners=1)  # takes longer than a note may wait
        controller.note("acme/widgets", run)
        await controller.run_once()
        assert not scene.instances(run)
