"""A set knows its repositories by their ids from its start, without a webhook."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.model.scale_set import WANTED, SetRepository
from bullpen.pool import repositories
from bullpen.ports import Ports
from bullpen.scale_sets.repository_ids import ASKED_AGAIN, RETRIED
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, requests
from scale_sets.desired_sets import desired, failure, github, has_id, hide, pass_over, record, settings

WIDGETS, GADGETS = "acme/widgets", "acme/gadgets"


def of_acme(*named: str, **changed: Any) -> Settings:
    """One set of an organisation, for these repositories."""
    fields = {"trust_domain": "products", "repositories": named, **changed}
    return settings("small", github={"scope": "acme"}, **fields)


def known(world: World) -> dict[str, int]:
    return {one.name: one.id for one in record(world).rules.repositories}


def asked(ports: Ports) -> int:
    return requests(ports)["workflows.repository_id"]


async def test_the_ids_are_known_before_the_set_exists() -> None:
    async with github() as world:
        ports = world.ports()
        faults(ports).fail_next("scale_sets.create", Failure.LOST_REQUEST)
        await failure(world, ports=ports)
        assert record(world).state is WANTED
        assert known(world) == {WIDGETS: 1001}
        assert record(world).rules.trust_domain == "acme/widgets/1001"
        assert world.memory.tables.repositories["repository:acme/widgets"].ci_id == 1001


async def test_the_ci_is_asked_once_for_each_repository_and_by_no_later_process() -> None:
    async with a_world(settings=of_acme(WIDGETS, GADGETS)) as world:
        first, second = world.ports(), world.ports()
        await pass_over(world, ports=first)
        await pass_over(world, ports=second)
        assert (asked(first), asked(second)) == (2, 0)
        assert known(world) == {WIDGETS: 1001, GADGETS: 1002}


async def test_the_id_that_a_webhook_or_a_provision_has_recorded_counts_and_the_ci_is_not_asked() -> None:
    async with github() as world:
        ports = world.ports()
        await repositories.see(ports, "Acme/Widgets", 7, by="webhook")
        await pass_over(world, ports=ports)
        assert known(world) == {WIDGETS: 7}
        assert asked(ports) == 0


async def test_a_repository_that_is_created_again_under_the_name_does_not_take_its_place() -> None:
    async with github() as world:
        await pass_over(world)
        has_id(world, 2002)
        assert await pass_over(world) == []
        assert known(world) == {WIDGETS: 1001}
        # Nor does it in a set that is described only now.
        both = settings("small", "late")
        await pass_over(world, both)
        assert record(world, "bullpen-late").rules.repositories == (SetRepository(WIDGETS, 1001),)


async def test_an_operator_admits_it_by_its_id() -> None:
    async with github() as world:
        await pass_over(world)
        assert await pass_over(world, settings("small", repositories=("acme/widgets/2002",))) == ["correct set"]
        assert known(world) == {WIDGETS: 2002}
        assert record(world).rules.trust_domain == "acme/widgets/2002"


async def test_a_repository_that_the_ci_does_not_show_is_known_by_its_name_and_asked_for_now_and_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_world(settings=of_acme(WIDGETS, GADGETS)) as world:
        has_id(world, 1001)
        hide(world, GADGETS)
        ports = world.ports()
        keeper = desired(world, ports=ports)
        for _ in range(5):
            assert (await keeper.run_once()).failures == {}
            await asyncio.sleep(ASKED_AGAIN / 10)
        assert known(world) == {WIDGETS: 1001, GADGETS: 0}
        assert asked(ports) == 2
        await asyncio.sleep(ASKED_AGAIN)
        await keeper.run_once()
        assert asked(ports) == 3
        (line,) = [one.getMessage() for one in caplog.records if "by its name" in one.getMessage()]
        assert "acme/gadgets does not exist, or the token may not see it" in line
        assert "OWNER/NAME/ID" in line

        has_id(world, 5)
        has_id(world, 6, GADGETS)
        await asyncio.sleep(ASKED_AGAIN)
        assert [one.what for one in (await keeper.run_once()).actions] == ["correct set"]
        assert known(world) == {WIDGETS: 1001, GADGETS: 6}


async def test_without_an_answer_no_other_repository_is_asked_for_and_the_sets_go_on() -> None:
    async with a_world(settings=of_acme(WIDGETS, GADGETS)) as world:
        ports = world.ports()
        faults(ports).fail_next("workflows.repository_id", Failure.LOST_REQUEST)
        keeper = desired(world, ports=ports)
        assert (await keeper.run_once()).failures == {}
        assert asked(ports) == 1
        assert known(world) == {WIDGETS: 0, GADGETS: 0}
        await asyncio.sleep(RETRIED)
        await keeper.run_once()
        assert known(world) == {WIDGETS: 1001, GADGETS: 1002}


async def test_a_dry_run_records_no_repository() -> None:
    async with github() as world:
        await desired(world).foresee("bullpen-small")
        assert world.memory.tables.repositories == {}


async def test_a_set_for_all_repositories_asks_for_none() -> None:
    async with a_world(settings=of_acme("*")) as world:
        ports = world.ports()
        await pass_over(world, ports=ports)
        assert asked(ports) == 0


async def test_a_set_that_was_made_before_ids_were_known_gets_them() -> None:
    async with github() as world:
        hide(world)
        await pass_over(world)
        before = record(world)
        assert before.rules.repositories == (SetRepository(WIDGETS),)
        has_id(world, 9)
        assert await pass_over(world) == ["correct set"]
        rules = replace(before.rules, repositories=(SetRepository(WIDGETS, 9),), trust_domain="acme/widgets/9")
        assert record(world).rules == rules
