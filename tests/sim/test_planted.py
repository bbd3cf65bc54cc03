"""Planted bugs: each takes one condition out of the code, and the exploration that proves the promise must notice.

Every check passes on the code as it is; with its bug planted it must not.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

import plants
from builders import messages
from bullpen.config import ResourceClass, Settings
from bullpen.engines.memory import Failure, Rates
from bullpen.engines.memory import records as memory_records
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model.instance import IDLE, RUNNING, Instance
from bullpen.model.ticket import UsageClass
from bullpen.pool import debts, lifecycle
from bullpen.ports import Ports
from bullpen.provision import existing_members, pickup
from bullpen.release import release
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from histories import (
    SETTINGS,
    Actor,
    Loses,
    Main,
    fills_pool,
    history,
    loses_members,
    losing,
    provisioning,
    provisions,
    refreshing,
    releasing,
)

pytestmark = pytest.mark.slow

ONE_HOUR = timedelta(hours=1)
NEWER_IMAGE = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, image_generation=2)})
FALLS_BACK = Settings(timings=SETTINGS.timings, classes={"small": ResourceClass(cpu=1, mem=1024, spot_fallback=True)})
Broken = list[str]
Check = Callable[[], Broken]


# ---- checks: short explorations, each for one family of promises


def killed(main: Main, want: dict[str, int], **stage: Any) -> Check:
    """Killed at every second callback."""

    def check() -> Broken:
        for step in range(1, 1000, 2):
            victim = Actor("victim", main, die_at=step)
            if broken := history([victim], want, **stage):
                return [f"killed at {step}", *broken]
            if not victim.process.dead:
                return []
        raise AssertionError("it never ends")

    return check


def raced(first: Main, second: Main, want: dict[str, int], *, delay: float = 0.0, **stage: Any) -> Check:
    def check() -> Broken:
        for seed in range(1, 40):
            actors = [Actor("first", first), Actor("second", second, begins_at=delay * (seed % 4))]
            if broken := history(actors, want, seed=seed, **stage):
                return [f"seed {seed}", *broken]
        return []

    return check


def played(main: Main, want: dict[str, int] | None = None, **stage: Any) -> Check:
    return lambda: history([Actor("only", main)], want or {}, **stage)


# ---- stages and runs


def slow_engines() -> World:
    """So that a release that begins later meets the provision at its fleet."""
    return World(settings=SETTINGS, rates=Rates(latency=(0.01, 0.1)))


async def doubled_tickets(world: World) -> None:
    """Each twice, one after the other."""
    bodies = world.memory.queues.pop("small").bodies()
    await world.ports().queue.send("small", messages(sorted(bodies * 2)))


async def no_tickets(world: World) -> None:
    world.memory.queues.clear()


async def one_is_mute(world: World) -> None:
    world.agents[min(world.agents)].pause()


async def serves_two(world: World) -> None:
    assert (await provisions(world, world.ports(), "run", 2)).succeeded


def forged(stored: Callable[[World], Any], **said: Any) -> Callable[[World], Any]:
    """The pool's only ticket says something else than the record."""

    async def stage(world: World) -> None:
        await stored(world)
        (one,) = [i for i in world.memory.tables.instances.values() if i.state is IDLE]
        ticket = replace(one.ticket(), threshold=world.clock.now() + ONE_HOUR, **said)
        world.memory.queues.clear()
        await world.ports().queue.send("small", messages([ticket.to_json()]))

    return stage


async def of_another_domain(world: World) -> None:
    ports = world.ports()
    await provisions(world, ports, "before", 1, trust_domain="secret")
    await release(ports, world.settings, "before", stop=asyncio.Event())


async def of_a_repository_with_another_id(world: World) -> None:
    """One with the id of the repository that had the name first, and one with the bare name."""
    ports = world.ports()
    for number, domain in enumerate(("acme/web/42", "acme/web")):
        await provisions(world, ports, f"before-{number}", 1, trust_domain=domain)
    for number in range(2):
        await release(ports, world.settings, f"before-{number}", stop=asyncio.Event())


async def past_its_threshold(world: World) -> None:
    await fills_pool(world, 1)
    await asyncio.sleep(world.settings.timings.idle + 10)


async def of_an_older_image(world: World) -> None:
    await fills_pool(world, 1)
    world.settings = NEWER_IMAGE


