"""The settings of a set change: no job runs by the old ones, whatever its runners do at that moment."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bullpen.config import ResourceClass, Settings
from bullpen.controllers import Service
from bullpen.engines.memory.ci import MemoryCI
from bullpen.model import scale_set as sets
from bullpen.model.instance import CLAIMED, Instance
from bullpen.model.scale_set import ScaleSet, SetRepository, SetRules
from bullpen.model.ticket import UsageClass
from bullpen.ports import Ports, RegistrationCredentials
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from scale_sets.fixtures import SET, a_set_world, hub_of, members, push, serve, set_of, settings_of, until_done

pytestmark = pytest.mark.slow  # hours of virtual time

SETTLES = 600.0
TEAM: dict[str, Any] = {"min": 1, "trust_domain": "team"}


def with_classes(settings: Settings, **generations: int) -> Settings:
    known = {name: ResourceClass(cpu=1, mem=1024, image_generation=one) for name, one in generations.items()}
    return msgspec.structs.replace(settings, classes=known)


def record(world: World) -> ScaleSet:
    return world.memory.tables.scale_sets[f"set:{SET}"]


def runners(world: World) -> set[str]:
    return set(set_of(world).runners)


async def restart(world: World, settings: Settings, *, is_killed: bool = False) -> None:
    """A server has an idle runner of the set; then the next server has other settings."""
    stopping = asyncio.Event()

    async def main(ports: Ports) -> None:
        await Service(ports, world.settings, process="web-1").run(stopping)

    process, _ = world.start("web-1", main)
    world.agents["web-1"] = process
    await asyncio.sleep(SETTLES)
    assert len(runners(world)) == 1
    if is_killed:
        process.kill()
    else:
        stopping.set()
        await asyncio.sleep(5)
    world.settings = settings
    serve(world, "web-2")
    await asyncio.sleep(SETTLES)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_runners_that_wait_register_again_with_the_rules_of_a_restarted_server(is_killed: bool) -> None:
    async with a_set_world(settings_of(**TEAM, repositories=("acme/widgets",))) as world:
        hub_of(world).repositories["acme/widgets"] = 0  # GitHub does not show it: the rules have no id
        used = Registrations(world)
        await restart(world, settings_of(**TEAM, repositories=("acme/widgets/777",)), is_killed=is_killed)
        assert record(world).rules.repositories == (SetRepository("acme/widgets", 777),)
        assert len(members(world)) == 1
        assert runners(world) == {used.last}
        assert used.rules[used.last] == (SetRepository("acme/widgets", 777),)


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"resource_class": "large"}, {"resource_class": "large"}),
        ({"usage_class": "spot"}, {"usage_class": UsageClass.SPOT}),
    ],
)
async def test_members_of_another_class_leave(changed: dict[str, str], fields: dict[str, str]) -> None:
    def settings(**rules: Any) -> Settings:
        return with_classes(settings_of(**{**TEAM, "resource_class": "small", "name": SET, **rules}), small=1, large=1)

    async with a_set_world(settings()) as world:
        await restart(world, settings(**changed))
        (one,) = members(world)
        assert {name: getattr(one, name) for name in fields} == fields
        await until_done(world, push(world, lasts=30.0))


async def test_members_of_an_old_image_leave() -> None:
    async with a_set_world(with_classes(settings_of(**TEAM), small=1)) as world:
        await restart(world, with_classes(settings_of(**TEAM), small=2))
        assert [one.image_generation for one in members(world)] == [2]


class Registrations:
    """Which rules the set had when each of its runners registered."""

    def __init__(self, world: World) -> None:
        self.rules: dict[str, tuple[SetRepository, ...]] = {}
        self.last = ""
        connect: Callable[[str], bool] = hub_of(world).set_runners.connect

        def connected(encoded: str) -> bool:
            before = runners(world)
            found = connect(encoded)
            (self.last,) = {*runners(world), *before} - {*self.rules} or {self.last}
            self.rules[self.last] = record(world).rules.repositories
            return found

        hub_of(world).set_runners.connect = connected  # type: ignore[method-assign]


async def registering(world: World) -> str:
    """Wait until GitHub has made the first registration, and the runner does not listen yet; returns its name."""
    while not (set_of(world).runners and claimed(world)):  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
    (given,) = runners(world)
    return given


def claimed(world: World) -> list[Instance]:
    return [one for one in world.memory.tables.instances.values() if one.state is CLAIMED]


async def correct(world: World, **changed: Any) -> None:
    ports = world.ports()
    rules: SetRules = replace(record(world).rules, **changed)
    event = sets.SetCorrected(at=ports.clock.now(), by="a test", why="a test", rules=rules)
    await ports.records.apply(sets.correct(record(world), event))


@pytest.fixture
def slow_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its configuration until it listens, a runner takes four seconds."""
    register = MemoryCI.register

    async def registered(self: MemoryCI, *args: str) -> RegistrationCredentials:
        given = await register(self, *args)
        await asyncio.sleep(4.0)
        return given

    monkeypatch.setattr(MemoryCI, "register", registered)


SLOW: dict[str, Any] = {"temper": lambda _: Temper(boots_in=20.0, registers_in=0.2)}


@pytest.mark.usefixtures("slow_runner")
async def test_no_job_of_a_new_trust_domain_runs_on_a_machine_that_was_claimed_for_the_old_one() -> None:
    async with a_set_world(settings_of(**TEAM), **SLOW) as world:
        serve(world)
        given = await registering(world)
        await correct(world, trust_domain="secret")
        await asyncio.sleep(25)
        assert given not in runners(world)
        run = push(world, lasts=10.0)
        await until_done(world, run)
        (job,) = hub_of(world).runs[run].jobs
        machine = world.memory.tables.instances[hub_of(world).instance_of(job.runner) or ""]
        assert machine.trust_domain == "secret"
