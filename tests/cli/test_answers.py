"""What the commands answer: the JSON fields are a promise to scripts, the text one to people."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import bullpen.provision
import bullpen.refresh
import bullpen.release
import bullpen.wiring
from builders import NOW, cleaning, on_offer, open_provision, running
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.engines.memory.queue import MemoryQueue, Messages
from bullpen.errors import FailureCause, Unavailable
from bullpen.inventory import InstanceView, Pool, Status
from bullpen.model import worker
from bullpen.model.instance import InstanceFate
from bullpen.model.progress import Tell, WorkPhase, acquiring
from bullpen.model.provision import Origin
from bullpen.model.signal import Heartbeat, Kind, Pulse, Signal, direct_key
from bullpen.ports import FailingLoop, Ports
from bullpen.provision.outcome import Discarded, Member, Outcome, Request
from bullpen.refresh import Action, Hindered
from bullpen.release import ReleaseOutcome
from bullpen.schema.status import pool_status_of
from command_line import CommandLine

PROVISION = ("provision", "--run-id", "run-1", "--count", "2")
MET = Outcome(
    run_id="run-1",
    provision_id="p-1",
    requested=2,
    members=(
        Member(running("i-1", instance_type="local.small")[-1].after, Origin.SELECTED),
        Member(running("i-2", instance_type="local.small")[-1].after, Origin.CREATED),
    ),
    discarded=(Discarded("i-3", Origin.SELECTED, "mute", InstanceFate.TERMINATED),),
    collisions=1,
    duration=1.23456,
    timings={WorkPhase.SELECT: 0.11111},
)
NOT_MET = Outcome(run_id="run-1", provision_id="p-1", requested=2, reason="no room", remedy="Ask for less.")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The pool that commands find, whatever the home."""
    services = Memory()

    @asynccontextmanager
    async def embedded(home: Path, settings: Settings) -> AsyncIterator[Ports]:
        yield services.ports()

    monkeypatch.setattr(bullpen.wiring, "embedded", embedded)
    monkeypatch.setattr(bullpen.wiring, "is_unused", lambda home, settings: False)
    return services


