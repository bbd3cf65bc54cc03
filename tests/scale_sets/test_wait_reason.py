"""The reason for which a job of a set waits names the setting, or what an operator has to see to."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bullpen import inventory
from bullpen.cli.status_text import status_text
from bullpen.config import Limits, Settings
from bullpen.errors import InsufficientCapacity, LimitReached, PermissionDenied
from bullpen.model.scale_set import ScaleSet
from bullpen.model.ticket import UsageClass
from bullpen.model.wait import WaitCause
from bullpen.provision.launch_report import LaunchReport
from bullpen.scale_sets.wait_reason import SupplyFacts, WaitReason, max_of, wait_reason
from bullpen.schema.status import pool_status_of
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from scale_sets.fixtures import SET, a_set_world, push, serve, session, settings_of
from set_builders import a_ready_set, rules


def with_caps(settings: Settings, of_class: int = 0, of_pool: int = 100) -> Settings:
    small = msgspec.structs.replace(settings.classes["small"], max_instances=of_class)
    return msgspec.structs.replace(settings, classes={"small": small}, limits=Limits(max_instances=of_pool))


CLASS, POOL = with_caps(settings_of(), of_class=2), with_caps(settings_of(), of_pool=2)


async def reason_after(world: World, seconds: float) -> str:
    """What the oldest wait is shown with."""
    await asyncio.sleep(seconds)
    return session(world).waiting[0].why


# ---- in the record


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (settings_of(max=2), "github.scale-sets.small.max is 2"),
        (CLASS, "classes.small.max-instances is 2"),
        (POOL, "limits.max-instances is 2"),
    ],
    ids=["set", "class", "pool"],
)
async def test_a_job_that_waits_at_a_cap_names_its_setting(settings: Settings, reason: str, replicas: int) -> None:
    async with a_set_world(settings) as world:
        for n in range(replicas):
            serve(world, f"web-{n}")
        push(world, 2, lasts=3600.0)
        await asyncio.sleep(60)
        for found in world.memory.hub.sets.sets.values():  # type: ignore[union-attr]
            found.capacity = 20  # GitHub assigns more than the set may run
        push(world, lasts=3600.0)
        assert await reason_after(world, 71) == reason
        found = pool_status_of(await inventory.status(world.ports(), settings))
        assert f"71s: {reason}" in status_text(found, world.clock.now())
        assert [one.why for one in found.scale_sets] == [reason]


async def test_a_job_that_waits_because_a_launch_failed_has_the_text_of_the_failure() -> None:
    async with a_set_world(capacity=0) as world:
        serve(world)
        push(world)
        reason = await reason_after(world, 30)
        assert reason.startswith("the last launch failed: small: the machine could not be launched (Insufficient")


async def test_a_job_that_waits_because_a_launch_is_not_permitted_has_the_text_of_the_refusal() -> None:
    async with a_set_world() as world:
        denied = PermissionDenied("ec2:CreateFleet is not allowed")
        world.memory.yard.troubles.extend([(0, denied)] * 100)
        serve(world)
        push(world)
        assert await reason_after(world, 60) == f"the last launch failed: {denied}"


@pytest.mark.parametrize("replicas", [1, 2])
async def test_a_job_that_waits_for_a_boot_says_so(replicas: int) -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        for n in range(replicas):
            serve(world, f"web-{n}")
        push(world)
        reason = await reason_after(world, 30)
        assert reason == "the pool has no free small instance: 1 booting or being cleaned"


async def test_a_job_that_waits_for_a_machine_that_another_process_launched_says_so() -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=200.0)) as world:
        first = serve(world, "web-0")
        push(world)
        await asyncio.sleep(20)
        first.kill()
        serve(world, "web-1")
        reason = await reason_after(world, 120)
        assert session(world).holder == "web-1"
        assert reason == "the pool has no free small instance: 1 booting or being cleaned"


async def test_a_job_that_waits_for_a_registration_says_so() -> None:
    async with a_set_world(settings_of(idle_target=1), temper=lambda n: Temper(registers_in=18.0)) as world:
        serve(world)
        await asyncio.sleep(400)  # the probe of the new session is given back
        push(world)
        assert await reason_after(world, 15) == "a runner is registering at GitHub"


# ---- which reason is said


def a_launch(on_the_way: int = 0, refusal: Any = None) -> LaunchReport:
    return LaunchReport("small", UsageClass.ON_DEMAND, on_the_way, refusal)


CAPPED = LimitReached("classes.small.max-instances is 3; the total …", setting="classes.small.max-instances", limit=3)

NONE_LEFT = InsufficientCapacity("none")
NO_FREE = "the pool has no free small instance"
CAP, NO_CAPACITY, BOOTING = WaitCause.CAP, WaitCause.NO_CAPACITY, WaitCause.BOOTING
OUTAGE, LIMITED, RETIRED_IMAGE = WaitCause.GITHUB_OUTAGE, WaitCause.GITHUB_LIMIT, WaitCause.IMAGE_RETIRED


@pytest.mark.parametrize(
    ("facts", "cause", "reason"),
    [
        (SupplyFacts(unheard="a session is open (409)", is_capped=True), OUTAGE, "a session is open (409)"),
        (SupplyFacts(unheard="wait 60 s", is_limited=True, is_capped=True), LIMITED, "wait 60 s"),
        (SupplyFacts(unregistered="403", is_capped=True), OUTAGE, "GitHub registers no runner: 403"),
        (SupplyFacts(refused="GitHub refuses 2.319.0", is_capped=True), RETIRED_IMAGE, "GitHub refuses 2.319.0"),
        (SupplyFacts(is_capped=True, lacking=1), CAP, "github.scale-sets.small.max is 8"),
        (SupplyFacts(lacking=1, launch=a_launch(2, CAPPED)), CAP, "classes.small.max-instances is 3"),
        (SupplyFacts(lacking=1, launch=a_launch(0, NONE_LEFT)), NO_CAPACITY, "the last launch failed: none"),
        (SupplyFacts(lacking=2, launch=a_launch(2)), BOOTING, f"{NO_FREE}: 2 booting or being cleaned"),
        (SupplyFacts(lacking=2, launch=a_launch()), BOOTING, f"{NO_FREE}: 2 to launch"),
        (SupplyFacts(lacking=2), BOOTING, f"{NO_FREE}: 2 to launch"),
        (SupplyFacts(registering=1, idle=1), BOOTING, "a runner is registering at GitHub"),
        (SupplyFacts(idle=1), OUTAGE, "a runner is registered, and GitHub has not given it the job"),
        (SupplyFacts(), WaitCause.UNKNOWN, ""),
    ],
)
def test_the_reason_that_explains_the_others_is_said(facts: SupplyFacts, cause: WaitCause, reason: str) -> None:
    assert wait_reason(settings_of(max=8), a_set(max=8), facts) == WaitReason(cause, reason)


def a_set(**changed: Any) -> ScaleSet:
    return replace(a_ready_set(SET), rules=rules(resource_class="small", **changed))


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (with_caps(settings_of(max=5), of_class=9), "github.scale-sets.small.max"),
        (with_caps(settings_of(max=0), of_class=5), "classes.small.max-instances"),
        (with_caps(settings_of(max=0), of_pool=5), "limits.max-instances"),
        (settings_of(name="other", max=5), f"max of {SET}"),
    ],
)
def test_the_largest_number_of_runners_has_the_setting_that_it_comes_from(settings: Settings, setting: str) -> None:
    assert str(max_of(settings, a_set(max=5))) == f"{setting} is 5"
