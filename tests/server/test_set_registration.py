"""Agents that register for a scale set: old ones are refused, and what the set does not take any more is given back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from bullpen.config import Engines, Github, Settings
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import BullpenError, ConfigError, PermissionDenied
from bullpen.model.activity import Activity, Listening
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, Instance
from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet, SetJob
from bullpen.model.signal import Heartbeat
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import Change
from bullpen.ports import RegistrationCredentials
from bullpen.server.routes.registration import TOO_OLD
from server.fixtures import INSTANCE, House, a_house
from set_builders import NAME, claimed_for_set, correct, engaged, mark_missing, ready, retire, rules

LABEL = f"set:{NAME}"
SETTINGS = Settings(engines=Engines(ci="github"), github=Github(scope="octo", token="t"))
Walk = list[Change[Instance]]


class SetCI:
    """A CI that registers runners of sets for as long as it is told so."""

    def __init__(self) -> None:
        self.takes = True
        self.fails: BullpenError | None = None
        self.asked: list[tuple[str, str, str]] = []

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        self.asked.append((name, label, round))
        if self.fails is not None:
            raise self.fails
        return RegistrationCredentials(f"bullpen.{name}.{round}.1", label, jit="J", id=7) if self.takes else None


@asynccontextmanager
async def serving(home: Path, walk: Callable[..., Walk] = engaged) -> AsyncIterator[tuple[House, SetCI]]:
    """A service of a pool with a ready set; INSTANCE serves it."""
    ports = Memory().ports(LoopClock(), SeededChance())
    await ports.records.apply_each([*ready(), *walk(INSTANCE)])
    ci: Any = SetCI()
    async with a_house(home, settings=SETTINGS, ports=replace(ports, ci=ci)) as house:
        yield house, ci


async def instance(house: House) -> Instance:
    return (await house.ports.records.instances([INSTANCE]))[INSTANCE]


async def register(house: House, **more: Any) -> httpx.Response:
    body = {"runId": LABEL, "round": (await instance(house)).round, "knowsSets": True} | more
    return await house.ask("PUT", f"/v1/agents/{INSTANCE}/registration", INSTANCE, json=body)


async def beats(house: House, activity: str) -> None:
    await house.ports.signals.beat(Heartbeat(INSTANCE, house.ports.clock.now(), 1, activity))


async def test_an_agent_that_knows_sets_gets_its_registration(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, ci):
        answer = (await register(house)).json()
        assert (answer["registered"], answer["jit"], answer["id"]) == (True, "J", 7)
        assert [one[1] for one in ci.asked] == [LABEL]


async def test_an_agent_from_before_sets_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, ci):
        answer = (await register(house, knowsSets=False)).json()
        assert answer == {"registered": False, "refusal": f"{LABEL}: {TOO_OLD}"}
        assert ci.asked == []


async def retired(house: House) -> str:
    (found,) = (await house.ports.records.scale_sets()).values()
    await house.ports.records.apply(retire(found))
    return f"{LABEL} is retiring"


async def missing(house: House) -> str:
    (found,) = (await house.ports.records.scale_sets()).values()
    await house.ports.records.apply(mark_missing(found))
    return f"{LABEL} is wanted"


async def in_another_domain(house: House) -> str:
    (found,) = (await house.ports.records.scale_sets()).values()
    await house.ports.records.apply(correct(found, rules=rules(trust_domain="octo/other")))
    return f"{LABEL} has the trust domain octo/other now"


async def of_another_class(house: House) -> str:
    (found,) = (await house.ports.records.scale_sets()).values()
    await house.ports.records.apply(correct(found, rules=replace(found.rules, usage_class=UsageClass.SPOT)))
    return f"{LABEL} has the usage class spot now"


async def of_an_older_image(house: House) -> str:
    small = msgspec.structs.replace(SETTINGS.classes["small"], image_generation=2)
    house.context.settings = msgspec.structs.replace(SETTINGS, classes={"small": small})
    return "image generation 1 is outdated"


CHANGES = [retired, missing, in_another_domain, of_another_class, of_an_older_image]


@pytest.mark.parametrize("walk", [engaged, claimed_for_set])
@pytest.mark.parametrize("change", CHANGES)
async def test_an_instance_that_its_set_does_not_take_any_more_is_given_back_between_two_jobs(
    tmp_path: Path, change: Callable[[House], Any], walk: Callable[..., Walk]
) -> None:
    async with serving(tmp_path, walk) as (house, ci):
        before, why, ci.takes = await instance(house), await change(house), False
        assert (await register(house)).json() == {"registered": False}
        after = await instance(house)
        assert (after.state, after.run_id, after.attested) == (IDLE, "", False)
        assert after.round != before.round
        assert after.owes is not None
        assert (await house.ports.records.stories([INSTANCE]))[INSTANCE][-1].why == why


async def test_an_instance_that_executes_a_job_is_not_given_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as (house, ci):
        await retired(house)
        ci.takes = False
        await beats(house, Activity("octo/repo", "1", 1, LABEL, "r", "build").text())
        assert (await register(house)).json() == {"registered": False}
        assert (await instance(house)).state is RUNNING
        await house.ports.signals.beat(
            Heartbeat(INSTANCE, house.ports.clock.now(), 2, Listening("bullpen.x.1", 7, "d1").text())
        )
        await register(house)
        assert (await instance(house)).state is IDLE


@pytest.mark.parametrize("late", [{"round": "0a1b2c3d"}, {}])
async def test_an_instance_that_its_set_takes_or_that_has_moved_on_stays_as_it_is(
    tmp_path: Path, late: dict[str, str]
) -> None:
    async with serving(tmp_path, claimed_for_set) as (house, ci):
        if late:
            await retired(house)
        ci.takes, before = False, await instance(house)
        assert (await register(house, **late)).json() == {"registered": False}
        assert await instance(house) == before
        assert before.state is CLAIMED


@pytest.mark.parametrize("walk", [engaged, claimed_for_set])
@pytest.mark.parametrize("error", [PermissionDenied("the token has expired"), ConfigError("the key cannot be read")])
async def test_a_refusal_by_github_is_no_refusal_of_the_machine_and_its_agent_asks_again(
    tmp_path: Path, error: BullpenError, walk: Callable[..., Walk]
) -> None:
    """An agent takes any `refusal` for its own end."""
    async with serving(tmp_path, walk) as (house, ci):
        ci.fails, before = error, await instance(house)
        assert (await register(house)).json() == {"registered": False}
        assert await instance(house) == before
        ci.fails = None
        assert (await register(house)).json()["registered"]


async def test_a_refused_job_raises_an_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path) as (house, _):
        assert (await register(house, refusedJob="job build of evil/repo:\x1b[2J why")).json()["registered"]
    (alarm,) = [one for one in caplog.records if "job of a scale set refused" in one.message]
    assert (alarm.levelname, INSTANCE in alarm.message, LABEL in alarm.message) == ("ERROR", True, True)
    assert "evil/repo" in alarm.message
    assert "\x1b" not in alarm.message


async def test_the_alarm_about_a_refused_job_names_the_setting_to_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = ServedSet(NAME, SetEvents.TRUSTED, (SetRepository("acme/widgets", 7),))
    about = SetJob("acme/a-repository-with-a-rather-long-name", "8", "push", "refs/heads/main", "octocat", "runner")
    why = rules.refusal(about, "runner")
    async with serving(tmp_path) as (house, _):
        await register(house, refusedJob=f"job build of {about.repository} run=9000000010 attempt=1: {why}")
    (alarm,) = [one for one in caplog.records if "job of a scale set refused" in one.message]
    assert why in alarm.message
    assert "[github.scale-sets]" in why
