"""`plan` says what a provision does, and leaves everything as it is."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from bullpen.config import HistorySettings, Limits, Settings
from bullpen.errors import ConfigError
from bullpen.explain.plan import ProvisionPlan, plan
from bullpen.model.ticket import RefusalRule, UsageClass
from bullpen.model.wait import WaitCause
from bullpen.operate.pauses import pause
from bullpen.provision import Request
from bullpen.schema.plan import PlanAnswer, plan_of
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import a_world, ids, on_github, provisioned, records, released, small, with_pool
from stored_contents import of_memory


def request(world: World, run_id: str, count: int, **needs: Any) -> Request:
    partial, wait = needs.pop("allow_partial", False), needs.pop("wait", 0.0)
    return Request(run_id, count, world.settings.requirements("small", **needs), 1800.0, partial, wait=wait)


async def planned(world: World, run_id: str, count: int, **needs: Any) -> PlanAnswer:
    found = await plan(world.ports(), world.settings, request(world, run_id, count, **needs))
    return plan_of(found)


def capped(most: int, **kind: Any) -> Settings:
    return msgspec.structs.replace(small(**kind), limits=Limits(max_instances=most))


def begin(work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
    return asyncio.get_running_loop().create_task(work)


@pytest.mark.parametrize("pool", [0, 1, 3])
async def test_a_plan_is_what_a_provision_does(pool: int) -> None:
    async with a_world() as world:
        if pool:
            await with_pool(world, pool)
        found = await planned(world, "run", 2)
        outcome = await provisioned(world, "run", 2)
        assert len(found.would_claim) == outcome.selected
        assert (found.would_launch.count if found.would_launch else 0) == outcome.created
        assert {one.instance_id for one in found.would_claim} <= {one.id for one in records(world)}
        assert found.blocked_by is None


async def test_a_plan_changes_no_record_no_queue_and_no_machine() -> None:
    async with a_world(settings=capped(3, idle_target=1)) as world:
        await with_pool(world, 2, trust_domain="acme/web/42")
        await provisioned(world, "holder", 1)
        before = of_memory(world.memory)
        for count, needs in ((1, {}), (2, {"trust_domain": "acme/web/43"}), (3, {"usage_class": UsageClass.SPOT})):
            await planned(world, "run", count, **needs)
        assert of_memory(world.memory) == before


async def test_a_plan_counts_what_serves_the_run_already() -> None:
    async with a_world() as world:
        first = await provisioned(world, "run", 1)
        found = await planned(world, "run", 3)
        assert found.serving == ids(first)
        assert found.would_launch is not None
        assert found.would_launch.count == 2


async def test_a_plan_names_the_rule_that_refuses_each_instance() -> None:
    async with a_world() as world:
        (idle,) = await with_pool(world, 1, trust_domain="a")
        found = await planned(world, "run", 1, trust_domain="b")
        assert found.would_claim == []
        assert [(one.instance_id, one.rule) for one in found.refused] == [(idle, RefusalRule.TRUST_DOMAIN)]
        assert [(one.rule, one.count) for one in found.refusals] == [(RefusalRule.TRUST_DOMAIN, 1)]


async def test_a_plan_shows_the_caps_afterwards_and_whose_place_is_needed() -> None:
    async with a_world(settings=capped(2, max_instances=2)) as world:
        (idle,) = await with_pool(world, 1, trust_domain="a")
        found = await planned(world, "run", 2, trust_domain="b")
        assert found.would_end == [idle]
        caps = {one.setting: (one.limit, one.now, one.after) for one in found.caps}
        assert caps == {"classes.small.max-instances": (2, 1, 2), "limits.max-instances": (2, 1, 2)}
        assert found.blocked_by is None
        outcome = await provisioned(world, "run", 2, trust_domain="b")
        assert outcome.succeeded


@pytest.mark.parametrize(
    ("settings", "asked", "cause"),
    [
        (capped(1), {"count": 2}, WaitCause.CAP),
        (capped(2), {"count": 2}, WaitCause.CAP),
        (capped(2), {"count": 2, "wait": 60.0}, WaitCause.CAP),
    ],
    ids=["never fits", "full", "full, and it may wait"],
)
async def test_a_plan_says_why_it_would_not_be_met(settings: Settings, asked: dict[str, Any], cause: WaitCause) -> None:
    async with a_world(settings=settings) as world:
        await provisioned(world, "holder", 1)
        found = await planned(world, "run", **asked)
        assert found.blocked_by is not None
        assert (found.blocked_by.cause, found.blocked_by.because[:24]) == (cause, "limits.max-instances is ")
        assert ("wait for up to 60 s" in found.blocked_by.next) == ("wait" in asked)
        assert not (await provisioned(world, "run", asked["count"])).succeeded


@pytest.mark.parametrize(("most", "launched"), [(4, 2), (3, 1), (2, 0)])
async def test_a_plan_that_accepts_fewer_says_how_many_it_would_get(most: int, launched: int) -> None:
    async with a_world(settings=capped(most)) as world:
        await provisioned(world, "holder", 2)
        found = await planned(world, "run", 3, allow_partial=True)
        assert (found.would_launch.count if found.would_launch else 0) == launched
        assert found.blocked_by is not None
        assert found.blocked_by.cause is WaitCause.CAP
        words = f"It would get {launched} of 3 runners" if launched else "It would fail at once"
        assert words in found.blocked_by.next
        assert {one.setting: one.after for one in found.caps} == {"limits.max-instances": 2 + launched}
        outcome = await provisioned(world, "run", 3, allow_partial=True)
        assert (len(outcome.members), outcome.succeeded) == (launched, launched > 0)


async def test_a_plan_for_the_run_of_another_repository_fails_as_its_provision_does() -> None:
    async with a_world(settings=on_github()) as world:
        await provisioned(world, "4711", 1, repository="acme/widgets")
        for ask in (planned, provisioned):
            with pytest.raises(ConfigError, match="label 4711 is taken by acme/widgets"):
                await ask(world, "4711", 1, repository="acme/api")


async def test_a_plan_in_a_paused_class_or_beside_a_provision_of_its_run_says_so() -> None:
    async with a_world(temper=lambda n: Temper(boots_in=60.0)) as world:
        task = begin(provisioned(world, "run", 1))
        await asyncio.sleep(5)
        beside = await planned(world, "run", 1)
        assert beside.blocked_by is not None
        assert beside.blocked_by.cause is WaitCause.QUEUED_BEHIND
        await task
        await pause(world.ports(), world.settings, "small", "a new image", operator="ana")
        paused = await planned(world, "other", 1)
        assert paused.blocked_by is not None
        assert paused.blocked_by.cause is WaitCause.PAUSED
        assert "a new image" in paused.blocked_by.because


async def test_a_plan_claims_what_has_attested_although_its_releaser_died() -> None:
    async with a_world() as world:
        await provisioned(world, "before", 1)
        process, _ = world.start("releaser", lambda ports: released(world, "before", ports))
        process.die_at = 40
        await process.ended()
        await asyncio.sleep(5)
        found = await planned(world, "run", 1)
        outcome = await provisioned(world, "run", 1)
        assert (len(found.would_claim), outcome.selected) == (1, 1)


async def test_a_plan_has_the_price_of_all_its_runners_or_names_the_type_without_one() -> None:
    priced = HistorySettings(prices={"sim.small": 0.25})
    async with a_world(settings=msgspec.structs.replace(small(), history=priced)) as world:
        await with_pool(world, 1)
        found = await planned(world, "run", 3)
        assert (found.price_per_hour, found.missing_prices) == (0.75, [])
    async with a_world() as world:
        await with_pool(world, 1)
        found = await planned(world, "run", 2)
        assert (found.price_per_hour, found.missing_prices) == (None, ["sim.small"])


async def test_a_plan_shows_the_idle_target_and_what_is_on_offer_afterwards() -> None:
    async with a_world(settings=small(idle_target=2)) as world:
        await with_pool(world, 2)
        found: ProvisionPlan = await plan(world.ports(), world.settings, request(world, "run", 1))
        assert (found.target.target.target, found.target.now, found.target.after) == (2, 2, 1)