async def being_cleaned(world: World) -> None:
    ports = world.ports()
    await provisions(world, ports, "before", 1)
    (one,) = world.memory.tables.instances.values()
    world.agents[one.id].pause()
    change = lifecycle.give_back(ports, world.settings, one, world.clock.now(), "a test", "")
    await ports.records.apply(change)


async def counts_collisions(world: World, ports: Ports) -> object:
    outcome = await provisions(world, ports, "run", 2)
    assert outcome.collisions == 0, "an instance was handed out twice"
    return outcome


async def one_is_lost(world: World) -> None:
    loses_members(world, "run")


async def one_is_lost_for_good(world: World) -> None:
    loses_members(world, "run", capacity=0)


async def counts_what_runs(world: World, ports: Ports) -> object:
    outcome = await provisions(world, ports, "run", 2)
    states = [world.memory.tables.instances[member.instance.id].state for member in outcome.members]
    assert states == [RUNNING, RUNNING], f"the answer names {states}"
    return outcome


async def lands_a_fenced_claim(world: World, ports: Ports) -> None:
    """A claim that was given up is fenced off by raising the version; it must not land afterwards."""
    one = next(i for i in world.memory.tables.instances.values() if i.is_claimable)
    late = a_claim(world, one, "late")
    kept = instances.Kept(at=world.clock.now(), by="a test", until=one.threshold)
    await ports.records.apply(instances.keep(one, kept))
    (landed,) = await ports.records.apply_each([late])
    assert isinstance(landed, Conflict), "a fenced claim landed"


async def gives_back_what_is_another_s(world: World, ports: Ports) -> None:
    """A roll back that was decided for its own claim meets the claim of another run."""
    one = next(i for i in world.memory.tables.instances.values() if i.is_claimable)
    (mine,) = await ports.records.apply(a_claim(world, one, "mine"))
    late = lifecycle.give_back(ports, world.settings, mine, world.clock.now(), "a test", "")
    await ports.records.apply(lifecycle.give_back(ports, world.settings, mine, world.clock.now(), "a test", ""))
    await asyncio.sleep(1.0)
    await debts.pay_offers(ports, world.settings, [world.memory.tables.instances[one.id]], by="a test")
    await ports.records.apply(a_claim(world, world.memory.tables.instances[one.id], "theirs"))
    (landed,) = await ports.records.apply_each([late])
    assert isinstance(landed, Conflict), "the claim of another run was rolled back"


def a_claim(world: World, one: Instance, round: str) -> Any:
    now = world.clock.now()
    needs = world.settings.requirements("small")
    wish = instances.Claimed(
        at=now, by="a test", run_id="x", round=round, provision_id="p", needs=needs, until=now + timedelta(seconds=40)
    )
    return instances.claim(one, wish)


def slow_runners() -> World:
    return World(settings=SETTINGS, temper=lambda n: Temper(registers_in=7.8))


def slow_machines() -> World:
    return World(settings=SETTINGS, temper=lambda n: Temper(boots_in=1.0 if n < 2 else 15.0))


def no_spot() -> World:
    world = World(settings=FALLS_BACK)
    world.memory.yard.spot_capacity = 0
    return world


async def asks_for_spot_twice(world: World, ports: Ports) -> object:
    await provisions(world, ports, "run", 2, usage_class=UsageClass.SPOT)
    return await provisions(world, ports, "run", 2, usage_class=UsageClass.SPOT)


@dataclass(frozen=True)
class Planted:
    plant: Callable[[], Any]
    check: Check


