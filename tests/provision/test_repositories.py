"""Warm runners of a repository: who gets those with a bare name, from before ids were part of a trust domain."""

import pytest

from bullpen.config import Settings, Trust
from bullpen.model.instance import RUNNING
from fixtures import a_world, ids, provisioned, records, tickets, with_pool


@pytest.mark.parametrize("kind", ["", "#pull-request"])
async def test_the_next_run_of_a_repository_claims_runners_that_have_its_bare_name(kind: str) -> None:
    async with a_world() as world:
        warm = await with_pool(world, 2, trust_domain=f"acme/web{kind}")
        assert ids(await provisioned(world, "run", 2, trust_domain=f"acme/web/42{kind}")) == warm
        assert {one.trust_domain for one in records(world, RUNNING)} == {f"acme/web/42{kind}"}


async def test_a_repository_that_was_created_again_claims_neither_bare_runners_nor_those_of_the_first() -> None:
    settings = Settings(trust=Trust(inherits={"acme/web": ("acme/web#pull-request",)}))
    async with a_world(settings=settings) as world:
        warm = await with_pool(world, 1, trust_domain="acme/web/42")
        bare = await with_pool(world, 1, trust_domain="acme/web#pull-request")
        for domain in ("acme/web/43", "acme/web/43#pull-request"):
            outcome = await provisioned(world, f"run of {domain}", 1, trust_domain=domain)
            assert (outcome.selected, outcome.created) == (0, 1)
        assert sorted(ticket.instance_id for ticket in tickets(world)) == sorted(warm + bare)
        assert ids(await provisioned(world, "own", 2, trust_domain="acme/web/42")) == sorted(warm + bare)


async def test_a_repository_that_was_created_again_does_not_pass_runners_to_the_first() -> None:
    async with a_world() as world:
        await provisioned(world, "first", 1, trust_domain="acme/web/42")
        await with_pool(world, 1, trust_domain="acme/web/43")
        assert (await provisioned(world, "run", 1, trust_domain="acme/web/42")).created == 1


async def test_a_rule_with_bare_names_holds_for_the_repositories_that_they_mean() -> None:
    settings = Settings(trust=Trust(inherits={"acme/web#pull-request": ("acme/api",)}))
    async with a_world(settings=settings) as world:
        warm = await with_pool(world, 1, trust_domain="acme/api/7")
        assert ids(await provisioned(world, "run", 1, trust_domain="acme/web/42#pull-request")) == warm


async def test_an_operator_who_names_the_repository_alone_gets_its_runners() -> None:
    async with a_world() as world:
        warm = await with_pool(world, 1, trust_domain="acme/web/42")
        assert ids(await provisioned(world, "run", 1, trust_domain="acme/web")) == warm


async def test_runners_with_a_bare_name_that_are_given_back_stay_the_repositorys() -> None:
    async with a_world() as world:
        await provisioned(world, "first", 1, trust_domain="acme/web/42")
        warm = await with_pool(world, 1, trust_domain="acme/web")
        assert ids(await provisioned(world, "run", 1, trust_domain="acme/web/42")) == warm