@pytest.fixture
def answer_provision(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Callable[[Outcome], None]:
    def answer(outcome: Outcome) -> None:
        async def provision(
            ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell
        ) -> Outcome:
            tell(acquiring(0, 2, {}))
            tell(acquiring(1, 2, {}))
            return outcome

        monkeypatch.setattr(bullpen.provision, "provision", provision)

    return answer


Answer = Callable[[Outcome], None]


def test_a_provision_that_was_met_answers_with_every_promised_field(
    bullpen: CommandLine, answer_provision: Answer
) -> None:
    answer_provision(MET)
    ran = bullpen(*PROVISION, "--json")
    assert ran.code == 0
    assert ran.answer == {
        "runId": "run-1",
        "provisionId": "p-1",
        "state": "succeeded",
        "requested": 2,
        "selected": 1,
        "created": 1,
        "durationSeconds": 1.235,
        "timings": {"select": 0.111},
        "cause": "",
        "reason": "",
        "remedy": "",
        "instances": [
            {
                "instanceId": "i-1",
                "origin": "selected",
                "state": "running",
                "resourceClass": "small",
                "instanceType": "local.small",
                "usageClass": "on-demand",
            },
            {
                "instanceId": "i-2",
                "origin": "created",
                "state": "running",
                "resourceClass": "small",
                "instanceType": "local.small",
                "usageClass": "on-demand",
            },
        ],
        "kept": [],
        "held": [],
        "discarded": [{"instanceId": "i-3", "origin": "selected", "reason": "mute", "outcome": "terminated"}],
        "collisions": 1,
    }


def test_a_provision_that_was_not_met_answers_in_the_same_form(bullpen: CommandLine, answer_provision: Answer) -> None:
    answer_provision(NOT_MET)
    ran = bullpen(*PROVISION, "--json")
    assert ran.code == 1
    answer = ran.answer
    assert (answer["state"], answer["reason"], answer["remedy"]) == ("failed", "no room", "Ask for less.")
    assert answer["instances"] == []


def test_a_provision_that_was_interrupted_exits_with_130(bullpen: CommandLine, answer_provision: Answer) -> None:
    answer_provision(replace(NOT_MET, cause=FailureCause.INTERRUPTED))
    assert bullpen(*PROVISION).code == 130


def test_progress_goes_to_stderr_and_counts_that_change_together_are_one_line(
    bullpen: CommandLine, answer_provision: Answer
) -> None:
    answer_provision(MET)
    ran = bullpen(*PROVISION)
    assert ran.err.count("bullpen: ") == 1
    assert "1 of 2 ready" in ran.err
    assert "1 of 2 ready" not in ran.out


def test_the_text_names_ready_and_discarded_runners(bullpen: CommandLine, answer_provision: Answer) -> None:
    answer_provision(MET)
    ran = bullpen(*PROVISION)
    assert ran.out.startswith("run-1: 2 of 2 runners ready in 1.24 s (1 selected, 1 created)\n")
    assert "i-1  selected  local.small  on-demand" in ran.out
    assert "  not kept, terminated: i-3 (mute)\n" in ran.err


def test_the_text_has_one_line_for_a_whole_fleet_that_was_given_back(
    bullpen: CommandLine, answer_provision: Answer
) -> None:
    fleet = tuple(Discarded(f"i-{n}", Origin.CREATED, "no room", InstanceFate.TERMINATED) for n in range(50))
    answer_provision(replace(NOT_MET, discarded=fleet))
    ran = bullpen(*PROVISION)
    assert "  not kept, terminated: i-0, i-1, i-2 and 47 more\n" in ran.err
    assert ran.err.count("no room") == 1


def test_the_text_of_a_failed_provision_has_reason_and_remedy(bullpen: CommandLine, answer_provision: Answer) -> None:
    answer_provision(NOT_MET)
    ran = bullpen(*PROVISION)
    assert ran.out == ""
    assert "bullpen: error: run-1: no room\n  → Ask for less.\n" in ran.err


def test_release_answers_with_the_outcome_of_each_instance(
    bullpen: CommandLine, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def release(
        ports: Ports, settings: Settings, run_id: str, *, stop: asyncio.Event, tell: Tell
    ) -> ReleaseOutcome:
        return ReleaseOutcome(run_id, ("i-1",), ("i-2",), ("i-3",), 0.5, ("i-4",))

    monkeypatch.setattr("bullpen.release.release", release)
    ran = bullpen("release", "--run-id", "run-1", "--json")
    assert ran.code == 0
    assert ran.answer == {
        "runId": "run-1",
        "state": "succeeded",
        "offered": ["i-1"],
        "terminated": ["i-2"],
        "pending": ["i-3"],
        "busy": ["i-4"],
        "durationSeconds": 0.5,
    }
    told = bullpen("release", "--run-id", "run-1").out
    assert "  i-4 busy: it goes back after the job that it executes\n" in told


def test_refresh_answers_with_a_reason_per_action(
    bullpen: CommandLine, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refresh(ports: Ports, settings: Settings, *, dry_run: bool, adopt: object, tell: Tell) -> list[Action]:
        return [Action("expire", "i-1", "past its threshold")] if dry_run else []

    monkeypatch.setattr("bullpen.refresh.refresh", refresh)
    ran = bullpen("refresh", "--dry-run", "--json")
    assert ran.answer == {
        "state": "succeeded",
        "dryRun": True,
        "actions": [{"what": "expire", "subject": "i-1", "reason": "past its threshold"}],
        "cause": "",
        "reason": "",
        "remedy": "",
    }
    assert bullpen("refresh", "--dry-run").out == "would expire  i-1  past its threshold\n"
    assert bullpen("refresh").out == "nothing to do\n"


@pytest.mark.usefixtures("memory")
def test_a_refresh_that_could_not_do_everything_answers_with_the_cause(
    bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refresh(ports: Ports, settings: Settings, *, dry_run: bool, adopt: object, tell: Tell) -> list[Action]:
        raise Hindered([Unavailable("EC2 is away", remedy="Later.")], [Action("expire", "i-1", "past its threshold")])

    monkeypatch.setattr("bullpen.refresh.refresh", refresh)
    ran = bullpen("refresh", "--json")
    assert ran.code == 75
    shown = [ran.answer[name] for name in ("state", "cause", "reason", "remedy")]
    assert shown == ["failed", "unavailable", "EC2 is away", "Later."]


def test_status_answers_with_every_field_of_the_record() -> None:
    one = cleaning("i-1")[-1].after
    pulse = Pulse(Signal("i-1", Kind.OK, "", one.round, 1), Heartbeat("i-1", NOW, 2))
    answer = msgspec.to_builtins(pool_status_of(Status((InstanceView(one, pulse, 4711),), (Pool("small", 1, 2),))))
    assert answer["pools"] == [
        {
            "resourceClass": "small",
            "tickets": 1,
            "ticketsIncludeExpired": False,
            "claimable": 2,
            "idleTarget": 0,
            "scheduleEntry": "",
            "nextTarget": None,
            "nextTargetAt": None,
        }
    ]
    (found,) = answer["instances"]
    assert found == {
        "id": "i-1",
        "state": "idle",
        "runId": "",
        "round": one.round,
        "threshold": one.threshold.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": one.version,
        "attested": False,
        "trustDomain": "default",
        "imageGeneration": 1,
        "resourceClass": "small",
        "instanceType": one.instance_type,
        "usageClass": "on-demand",
        "cpu": one.cpu,
        "mem": one.mem,
        "provisionId": "",
        "repository": "",
        "offeredAt": "2030-01-01T00:00:00Z",
        "owes": {"kind": "await-and-offer", "dueAt": found["owes"]["dueAt"]},
        "purgeAt": None,
        "pid": 4711,
        "signal": "UD_OK",
        "heartbeatAt": "2030-01-01T00:00:00Z",
        "leavingAt": None,
        "silent": False,
        "job": None,
        "story": [],
    }


def test_status_names_the_loops_of_services_that_keep_failing(bullpen: CommandLine, memory: Memory) -> None:
    ports = memory.ports()

    async def note() -> None:
        now = ports.clock.now()
        failing = FailingLoop("reap", now - timedelta(minutes=5), "i-1: it cannot be ended")
        await ports.health.note("serve on ci-1 (7)", [failing], now + timedelta(days=400 * 365))

    asyncio.run(note())
    told = bullpen("status").out
    assert "FAILING LOOP" in told
    assert "serve on ci-1 (7)" in told
    (one,) = bullpen("status", "--json").answer["failingLoops"]
    assert (one["loop"], one["process"], one["error"]) == ("reap", "serve on ci-1 (7)", "i-1: it cannot be ended")


@pytest.mark.parametrize("counts_expired", [False, True])
def test_status_says_if_the_count_of_tickets_includes_expired_ones(
    bullpen: CommandLine, memory: Memory, monkeypatch: pytest.MonkeyPatch, counts_expired: bool
) -> None:
    monkeypatch.setattr(MemoryQueue, "counts_expired", counts_expired)
    assert "SQS" not in bullpen("status").out
    memory.queues["small"] = Messages()
    memory.queues["small"].add("a ticket", 0.0, math.inf)
    assert ("which SQS counts until they are received" in bullpen("status").out) is counts_expired
    pools = bullpen("status", "--json").answer["pools"]
    assert {pool["ticketsIncludeExpired"] for pool in pools} == {counts_expired}


def test_status_and_why_show_when_a_machine_will_be_taken_away(bullpen: CommandLine, memory: Memory) -> None:
    ports = memory.ports()

    async def fill() -> None:
        await ports.records.apply(open_provision())
        for change in running("i-1"):
            await ports.records.apply(change)
        await ports.signals.beat(Heartbeat("i-1", now := ports.clock.now(), 1))
        key = direct_key("i-1")
        known = (await ports.workers.workers([key]))[key]
        beat = worker.Beat(at=now, by=key, token=known.token, lease=60.0, leaving=at)
        await ports.records.apply(worker.heartbeat(known, beat))

    at, shown = datetime(2099, 1, 1, tzinfo=UTC), "2099-01-01T00:00:00Z"
    asyncio.run(fill())
    assert "running, leaves in " in bullpen("status").out
    assert bullpen("status", "--json").answer["instances"][0]["leavingAt"] == shown
    assert f"i-1 is running, and its machine will be taken away at {shown}\n" in bullpen("why", "i-1").out
    assert bullpen("why", "i-1", "--json").answer["stories"][0]["leavingAt"] == shown
    assert f"taken away at {shown}" in bullpen("why", direct_key("i-1")).out


def test_why_shows_the_steps_with_their_reasons(bullpen: CommandLine, memory: Memory) -> None:
    async def fill() -> None:
        records = memory.ports().records
        await records.apply(open_provision())
        for change in on_offer("i-1"):
            await records.apply(change)

    asyncio.run(fill())
    ran = bullpen("why", "i-1")
    assert "\n\ni-1 is idle\n" in ran.out
    assert "adopt     → idle" in ran.out
    assert bullpen("why", "i-1", "--json").answer["stories"][0]["story"][0]["step"] == "register"


def test_config_show_prints_the_origin_of_every_value(bullpen: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    bullpen.write_settings("[timings]\nidle = 60\nlease = 30")
    monkeypatch.setenv("BULLPEN_TIMINGS_LEASE", "20")
    lines = bullpen("config", "show", "--origin", "--set", "timings.purge=10").out.splitlines()
    shown = {line.split()[0]: line.split()[2:] for line in lines}
    assert shown["timings.idle"] == ["60.0", "#", "bullpen.toml"]
    assert shown["timings.lease"] == ["20.0", "#", "BULLPEN_TIMINGS_LEASE"]
    assert shown["timings.purge"] == ["10.0", "#", "--set"]
    assert shown["timings.hedge"] == ["2.0", "#", "default"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_config_show_prints_only_the_beginning_of_a_script(bullpen: CommandLine, options: tuple[str, ...]) -> None:
    bullpen.write_settings('[agent]\npre-runner-script = "#!/bin/sh\\nlogin hunter2\\n"')
    out = bullpen("config", "show", *options).out
    assert "#!/bin/sh" in out
    assert "(24 characters)" in out
    assert "hunter2" not in out


@pytest.mark.parametrize("script", ["export TOKEN=hunter2", "export TOKEN=hunter2\nmake"])
def test_config_show_hides_a_secret_at_the_beginning_of_a_script(bullpen: CommandLine, script: str) -> None:
    out = bullpen("config", "show", "--set", f"agent.pre-runner-script={script}").out
    assert "(not shown)" in out
    assert "hunter2" not in out


def test_config_show_answers_in_json(bullpen: CommandLine) -> None:
    answer = bullpen("config", "show", "--json").answer
    assert answer["file"] is None
    assert {"name": "timings.idle", "value": 420.0, "origin": "default"} in answer["settings"]


def test_the_release_of_a_run_without_runners_cleans_nothing_and_says_so(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    ran = bullpen("release", "--run-id", "nope")
    assert ran.code == 0
    assert "cleaning" not in ran.err
