"""The series of scale sets are those of the server that listens to them, with the names of GitHub's own controller."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from bullpen.controllers import Service
from bullpen.ports import Ports
from bullpen.server.metrics.of_pool import put_pool
from bullpen.server.metrics.of_process import put_sets
from bullpen.server.metrics.samples import Samples
from bullpen.server.metrics.store_read import read_store
from bullpen.sim.world import World
from scale_sets.fixtures import SET, a_set_world, push, set_of, settings_of, until_done
from server.metrics.scraped import Scraped, read


def serving(world: World, name: str) -> list[Service]:
    """Start a process of `serve`; its service is in the list once it runs."""
    services: list[Service] = []

    async def main(ports: Ports) -> None:
        services.append(Service(ports, world.settings, process=name))
        await services[0].run(asyncio.Event())

    process, _ = world.start(name, main)
    world.agents[name] = process
    return services


def shown(world: World, service: Service) -> Scraped:
    samples = Samples()
    put_sets(samples, world.settings, service)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(samples)
    return read(generate_latest(registry).decode())


async def test_the_holder_shows_jobs_and_runners_and_the_others_do_not() -> None:
    async with a_set_world(settings_of(min=2, max=5)) as world:
        processes = [serving(world, "web-1"), serving(world, "web-2")]
        await asyncio.sleep(60)
        holder, other = sorted((one for (one,) in processes), key=lambda one: not one.sets.held)
        run = push(world, jobs=4, lasts=60.0)
        await asyncio.sleep(30)
        found = shown(world, holder)
        labels = {
            "name": SET,
            "namespace": "bullpen",
            "organization": "acme",
            "repository": "widgets",
            "enterprise": "",
        }
        assert found.value("gha_assigned_jobs", **labels) == 4
        assert found.value("gha_running_jobs", **labels) == 4
        assert found.value("gha_min_runners", **labels) == 2
        assert found.value("gha_max_runners", **labels) == 5
        assert found.value("gha_desired_runners", **labels) == 5
        assert found.value("gha_registered_runners", **labels) == len(set_of(world).runners)
        assert found.value("gha_busy_runners", **labels) == 4
        assert shown(world, other).labels("gha_assigned_jobs") == []
        await until_done(world, run)
        await asyncio.sleep(30)
        found = shown(world, holder)
        assert found.value("gha_started_jobs_total", organization="acme", repository="widgets") == 4
        assert found.value("gha_completed_jobs_total", job_result="succeeded") == 4
        assert found.value("gha_assigned_jobs", **labels) == 0


async def test_a_set_counts_as_held_or_unheld_at_every_server() -> None:
    async with a_set_world() as world:
        ports = world.ports(rates=None)

        async def sets() -> tuple[float | None, float | None]:
            samples = Samples()
            put_pool(samples, world.settings, await read_store(ports, world.settings))
            registry = CollectorRegistry(auto_describe=False)
            registry.register(samples)
            found = read(generate_latest(registry).decode())
            return found.value("bullpen_scale_sets", state="held"), found.value("bullpen_scale_sets", state="unheld")

        assert await sets() == (0, 1)
        serving(world, "web-1")
        await asyncio.sleep(60)
        assert await sets() == (1, 0)
