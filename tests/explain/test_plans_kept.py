"""In pools of every kind, a plan is what the provision then does."""

import asyncio
from random import Random
from typing import Any

import msgspec
import pytest

from bullpen.config import Limits
from bullpen.explain.plan import plan
from bullpen.model.provision import Origin
from bullpen.model.ticket import UsageClass
from bullpen.operate.pauses import pause
from bullpen.provision import Request
from bullpen.schema.plan import PlanAnswer, plan_of
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from fixtures import a_world, provisioned, released, small
from spread_marks import mostly_slow

SEEDS = range(120)


async def a_past(world: World, random: Random) -> None:
    """Some runs have runners, some have given them back, perhaps long ago; perhaps an operator has paused the pool."""
    for n in range(random.randint(0, 4)):
        market = random.choice([UsageClass.ON_DEMAND, UsageClass.ON_DEMAND, UsageClass.SPOT])
        count, domain = random.randint(1, 2), random.choice("ab")
        outcome = await provisioned(world, f"run-{n}", count, trust_domain=domain, usage_class=market)
        if outcome.succeeded and random.random() < 0.6:
            await released(world, f"run-{n}")
        await asyncio.sleep(random.uniform(0, 20))
    if random.random() < 0.5:
        await asyncio.sleep(random.choice([5, 60, 700]))
    if random.random() < 0.08:
        await pause(world.ports(), world.settings, "", "a note", operator="ana")


async def planned_and_done(seed: int) -> None:
    random = Random(seed)
    settings = small(idle_target=random.choice([0, 1, 3]), max_instances=random.choice([0, 0, 2, 4]))
    settings = msgspec.structs.replace(settings, limits=Limits(max_instances=random.choice([2, 3, 5, 100])))
    async with a_world(settings=settings, capacity=100) as world:
        await a_past(world, random)
        run_id, count = random.choice(["new", "new", "run-0", "run-1"]), random.randint(1, 4)
        needs: dict[str, Any] = {"trust_domain": random.choice("ab"), "usage_class": random.choice([*UsageClass])}
        partial = random.random() < 0.3
        request = Request(run_id, count, settings.requirements("small", **needs), 1800.0, partial)
        found: PlanAnswer = plan_of(await plan(world.ports(), settings, request))
        outcome = await provisioned(world, run_id, count, allow_partial=partial, **needs)

        claimed = {one.instance_id for one in found.would_claim}
        launched = found.would_launch.count if found.would_launch else 0
        would_get = len(found.serving) + len(claimed) + launched
        if found.blocked_by is None:
            assert (outcome.succeeded, would_get) == (True, count), outcome.reason
        elif not outcome.succeeded:
            return
        else:
            assert partial
            assert f"It would get {len(outcome.members)} of {count} runners" in found.blocked_by.next
        assert len(outcome.members) == would_get
        selected = {one.instance.id for one in outcome.members if one.origin is Origin.SELECTED}
        assert len(selected) == len(found.serving) + len(claimed)
        assert selected >= {*found.serving}  # which of the fitting ones are claimed, the order of the tickets decides
        assert outcome.created == launched
        live = sum(one.state != "terminated" for one in world.memory.tables.instances.values())
        assert {one.after for one in found.caps} == {live}


@pytest.mark.parametrize("seed", mostly_slow(SEEDS, quick=10))
def test_a_plan_is_what_the_provision_does(seed: int) -> None:
    virtual_run(planned_and_done(seed), seed=seed, allow_left_behind=True)
