"""Sets of the settings at the simulated GitHub: made, corrected, retired; and what an operator is told who must act."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bullpen.config import ScaleSetSettings, Settings
from bullpen.engines.memory import Memory
from bullpen.engines.system import SystemClock
from bullpen.ports import Ports
from bullpen.scale_sets.desired import DesiredSets, SetReport
from bullpen.wiring import on_github
from engines.github.places import settings_of
from fakes.github.hub import FakeGithub

pytestmark = pytest.mark.real_loop

OF_ACME = {"events": "trusted", "trust_domain": "acme", "repositories": ("acme/widgets",)}


def with_set(github: FakeGithub, of_set: dict[str, Any] | None, **hub: Any) -> Settings:
    sets = {} if of_set is None else {"medium": ScaleSetSettings(**of_set)}
    return settings_of(github, scale_sets=sets, **{"scope": "acme", **hub})


@asynccontextmanager
async def engine(settings: Settings, memory: Memory) -> AsyncIterator[Ports]:
    async with on_github(settings, memory.ports(SystemClock())) as ports:
        yield ports


async def pass_over(settings: Settings, memory: Memory) -> SetReport:
    async with engine(settings, memory) as ports:
        return await DesiredSets(ports, settings, by="test").run_once()


def shown(github: FakeGithub) -> list[tuple[str, int, list[str], bool]]:
    return [(one.name, one.group, list(one.labels), one.disable_update) for one in github.sets.all()]


async def test_a_set_is_made_moved_and_deleted(github: FakeGithub) -> None:
    group, memory = github.add_group("acme", "builders"), Memory()
    assert (await pass_over(with_set(github, OF_ACME), memory)).failures == {}
    (stored,) = memory.tables.scale_sets.values()
    labels = ["bullpen-medium", stored.mark]
    assert shown(github) == [("bullpen-medium", 1, labels, True)]
    report = await pass_over(with_set(github, {**OF_ACME, "runner_group": "builders"}), memory)
    assert report.failures == {}
    assert shown(github) == [("bullpen-medium", group.id, labels, True)]
    assert (await pass_over(with_set(github, {**OF_ACME, "runner_group": "builders"}), memory)).actions == []
    await pass_over(with_set(github, None), memory)
    assert shown(github) == []


def repositories_of(memory: Memory) -> dict[str, int]:
    (one,) = memory.tables.scale_sets.values()
    return {found.name: found.id for found in one.rules.repositories}


async def test_a_set_has_the_ids_of_its_repositories_also_after_one_was_created_again(github: FakeGithub) -> None:
    memory, first = Memory(), github.add_repository("acme/gadgets")
    settings = with_set(github, {**OF_ACME, "repositories": ("acme/gadgets", "acme/absent")})
    assert (await pass_over(settings, memory)).failures == {}
    assert repositories_of(memory) == {"acme/gadgets": first.id, "acme/absent": 0}
    github.add_repository("acme/gadgets")
    github.add_repository("acme/absent")
    assert (await pass_over(settings, memory)).failures == {}
    assert repositories_of(memory)["acme/gadgets"] == first.id
    assert repositories_of(memory)["acme/absent"] > first.id


async def test_a_group_that_does_not_exist_is_named_with_its_setting(github: FakeGithub) -> None:
    report = await pass_over(with_set(github, {**OF_ACME, "runner_group": "closed"}), Memory())
    error = report.failures["bullpen-medium"]
    assert str(error) == "github.scale-sets.medium: acme has no runner group 'closed'"
    assert "github.scale-sets.NAME.runner-group or github.runner-group" in error.remedy


async def test_credentials_without_the_permission_are_told_which(github: FakeGithub) -> None:
    settings = with_set(github, OF_ACME, token=github.token({"actions": "write"}))
    error = (await pass_over(settings, Memory())).failures["bullpen-medium"]
    assert str(error).startswith("github.scale-sets.medium: ")
    assert 'organisation permission "Self-hosted runners: write"' in str(error)
