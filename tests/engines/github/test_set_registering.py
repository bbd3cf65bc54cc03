"""Agents of scale sets that ask for registrations: the set's record decides, and no name is used twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest

from builders import release
from bullpen.config import Engines, Github, ResourceClass, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.made_once import UNFETCHED
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    NotFound,
    PermissionDenied,
    Refused,
    Throttled,
    Unavailable,
)
from bullpen.model.instance import Instance
from bullpen.model.registration_failure import FIRST_PAUSE, LONGEST_PAUSE
from bullpen.model.scale_set import ScaleSet, SetEvents
from bullpen.model.served_set import ServedSet
from bullpen.model.transition import Change
from bullpen.ports import JitConfiguration, Ports, RegistrationCredentials, Removal, SetRunner
from set_builders import NAME, REPOSITORY, claimed_for_set, correct, engaged, found, mark_missing, ready, retire, rules

LABEL = f"set:{NAME}"


@dataclass
class SlowSets:
    """Scale sets that take `pause` seconds to make a registration. `fails` is raised instead, after it was `made`."""

    pause: float = 0.0
    fails: list[BullpenError] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    asked: list[tuple[int, str]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def configure(self, set_id: int, runner: str, work_folder: str) -> JitConfiguration:
        self.asked.append((set_id, runner))
        await asyncio.sleep(self.pause)
        if runner in self.made:
            raise Conflict(f"a runner named {runner} exists")
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.fails and isinstance(self.fails[0], NotFound | PermissionDenied | ConfigError | Conflict):
            raise self.fails.pop(0)
        self.made.append(runner)
        if self.fails:
            raise self.fails.pop(0)
        return JitConfiguration(SetRunner(len(self.made), runner, set_id), f"J{len(self.made)}")

    async def runner_named(self, name: str) -> SetRunner | None:
        return SetRunner(self.made.index(name) + 1, name, 7) if name in self.made else None

    async def remove_runner(self, id: int) -> Removal:
        self.removed.append(id)
        return Removal.REMOVED


@asynccontextmanager
async def scene(
    slow: SlowSets, walk: list[Change[Instance]] | None = None, classes: dict[str, ResourceClass] | None = None
) -> AsyncIterator[tuple[GithubCI, Ports]]:
    """A pool whose set is ready; its instance i-1 is claimed for the set."""
    github = Github(scope="octo", token="t")
    settings = Settings(engines=Engines(ci="github"), github=github, classes=classes or Settings().classes)
    ports = Memory().ports(LoopClock(), SeededChance())

    def no_api(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=[] if "releases" in request.url.path else {"total_count": 0, "runners": []})

    await ports.records.apply_each([*ready(), *(claimed_for_set() if walk is None else walk)])
    async with aclosing(GithubClient(settings.github, ports.clock, httpx.MockTransport(no_api))) as hub:
        sets: Any = slow
        yield GithubCI(hub, settings, ports.records, ports.clock, Releases(hub, ports.clock), sets), ports


async def instance(ports: Ports) -> Instance:
    return (await ports.records.instances(["i-1"]))["i-1"]


async def scale_set(ports: Ports) -> ScaleSet:
    return (await ports.records.scale_sets())[NAME]


async def asks(ci: GithubCI, ports: Ports, label: str = LABEL) -> RegistrationCredentials | None:
    return await ci.register("i-1", label, (await instance(ports)).round)


@pytest.mark.parametrize("walk", [claimed_for_set, engaged])
async def test_an_instance_that_serves_a_ready_set_gets_a_registration_with_the_set_s_rules(
    walk: Callable[[], list[Change[Instance]]],
) -> None:
    slow = SlowSets()
    async with scene(slow, walk()) as (ci, ports):
        given = await asks(ci, ports)
    assert given is not None
    assert (given.label, given.jit, given.id, given.token) == (LABEL, "J1", 1, "")
    assert given.serves == ServedSet(NAME, SetEvents.ANY, (REPOSITORY,))
    assert slow.asked == [(7, given.runner)]


async def retired(ports: Ports) -> None:
    await ports.records.apply(retire(await scale_set(ports)))


async def missing(ports: Ports) -> None:
    await ports.records.apply(mark_missing(await scale_set(ports)))


async def in_another_domain(ports: Ports) -> None:
    await ports.records.apply(correct(await scale_set(ports), rules=rules(trust_domain="octo/other")))


async def released(ports: Ports) -> None:
    await ports.records.apply(release(await instance(ports), run_id=LABEL))


@pytest.mark.parametrize("change", [retired, missing, in_another_domain, released])
async def test_an_instance_that_the_set_does_not_take_any_more_gets_no_registration(
    change: Callable[[Ports], Awaitable[None]],
) -> None:
    slow = SlowSets()
    async with scene(slow, engaged()) as (ci, ports):
        round = (await instance(ports)).round
        await change(ports)
        assert await ci.register("i-1", LABEL, round) is None
    assert slow.asked == []


@pytest.mark.parametrize("change", [retired, missing, in_another_domain, released])
async def test_a_registration_whose_reason_goes_away_while_it_is_made_is_removed_again(
    change: Callable[[Ports], Awaitable[None]],
) -> None:
    slow = SlowSets(pause=1.0)
    async with scene(slow, engaged()) as (ci, ports):
        slow.meanwhile = lambda: change(ports)
        assert await asks(ci, ports) is None
    assert slow.removed == [1]


async def test_an_instance_of_an_older_image_gets_no_registration() -> None:
    slow, newer = SlowSets(), {"small": msgspec.structs.replace(Settings().classes["small"], image_generation=2)}
    async with scene(slow, engaged(), newer) as (ci, ports):
        assert await asks(ci, ports) is None
    assert slow.asked == []


async def test_no_two_registrations_of_an_instance_have_the_same_name() -> None:
    slow = SlowSets()
    async with scene(slow) as (ci, ports):
        given = [await asks(ci, ports) for _ in range(4)]
    assert len({one.runner for one in given if one is not None}) == 4
    assert len(slow.asked) == 4  # none was refused for its name


async def test_a_name_that_another_process_has_taken_is_changed() -> None:
    slow = SlowSets()
    async with scene(slow) as (first, ports):
        given = await asks(first, ports)
        assert given is not None
        first._sets._numbers.clear()  # as in another process, within the same second
        again = await asks(first, ports)
    assert again is not None
    assert again.runner != given.runner
    assert len(slow.asked) == 3


async def test_after_a_lost_answer_the_next_name_is_taken_and_the_lost_registration_is_removed() -> None:
    slow = SlowSets(fails=[Unavailable("no answer")])
    async with scene(slow) as (ci, ports):
        with pytest.raises(Unavailable):
            await asks(ci, ports)
        given = await asks(ci, ports)
        assert given is not None
        assert slow.made[1:] == [given.runner]
        await ci.registrations()
    assert slow.removed == [1]


async def test_a_set_that_github_does_not_have_any_more_is_refused_until_it_is_created_again() -> None:
    async with scene(SlowSets(fails=[NotFound("scale set 7 does not exist")])) as (ci, ports):
        with pytest.raises(Refused, match="it is created again"):
            await asks(ci, ports)
        with pytest.raises(Refused, match="it is created again"):  # without a call
            await asks(ci, ports)
        assert ci.failing(LABEL) is None
        (gone,) = (await ports.records.scale_sets()).values()
        (missing,) = await ports.records.apply(mark_missing(gone))
        assert isinstance(missing, ScaleSet)
        await ports.records.apply(found(missing, ci_id=8))
        assert await asks(ci, ports) is not None


async def test_what_was_prepared_with_the_claim_is_there_when_the_agent_asks() -> None:
    slow, loop = SlowSets(pause=2.0), asyncio.get_running_loop()
    async with scene(slow) as (ci, ports):
        ci.prepare("i-1", LABEL, (await instance(ports)).round)
        await asyncio.sleep(2)
        began = loop.time()
        given = await asks(ci, ports)
        assert (given is not None and given.jit, loop.time() - began) == ("J1", 0.0)
        given = await asks(ci, ports)
    assert given is not None
    assert given.jit == "J2"


async def test_an_agent_that_asks_while_its_registration_is_prepared_gets_the_same_one() -> None:
    slow = SlowSets(pause=2.0)
    async with scene(slow) as (ci, ports):
        ci.prepare("i-1", LABEL, (await instance(ports)).round)
        await asyncio.sleep(0.5)
        given = await asks(ci, ports)
    assert given is not None
    assert slow.made == [given.runner]


async def test_what_was_prepared_for_no_set_or_in_vain_asks_nothing() -> None:
    slow = SlowSets()
    async with scene(slow) as (ci, ports):
        ci.prepare("i-1", "4711", (await instance(ports)).round)
        ci.prepare("i-1", LABEL, "an earlier round")
        await asyncio.sleep(1)
    assert slow.asked == []


async def test_what_was_prepared_and_never_fetched_is_removed() -> None:
    slow = SlowSets()
    async with scene(slow) as (ci, ports):
        ci.prepare("i-1", LABEL, (await instance(ports)).round)
        await asyncio.sleep(UNFETCHED - 1)
        await ci.registrations()
        assert slow.removed == []
        await asyncio.sleep(1)
        await ci.registrations()
        assert slow.removed == [1]
        given = await asks(ci, ports)
    assert given is not None
    assert given.jit == "J2"


@pytest.mark.parametrize(
    ("error", "lasts"),
    [
        (Unavailable("GitHub is away"), FIRST_PAUSE),
        (Throttled("a pause is asked for", retry_after=300.0), 300.0),
    ],
)
async def test_a_call_without_an_answer_counts_until_a_registration_succeeds_or_its_pause_is_over(
    error: BullpenError, lasts: float
) -> None:
    async with scene(SlowSets(fails=[error, error])) as (ci, ports):
        assert ci.failing(LABEL) is None
        with pytest.raises(BullpenError):
            await asks(ci, ports)
        assert_fails(ci, str(error))
        await asyncio.sleep(lasts - 0.1)
        assert_fails(ci, str(error))
        await asyncio.sleep(0.1)
        assert ci.failing(LABEL) is None
        with pytest.raises(BullpenError):
            await asks(ci, ports)
        assert_fails(ci, str(error))
        assert await asks(ci, ports) is not None
        assert ci.failing(LABEL) is None


REFUSALS = [
    PermissionDenied("the token may not do this", remedy="Grant it that permission."),
    NotFound("there is no such set"),
    ConfigError("the key cannot be read"),
]


@pytest.mark.parametrize("error", REFUSALS)
async def test_after_a_refusal_one_agent_asks_github_after_each_pause_which_grows(error: BullpenError) -> None:
    slow = SlowSets(fails=[error] * 100)
    async with scene(slow) as (ci, ports):
        for _ in range(3600):
            with pytest.raises((Refused, ConfigError)):
                await asks(ci, ports)
            await asyncio.sleep(1)
        assert 10 <= len(slow.asked) <= 16  # after 30, 60, 120 and 240 s, and then every 300 s
        if isinstance(error, NotFound):  # the set that is created in its place is not refused
            assert ci.failing(LABEL) is None
        else:
            assert_fails(ci, str(error))
        slow.fails.clear()
        await asyncio.sleep(LONGEST_PAUSE)
        assert await asks(ci, ports) is not None
        assert ci.failing(LABEL) is None
        assert await asks(ci, ports) is not None


async def test_two_agents_that_ask_after_a_pause_make_one_attempt_of_a_refused_registration() -> None:
    slow = SlowSets(pause=1.0, fails=[REFUSALS[0]])
    walk = [*claimed_for_set("i-1"), *claimed_for_set("i-2")]
    async with scene(slow, walk) as (ci, ports):
        with pytest.raises(Refused):
            await asks(ci, ports)
        await asyncio.sleep(FIRST_PAUSE)
        rounds = {id: one.round for id, one in (await ports.records.instances(["i-1", "i-2"])).items()}
        calls = [ci.register(id, LABEL, round) for id, round in rounds.items()]
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(first, RegistrationCredentials)
        assert isinstance(second, Refused)
        assert len(slow.asked) == 2
        assert await ci.register("i-2", LABEL, rounds["i-2"]) is not None


async def test_a_refusal_is_logged_once_with_its_remedy(caplog: pytest.LogCaptureFixture) -> None:
    async with scene(SlowSets(fails=[REFUSALS[0]] * 9)) as (ci, ports):
        for _ in range(600):
            with pytest.raises(Refused):
                await asks(ci, ports)
            await asyncio.sleep(1)
        failure = ci.failing(LABEL)
    assert failure is not None
    assert failure.why == "the token may not do this; Grant it that permission."
    (said,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert failure.why in said.getMessage()
    assert NAME in said.getMessage()


async def test_a_set_whose_registrations_are_refused_does_not_stop_those_of_another() -> None:
    async with scene(SlowSets(fails=[REFUSALS[0]])) as (ci, ports):
        with pytest.raises(Refused):
            await asks(ci, ports)
        assert ci.failing("set:bullpen-other") is None


def assert_fails(ci: GithubCI, why: str) -> None:
    failure = ci.failing(LABEL)
    assert failure is not None
    assert why in failure.why
