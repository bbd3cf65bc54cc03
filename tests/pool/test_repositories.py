"""The first sight of a repository, and what a run inherits by it."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from builders import needs
from bullpen.config import Settings, Trust
from bullpen.errors import Conflict, PermissionDenied, Unavailable
from bullpen.model.repository import Repository
from bullpen.model.ticket import Requirements
from bullpen.pool import repositories
from bullpen.pool.change_log import with_change_log
from bullpen.ports import Ports
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults, requests, steps

BY = "a test"
OWN_PULL_REQUESTS = Settings(trust=Trust(inherits={"acme/web": ("acme/web#pull-request",)}))


async def inherited(ports: Ports, domain: str, settings: Settings | None = None, **changed: Any) -> set[str]:
    asked: Requirements = needs(trust_domain=domain, **changed)
    found = await repositories.with_inherited(ports, settings or Settings(), asked, BY)
    assert replace(found, inherits=()) == replace(asked, inherits=()), "nothing else changes"
    return {*found.inherits}


def first_id(world: World, name: str = "acme/web") -> int:
    return world.memory.tables.repositories[f"repository:{name}"].ci_id


# ---- first sight


async def test_the_first_run_of_a_repository_inherits_its_bare_name() -> None:
    async with a_world() as world:
        assert await inherited(world.ports(), "acme/web/42") == {"acme/web"}
        assert first_id(world) == 42


async def test_a_run_of_a_repository_that_was_created_again_inherits_nothing() -> None:
    async with a_world() as world:
        await inherited(world.ports(), "acme/web/42#pull-request")
        assert await inherited(world.ports(), "acme/web/43", OWN_PULL_REQUESTS) == set()
        assert await inherited(world.ports(), "acme/web/43#pull-request", OWN_PULL_REQUESTS) == set()
        assert first_id(world) == 42


async def test_a_repository_that_is_renamed_keeps_its_id_and_starts_without_an_inheritance() -> None:
    async with a_world() as world:
        await inherited(world.ports(), "acme/web/42")
        assert await inherited(world.ports(), "acme/site/42") == {"acme/site"}


async def test_bare_names_of_the_settings_are_completed() -> None:
    async with a_world() as world:
        expected = {"acme/web", "acme/web#pull-request", "acme/web/42#pull-request"}
        assert await inherited(world.ports(), "acme/web/42", OWN_PULL_REQUESTS) == expected


async def test_a_bare_domain_means_the_repository_that_was_seen() -> None:
    async with a_world() as world:
        ports = world.ports()
        assert await inherited(ports, "acme/web") == set()
        assert world.memory.tables.repositories == {}, "a bare name shows no repository"
        await repositories.see(ports, "acme/web", 42, BY)
        assert await inherited(ports, "acme/web") == {"acme/web/42"}


async def test_what_the_requirements_inherit_already_stays() -> None:
    async with a_world() as world:
        assert await inherited(world.ports(), "acme/web/42", inherits=("team",)) == {"acme/web", "team"}


async def test_a_domain_that_is_no_repositorys_costs_no_request() -> None:
    async with a_world() as world:
        ports = world.ports()
        before = requests(ports).copy()
        assert await inherited(ports, "default") == set()
        assert requests(ports) == before


async def test_a_repository_that_is_known_costs_one_read() -> None:
    async with a_world() as world:
        ports = world.ports()
        await inherited(ports, "acme/web/42", OWN_PULL_REQUESTS)
        before = requests(ports).copy()
        await inherited(ports, "acme/web/42", OWN_PULL_REQUESTS)
        assert requests(ports) - before == {"records.repositories": 1}


# ---- several at once, and again


async def test_of_two_processes_that_see_two_ids_at_once_exactly_one_decides() -> None:
    for _ in range(20):
        async with a_world() as world:
            seen = await asyncio.gather(*(inherited(world.ports(), f"acme/web/{id}") for id in (42, 43)))
            assert sorted(map(sorted, seen)) == [[], ["acme/web"]]
            winner = first_id(world)
            assert seen[winner - 42] == {"acme/web"}


async def test_a_sight_whose_answer_was_lost_is_found_and_not_repeated() -> None:
    async with a_world() as world:
        ports = world.ports()
        faults(ports).fail_next("records.apply", Failure.LOST_ANSWER)
        with pytest.raises(Unavailable):
            await repositories.see(ports, "acme/web", 42, BY)
        assert (await repositories.see(ports, "acme/web", 42, BY)).ci_id == 42
        assert steps(world, "repository:acme/web") == ["see"]


async def test_a_repository_that_was_created_again_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with a_world() as world:
        ports = replace(world.ports(), records=with_change_log(world.ports().records))
        for domain in ("acme/web/42", "acme/web/43", "acme/web/42", "acme/web/43", "acme/web/43#pull-request"):
            await inherited(ports, domain)
        (line,) = [record.getMessage() for record in caplog.records]
        assert "repository was created again" in line
        assert "acme/web means the repository with the id 42; the one with the id 43 inherits nothing of it" in line
        assert steps(world, "repository:acme/web") == ["see", "meet"]


# ---- what hinders it


async def test_without_permission_a_run_inherits_only_what_is_named_in_full(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(trust=Trust(inherits={"acme/web/42": ("team",), "acme/web": ("other",)}))
    async with a_world() as world:
        ports = world.ports()

        async def refuse(names: object) -> dict[str, Repository]:
            raise PermissionDenied("not authorized to perform dynamodb:BatchGetItem")

        ports.records.repositories = refuse  # type: ignore[method-assign]
        assert await inherited(ports, "acme/web/42", settings) == {"team"}
        assert "bare names of repositories are not completed" in caplog.text
        assert "bullpen iam-policy" in caplog.text


async def test_a_conflict_that_shows_no_record_is_raised() -> None:
    async with a_world() as world:
        ports = world.ports()

        async def conflict(*changes: object, checks: object = ()) -> list[Any]:
            raise Conflict("found no record")

        ports.records.apply = conflict  # type: ignore[method-assign]
        with pytest.raises(Conflict):
            await repositories.see(ports, "acme/web", 42, BY)
