"""What the commands say where GitHub is the CI: jobs on runners, runners that are kept or left, rate limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import open_provision, running
from bullpen import one_off_calls, wiring
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.errors import Unavailable
from bullpen.model.activity import Activity
from bullpen.model.progress import Tell
from bullpen.model.provision import Origin
from bullpen.model.signal import Heartbeat
from bullpen.ports import Ports, Registration
from bullpen.ports.health import Finding, Health, Limit
from bullpen.provision.outcome import Member, Outcome, Request
from command_line import CommandLine

SETTINGS = """
[engines]
ci = "github"
[github]
scope = "acme/widgets"
token = "t"
"""
JOB = Activity("acme/widgets", "4711", 2, "4711", "bullpen.i-1.0", "build")


@pytest.fixture
def memory(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The pool that commands find, with an instance that executes a job; GitHub is not asked."""
    services = Memory()
    bullpen.write_settings(SETTINGS)

    @asynccontextmanager
    async def opened(home: Path, settings: Settings) -> AsyncIterator[Ports]:
        yield services.ports()

    async def rate_limits(settings: Settings) -> list[Limit]:
        return [Limit("core", 5000, 4321, datetime.now(UTC) + timedelta(minutes=20))]

    async def fill() -> None:
        ports = services.ports()
        await ports.records.apply(open_provision())
        for change in running("i-1"):
            await ports.records.apply(change)
        await ports.signals.beat(Heartbeat("i-1", ports.clock.now(), 1, JOB.text()))

    monkeypatch.setattr(wiring, "opened", opened)
    monkeypatch.setattr(wiring, "is_unused", lambda home, settings: False)
    monkeypatch.setattr(one_off_calls, "rate_limits", rate_limits)
    asyncio.run(fill())
    return services


def test_status_shows_the_job_on_each_runner_and_the_rate_limits_of_github(
    bullpen: CommandLine, memory: Memory
) -> None:
    out = bullpen("status").out
    assert "running, job build" in out
    assert "GitHub rate limits: core 4321 of 5000 requests left (resets in " in out
    answer = bullpen("status", "--json").answer
    assert answer["instances"][0]["job"] == {
        "repository": "acme/widgets",
        "run": "4711",
        "attempt": 2,
        "name": "build",
        "runner": "bullpen.i-1.0",
    }
    (limit,) = answer["limits"]
    assert (limit["resource"], limit["limit"], limit["remaining"]) == ("core", 5000, 4321)


def test_status_shows_the_pool_even_if_github_does_not_answer(
    bullpen: CommandLine, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(settings: Settings) -> list[Limit]:
        raise Unavailable("GitHub did not answer")

    monkeypatch.setattr(one_off_calls, "rate_limits", away)
    ran = bullpen("status", "--json")
    assert ran.code == 0
    assert ran.answer["instances"][0]["id"] == "i-1"
    assert ran.answer["limits"] == []
    assert "GitHub's rate limits are not known: GitHub did not answer" in ran.err


def test_why_shows_what_a_runner_executes(bullpen: CommandLine, memory: Memory) -> None:
    told = "i-1 is running, and executes job build of acme/widgets, run 4711, attempt 2\n"
    assert told in bullpen("why", "i-1").out
    assert bullpen("why", "i-1", "--json").answer["stories"][0]["job"]["name"] == "build"


def test_the_last_activity_of_a_dead_runner_is_not_shown(bullpen: CommandLine, memory: Memory) -> None:
    async def beat() -> None:
        ports = memory.ports()
        await ports.signals.beat(Heartbeat("i-1", ports.clock.now() - timedelta(minutes=5), 2, JOB.text()))

    asyncio.run(beat())
    assert "job build" not in bullpen("status").out
    assert "executes" not in bullpen("why", "i-1").out


def test_release_names_runners_that_are_busy(bullpen: CommandLine, memory: Memory) -> None:
    ran = bullpen("release", "--run-id", "run-1", "--json", "--set", "timings.heartbeat=0.2")
    assert ran.code == 0
    assert ran.answer["busy"] == ["i-1"]
    ran = bullpen("release", "--run-id", "run-1", "--set", "timings.heartbeat=0.2")
    assert ran.code == 0, ran.err
    assert "i-1 busy: it goes back after the job that it executes" in ran.out


def test_provision_names_runners_that_are_kept(
    bullpen: CommandLine, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def provision(
        ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell
    ) -> Outcome:
        asked.append(request)
        members = [Member(running(id)[-1].after, Origin.SELECTED) for id in ("i-1", "i-2")]
        return Outcome("4711", "p-1", 1, members=(members[0],), kept=(members[1],))

    monkeypatch.setattr("bullpen.provision.provision", provision)
    ran = bullpen("provision", "--run-id", "4711", "--count", "1")
    assert ran.out.startswith("4711: 1 of 1 runner ready")
    assert "  i-2 also kept: a job of the run has started on it\n" in ran.out
    answer = bullpen("provision", "--run-id", "4711", "--count", "1", "--json").answer
    assert [one["instanceId"] for one in answer["instances"]] == ["i-1"]
    assert [one["instanceId"] for one in answer["kept"]] == ["i-2"]
    assert asked[0].needs.repository == "acme/widgets"


def test_doctor_examines_github_without_creating_a_pool(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine_ci(settings: Settings) -> list[Finding]:
        return [Finding("github", Health.FAILED, "the token is invalid", "Set github.token.")]

    bullpen.write_settings(SETTINGS)
    monkeypatch.setattr("bullpen.cli.doctor.examine_ci", examine_ci)
    ran = bullpen("doctor")
    assert ran.code == 1
    assert "the token is invalid → Set github.token." in ran.out
    assert bullpen.left_behind == []


def test_down_names_runners_that_github_still_lists(bullpen: CommandLine, memory: Memory) -> None:
    memory.registrations["bullpen.i-1.0"] = Registration("i-1", "4711", True, runner="bullpen.i-1.0", online=False)
    ran = bullpen("down", "--json")
    assert ran.code == 0
    assert ran.answer["listed"] == ["bullpen.i-1.0"]
    told = bullpen("down").out
    assert "1 runner still listed at GitHub, until GitHub ends the job on it:\n  bullpen.i-1.0\n" in told


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ("", "no scale set is configured"),
        ('[agent]\nserve-url = "http://127.0.0.1:1"\n[github.scale-sets.small]\nevents = "any"', "bullpen-small"),
    ],
)
def test_only_a_set_of_the_settings_can_be_adopted(bullpen: CommandLine, settings: str, allowed: str) -> None:
    bullpen.write_settings(f"{SETTINGS}{settings}")
    ran = bullpen("refresh", "--adopt-set", "theirs")
    assert ran.code == 2
    assert "--adopt-set 'theirs': " in ran.err
    assert allowed in ran.err