TWO = {"run": 2}
PLANTED = {
    "a claim that asks for nothing": Planted(
        lambda: plants.without_version("claim", state=False, guards=False),
        raced(provisioning("one", 2), provisioning("two", 2), {"one": 2, "two": 2}, pool=2, before=doubled_tickets),
    ),
    "a claim without its version": Planted(
        lambda: plants.without_version("claim"), played(lands_a_fenced_claim, pool=1)
    ),
    "a claim without the attestation": Planted(
        lambda: plants.without_guard("claim", "attested"), played(provisioning("run", 1), before=forged(being_cleaned))
    ),
    "a claim without the threshold": Planted(
        lambda: plants.without_guard("claim", "threshold"),
        played(provisioning("run", 1), before=forged(past_its_threshold)),
    ),
    "a claim without the trust domain": Planted(
        lambda: plants.without_guard("claim", "trust_domain"),
        played(provisioning("run", 1), before=forged(of_another_domain, trust_domain="default")),
    ),
    "a repository admitted by name, not by id": Planted(
        plants.repositories_by_name,
        played(provisioning("run", 1, trust_domain="acme/web/43"), before=of_a_repository_with_another_id),
    ),
    "a claim without the image generation": Planted(
        lambda: plants.without_guard("claim", "image_generation"),
        played(provisioning("run", 1), before=forged(of_an_older_image, image_generation=2)),
    ),
    "a roll back without version and round": Planted(
        lambda: plants.without_version("roll_back", guards=False), played(gives_back_what_is_another_s, pool=1)
    ),
    "members that run before it is decided": Planted(
        plants.carried_out_before_it_is_decided, killed(provisioning("run", 2), TWO, pool=2)
    ),
    "an offer without the attestation": Planted(
        plants.offered_without_proof, killed(releasing("run"), TWO, before=serves_two)
    ),
    "a machine registered for a decided provision": Planted(
        plants.registered_without_its_provision,
        raced(provisioning("run", 2), releasing("run"), TWO, delay=0.5, world=slow_engines),
    ),
    "an end without a debt": Planted(
        plants.expired_without_a_debt, played(provisioning("run", 2), TWO, pool=2, before=one_is_mute)
    ),
    "a roll back without an abort": Planted(
        plants.rolled_back_without_an_abort,
        played(provisioning("run", 4), {"run": 4}, pool=2, world=lambda: World(settings=SETTINGS, capacity=3)),
    ),
    "members rolled forward though it was aborted": Planted(
        plants.rolled_forward_though_aborted, killed(provisioning("run", 2), TWO, pool=2)
    ),
    "a claim of unknown outcome forgotten": Planted(
        plants.lost_answers_are_failures,
        played(losing(Loses("claim", Failure.LOST_ANSWER), provisioning("run", 2)), TWO, pool=2),
    ),
    "an instance handed out twice": Planted(
        plants.handed_out_twice, played(counts_collisions, pool=2, before=doubled_tickets)
    ),
    "no last look": Planted(plants.no_last_look, played(provisioning("run", 2), TWO, pool=2, before=no_tickets)),
    "a fallback that is not counted": Planted(
        lambda: plants.fallback_does_not_fit(existing_members), played(asks_for_spot_twice, TWO, world=no_spot)
    ),
    "a fallback that is not picked up": Planted(
        lambda: plants.fallback_does_not_fit(pickup, memory_records),
        played(provisioning("run", 1, usage_class=UsageClass.SPOT), pool=1, world=no_spot),
    ),
    "an answer that counts members which were lost": Planted(
        plants.lost_members_count, played(counts_what_runs, TWO, pool=2, before=one_is_lost)
    ),
    "a revocation without its intent written first": Planted(
        plants.revoked_without_the_intent,
        killed(provisioning("run", 4), {"run": 3}, pool=4, before=one_is_lost_for_good, world=slow_engines),
    ),
    "a release without its intent written first": Planted(
        plants.released_without_the_intent, killed(releasing("run"), TWO, before=serves_two)
    ),
    "an end that is done before the machine is gone": Planted(
        plants.done_before_the_machine_is_gone, played(provisioning("run", 2), TWO, pool=2, before=one_is_mute)
    ),
    "surplus that runs": Planted(plants.surplus_runs, played(provisioning("run", 2), TWO, pool=4, world=slow_runners)),
    "a provision settled without carrying it out": Planted(
        plants.settled_without_carrying_out, killed(provisioning("run", 2), TWO, pool=2)
    ),
    "claims that expire under a live provision": Planted(
        plants.claims_expire_before_their_provision,
        raced(provisioning("run", 4), refreshing, {"run": 4}, delay=2.0, pool=2, world=slow_machines),
    ),
    "a release that leaves provisions open": Planted(
        plants.released_runs_stay_open, raced(provisioning("run", 2), releasing("run"), TWO, delay=0.05, pool=2)
    ),
}


def findings(check: Check) -> Broken:
    try:
        return check()
    except Exception as error:  # the memory engine asserts what a schema would refuse
        return [repr(error)]


@pytest.mark.parametrize("name", PLANTED)
def test_the_code_as_it_is_passes(name: str) -> None:
    assert findings(PLANTED[name].check) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str) -> None:
    with PLANTED[name].plant():
        assert findings(PLANTED[name].check), f"not noticed: {name}"
