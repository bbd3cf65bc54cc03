"""Every other endpoint: what it answers, and what it leads to."""

import asyncio
import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import set_builders
from builders import on_offer, open_provision, register, running, used_and_on_offer
from bullpen import inventory
from bullpen.background_loop import FAILS_FOR
from bullpen.engines.github.naming import instance_of
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.errors import Refused, Unavailable
from bullpen.model.instance import Instance
from bullpen.model.progress import Tell
from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet
from bullpen.model.signal import Kind
from bullpen.model.ticket import UsageClass, format_time
from bullpen.ports import Registration, RegistrationCredentials, Removal
from bullpen.provision import Outcome
from bullpen.schema.operation import OperationKind
from bullpen.schema.provision import ProvisionAnswer, provision_of
from bullpen.server.load_limits import Admission
from bullpen.server.operations import MOST_AT_ONCE
from server.fixtures import INSTANCE, OTHER, House, a_house

WORKER = f"{INSTANCE}/0a0b0c0d"


async def a_running_instance(house: House, run_id: str = "r") -> Instance:
    """An instance of a run, with a worker whose lease holds."""
    for change in running(INSTANCE, run_id):
        await house.ports.records.apply(change)
    await house.beat(WORKER, token=INSTANCE)
    return (await house.ports.records.instances([INSTANCE]))[INSTANCE]


async def a_job(house: House, **fields: Any) -> dict[str, Any]:
    asked = {"runId": "r", "command": ["make", "test"], **fields}
    if not await inventory.run_exists(house.ports, "r"):
        await house.ports.records.apply(open_provision("p-r", run_id="r"))
    shown: dict[str, Any] = (await house.ask("POST", "/v1/jobs", json=asked)).json()
    return shown


def agents(path: str) -> str:
    return f"/v1/agents/{INSTANCE}/{path}"


def holder(job: dict[str, Any]) -> dict[str, Any]:
    return {"workerInstanceKey": job["worker"], "epoch": job["epoch"], "fence": job["fence"]}


# ---- jobs


async def test_a_job_is_queued_listed_and_shown_with_its_story(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house, name="test", timeoutSeconds=60, sideEffects=True)
        assert (job["state"], job["command"], job["timeoutSeconds"]) == ("queued", ["make", "test"], 60)
        listed = (await house.ask("GET", "/v1/jobs?runId=r")).json()["jobs"]
        assert [one["id"] for one in listed] == [job["id"]]
        shown = (await house.ask("GET", f"/v1/jobs/{job['id']}")).json()
        assert [line["step"] for line in shown["story"]] == ["submit"]


async def test_a_job_of_a_run_that_was_never_provisioned_is_refused(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        refused = await house.ask("POST", "/v1/jobs", json={"runId": "misspelt", "command": ["make"]})
        assert refused.status_code == 404
        assert refused.json()["error"] == "run misspelt: no provision was ever requested"
        assert (await house.ask("GET", "/v1/jobs?runId=misspelt")).json()["jobs"] == []


async def test_a_job_that_is_sent_again_with_its_key_is_queued_once(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.ports.records.apply(open_provision("p-r", run_id="r"))
        body = {"runId": "r", "command": ["make"], "capability": "docker", "artifacts": ["dist"], "timeoutSeconds": 60}

        async def sent(key: str, **changes: Any) -> httpx.Response:
            return await house.ask("POST", "/v1/jobs", json={**body, **changes}, headers={"Idempotency-Key": key})

        first = (await sent("k")).json()
        again = await sent("k")
        assert (again.status_code, again.json()["id"]) == (201, first["id"])
        refused = await sent("k", command=["make", "test"])
        assert (refused.status_code, refused.json()["code"]) == (422, "idempotency-mismatch")
        assert first["id"] in refused.json()["error"]
        await house.ask("POST", f"/v1/jobs/{first['id']}/cancel")
        ended = (await sent("k")).json()
        assert (ended["id"], ended["state"]) == (first["id"], "finished")
        others = {(await sent("other")).json()["id"], (await sent("")).json()["id"], (await sent("")).json()["id"]}
        listed = (await house.ask("GET", "/v1/jobs?runId=r")).json()["jobs"]
        assert {one["id"] for one in listed} == {first["id"], *others}
        assert len(listed) == 4


async def test_two_operators_with_the_same_key_have_a_job_each(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        await house.ports.records.apply(open_provision("p-r", run_id="r"))
        body, key = {"runId": "r", "command": ["make"]}, {"Idempotency-Key": "k"}
        found = [await house.ask("POST", "/v1/jobs", who, json=body, headers=key) for who in ("operate", "admin")]
        assert len({one.json()["id"] for one in found}) == 2


async def test_a_queued_job_is_cancelled_at_once(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house)
        shown = (await house.ask("POST", f"/v1/jobs/{job['id']}/cancel")).json()
        assert (shown["state"], shown["result"]) == ("finished", "cancelled")


async def test_an_agent_takes_runs_and_finishes_a_job(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        one = await a_running_instance(house)
        job = await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": one.round}
        taken = (await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)).json()["job"]
        assert (taken["id"], taken["fence"], taken["worker"]) == (job["id"], 1, WORKER)
        path = agents(f"jobs/{job['id']}")
        assert (await house.ask("POST", f"{path}/bind", INSTANCE, json=holder(taken))).status_code == 200
        for offset, text in ((0, b"one\n"), (4, b"two\n"), (0, b"one\n")):
            where = {"fence": 1, "offset": offset}
            await house.ask("POST", f"{path}/log", INSTANCE, params=where, content=text)
        ended = (await house.ask("POST", f"{path}/finish", INSTANCE, json={**holder(taken), "exitCode": 0})).json()
        assert (ended["accepted"], ended["job"]["result"]) == (True, "succeeded")
        logs = await house.ask("GET", f"/v1/jobs/{job['id']}/logs")
        assert (logs.text, logs.headers["bullpen-next-offset"]) == ("one\ntwo\n", "8")
        assert logs.headers["content-type"] == "text/plain; charset=utf-8"


async def test_a_job_whose_answer_was_lost_is_given_to_the_same_worker_again(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        one = await a_running_instance(house)
        await a_job(house)
        await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": one.round}
        taken = [(await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)).json()["job"] for _ in range(2)]
        assert taken[0] == taken[1]


async def test_an_agent_that_acts_on_an_older_round_gets_no_job(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": "older"}
        assert (await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)).json() == {"job": None}


async def test_a_late_result_is_refused_and_what_stands_is_shown(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        one = await a_running_instance(house)
        job = await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": one.round}
        taken = (await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)).json()["job"]
        path = agents(f"jobs/{job['id']}")
        back = (await house.ask("POST", f"{path}/give-back", INSTANCE, json={**holder(taken), "why": "bye"})).json()
        assert (back["state"], back["losses"]) == ("queued", 1)
        late = (await house.ask("POST", f"{path}/finish", INSTANCE, json={**holder(taken), "exitCode": 0})).json()
        assert (late["accepted"], late["job"]["state"]) == (False, "queued")
        where = {"worker": WORKER, "epoch": 1, "fence": 1}
        assert (await house.ask("GET", f"{path}/standing", INSTANCE, params=where)).json() == {"standing": "lost"}
        logged = await house.ask("POST", f"{path}/log", INSTANCE, params={"fence": 2, "offset": 0}, content=b"x")
        assert logged.status_code == 409


async def test_a_cancelled_job_is_to_be_stopped(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        one = await a_running_instance(house)
        job = await a_job(house)
        asked = {"workerInstanceKey": WORKER, "round": one.round}
        await house.ask("POST", agents("jobs/take"), INSTANCE, json=asked)
        await house.ask("POST", f"/v1/jobs/{job['id']}/cancel")
        held = [{"jobId": job["id"], "fence": 1}]
        answer = await house.ask(
            "POST",
            "/v1/heartbeats",
            INSTANCE,
            json={"workerInstanceKey": WORKER, "token": 1, "boundActivities": held},
        )
        assert answer.json()["stop"] == [job["id"]]
        where = {"worker": WORKER, "epoch": 1, "fence": 1}
        standing = await house.ask("GET", agents(f"jobs/{job['id']}/standing"), INSTANCE, params=where)
        assert standing.json() == {"standing": "cancelled"}


# ---- agents


async def test_an_agent_sees_its_record_and_that_a_job_waits(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        absent = (await house.ask("GET", agents("record"), INSTANCE)).json()
        assert absent["found"] is False
        await a_running_instance(house)
        seen = (await house.ask("GET", agents("record"), INSTANCE)).json()
        assert (seen["found"], seen["state"], seen["hasJob"]) == (True, "running", False)
        await a_job(house)
        assert (await house.ask("GET", agents("record"), INSTANCE)).json()["hasJob"] is True


async def test_a_record_that_cannot_be_read_is_not_reported_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end its machine."""

    async def nothing_readable(_ids: Any) -> dict[str, Instance]:
        return {}

    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        monkeypatch.setattr(house.ports.records, "instances", nothing_readable)
        assert (await house.ask("GET", agents("record"), INSTANCE)).status_code == 503
        said = {"kind": "UD_REG_OK", "runId": "r", "round": "round-1", "seq": 9}
        assert (await house.ask("POST", agents("signals"), INSTANCE, json=said)).json() == {"stored": True}


async def test_a_poll_waits_for_news_and_no_longer_than_asked(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        seen = (await house.ask("GET", agents("record"), INSTANCE)).json()["seen"]
        began = loop.time()
        asked = {"seen": seen, "wait": 20}
        assert (await house.ask("GET", agents("record"), INSTANCE, params=asked)).json()["seen"] == seen
        assert 20 <= loop.time() - began < 21
        polling = asyncio.ensure_future(house.ask("GET", agents("record"), INSTANCE, params=asked))
        await asyncio.sleep(3)
        await a_job(house)
        assert (await polling).json()["hasJob"] is True
        assert loop.time() - began < 25


async def test_one_instance_polls_twice_at_once_and_no_more(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        seen = (await house.ask("GET", agents("record"), INSTANCE)).json()["seen"]
        asked = {"seen": seen, "wait": 20}
        polls = [asyncio.ensure_future(house.ask("GET", agents("record"), INSTANCE, params=asked)) for _ in range(2)]
        await asyncio.sleep(1)
        assert (await house.ask("GET", agents("record"), INSTANCE, params=asked)).status_code == 429
        assert (await house.ask("GET", agents("record"), INSTANCE, params={"seen": seen})).status_code == 200
        assert [(await poll).status_code for poll in polls] == [200, 200]
        assert (await house.ask("GET", agents("record"), INSTANCE, params=asked)).status_code == 200


async def test_an_instance_without_record_reports_nothing(tmp_path: Path) -> None:
    said = {"kind": "UD_OK", "runId": "", "round": "a", "seq": 1}
    async with a_house(tmp_path) as house:
        assert (await house.ask("POST", agents("signals"), INSTANCE, json=said)).status_code == 404
        assert (await house.ports.signals.read([INSTANCE]))[INSTANCE].signal is None


async def test_a_signal_counts_once_and_in_order(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        said = {"kind": "UD_REG_OK", "runId": "r", "round": "a1", "seq": 2}
        stored = [(await house.ask("POST", agents("signals"), INSTANCE, json=said)).json()["stored"] for _ in range(2)]
        assert stored == [True, False]
        found = (await house.ports.signals.read([INSTANCE]))[INSTANCE].signal
        assert found is not None
        assert found.kind is Kind.REG_OK


async def test_an_agent_registers_and_leaves_but_not_under_its_job(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        asked = {"runId": "r", "round": "a1"}
        assert (await house.ask("PUT", agents("registration"), INSTANCE, json=asked)).json() == {"registered": True}
        house.memory.registrations[INSTANCE] = Registration(INSTANCE, "r", busy=True)
        assert (await house.ask("DELETE", agents("registration"), INSTANCE)).status_code == 409
        house.memory.registrations[INSTANCE] = Registration(INSTANCE, "r", busy=False)
        assert (await house.ask("DELETE", agents("registration"), INSTANCE)).json() == {"registered": False}
        assert house.memory.registrations == {}


SERVED = ServedSet("m", SetEvents.ANY, (SetRepository("a/b", 5), SetRepository("a/c")))


class AnotherCI:
    """Has agents register themselves, and knows them by other names."""

    def __init__(self, answer: RegistrationCredentials | Refused | None) -> None:
        self.answer = answer
        self.removed: list[str] = []

    async def registrations(self) -> list[Registration]:
        return []

    def instance_of(self, handle: str) -> str | None:
        return instance_of("bullpen", handle)

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return {}

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        if isinstance(self.answer, Refused):
            raise self.answer
        return self.answer

    def prepare(self, name: str, label: str, round: str) -> None:
        return

    def failing(self, label: str) -> None:
        return

    async def remove(self, handle: str) -> Removal:
        self.removed.append(handle)
        return Removal.REMOVED


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (
            RegistrationCredentials(
                "bullpen.x.a1", "r", "https://github.com/acme", "big", token="T", removal="V", oldest="2.1"
            ),
            {"registered": True, "runner": "bullpen.x.a1", "label": "r", "url": "https://github.com/acme"}
            | {"group": "big", "token": "T", "removal": "V", "oldest": "2.1"},
        ),
        (
            RegistrationCredentials("bullpen.x.a1", "r", jit="J"),
            {"registered": True, "runner": "bullpen.x.a1", "label": "r", "jit": "J"},
        ),
        (
            RegistrationCredentials("bullpen.x.a1", "set:m", jit="J", id=7, serves=SERVED),
            {"registered": True, "runner": "bullpen.x.a1", "label": "set:m", "jit": "J", "id": 7}
            | {"serves": {"name": "m", "events": "any", "repositories": [{"name": "a/b", "id": 5}, {"name": "a/c"}]}},
        ),
        (None, {"registered": False}),
        (Refused("no such scope"), {"registered": False, "refusal": "no such scope"}),
        (Refused("no scope", remedy="see it"), {"registered": False, "refusal": "no scope; see it"}),
    ],
)
async def test_a_registration_is_answered_with_what_the_agent_needs_at_the_ci(
    tmp_path: Path, answer: RegistrationCredentials | Refused | None, sent: dict[str, Any]
) -> None:
    async with a_house(tmp_path) as house:
        house.context.ports = replace(house.ports, ci=AnotherCI(answer))
        asked = {"runId": "r", "round": "a1"}
        assert (await house.ask("PUT", agents("registration"), INSTANCE, json=asked)).json() == sent
        assert (await house.ask("PUT", agents("registration"), OTHER, json=asked)).status_code == 403


@pytest.mark.parametrize(
    ("runner", "status", "removed"),
    [
        ("", 200, [INSTANCE]),
        (f"bullpen.{INSTANCE}.a1", 200, [f"bullpen.{INSTANCE}.a1"]),
        (f"bullpen.{INSTANCE}.a1.3", 200, [f"bullpen.{INSTANCE}.a1.3"]),
        (f"bullpen.{OTHER}.a1", 403, []),
        (f"another.{INSTANCE}.a1", 403, []),
        ("the-companys-own", 403, []),
        ("x" * 65, 400, []),
    ],
)
async def test_an_agent_deregisters_only_its_own_runner(
    tmp_path: Path, runner: str, status: int, removed: list[str]
) -> None:
    async with a_house(tmp_path) as house:
        ci = AnotherCI(None)
        house.context.ports = replace(house.ports, ci=ci)
        answer = await house.ask("DELETE", agents("registration"), INSTANCE, params={"runner": runner})
        assert (answer.status_code, ci.removed) == (status, removed)


async def test_an_agent_sees_the_repository_of_its_run(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.ports.records.apply(register(INSTANCE, run_id="r", repository="acme/widgets"))
        assert (await house.ask("GET", agents("record"), INSTANCE)).json()["repository"] == "acme/widgets"


# ---- the pool


async def test_instances_are_listed_in_pages_and_shown_with_their_story(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.ports.records.apply(register(INSTANCE), register(OTHER))
        first = (await house.ask("GET", "/v1/instances?limit=1")).json()
        assert ([one["id"] for one in first["instances"]], first["next"]) == ([INSTANCE], INSTANCE)
        second = (await house.ask("GET", f"/v1/instances?limit=1&after={INSTANCE}")).json()
        assert [one["id"] for one in second["instances"]] == [OTHER]
        shown = (await house.ask("GET", f"/v1/instances/{INSTANCE}")).json()
        assert [line["step"] for line in shown["story"]] == ["register"]


async def test_status_counts_what_is_claimable_as_the_command_does(tmp_path: Path) -> None:
    """Of every usage class and trust domain, not only of those that a plain request would get."""
    async with a_house(tmp_path) as house:
        await house.ports.records.apply(open_provision())
        walks = [on_offer("i-1"), on_offer("i-2", usage_class=UsageClass.SPOT), used_and_on_offer("i-3")]
        for walk in walks:
            for change in walk:
                await house.ports.records.apply(change)
        shown = (await house.ask("GET", "/v1/status")).json()
        counted = {one["resourceClass"]: one["claimable"] for one in shown["pools"]}
        shown = await inventory.status(house.ports, house.context.settings)
        assert counted == {one.resource_class: one.claimable for one in shown.pools}
        assert counted["small"] == 3


async def test_status_counts_instances_and_workers_and_lists_the_loops(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        for loop in house.context.service.loops:
            await loop.run_once()
        shown = (await house.ask("GET", "/v1/status")).json()
        assert shown["counts"] == {"small": {"running": 1}}
        assert [(one["active"], one["inactive"]) for one in shown["workers"]] == [(1, 0)]
        usual = {
            "infrastructure",
            "debts",
            "sweep",
            "reap",
            "reconcile",
            "warm",
            "health",
            "sources",
            "history",
            "activity",
        }
        assert set(shown["loops"]) == usual
        assert (await house.ask("GET", "/readyz")).status_code == 200


async def test_a_loop_that_keeps_failing_is_named_and_the_service_stays_ready(tmp_path: Path) -> None:
    """For any reason, an outage of GitHub above all: heartbeats must still be received."""
    async with a_house(tmp_path) as house:
        loops = {loop.name: loop for loop in house.context.service.loops}
        for loop in loops.values():
            await loop.run_once()

        async def fail() -> None:
            raise Unavailable("GitHub did not answer")

        loops["reconcile"]._work = fail
        since = format_time(house.ports.clock.now())
        await loops["reconcile"].run_once()
        await asyncio.sleep(FAILS_FOR)
        await loops["reconcile"].run_once()
        await loops["health"].run_once()
        answer = await house.ask("GET", "/readyz")
        assert (answer.status_code, answer.json()["ready"], answer.json()["failing"]) == (
            200,
            True,
            {"reconcile": since},
        )
        assert "did not answer" not in answer.text  # it needs no token
        shown = {"process": "serve", "loop": "reconcile", "since": since, "error": "GitHub did not answer"}
        assert (await house.ask("GET", "/v1/status")).json()["failingLoops"] == [shown]


async def test_the_status_has_the_scale_sets_and_why_their_stories(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for change in set_builders.ready():
            await house.ports.records.apply(change)
        (one,) = (await house.ask("GET", "/v1/status")).json()["scaleSets"]
        assert (one["name"], one["state"], one["min"], one["max"]) == (set_builders.NAME, "ready", 1, 20)
        assert (one["holder"], one["assigned"], one["running"]) == ("", None, None)
        (story,) = (await house.ask("GET", f"/v1/stories/{set_builders.NAME}")).json()["stories"]
        assert (story["id"], story["state"]) == (f"set:{set_builders.NAME}", "ready")


async def test_a_store_that_can_be_read_and_not_written_makes_the_service_unready(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for loop in house.context.service.loops:
            await loop.run_once()
        answers, probe = [], house.ports.health.probe

        async def full(now: datetime) -> None:
            raise Unavailable("the disk is full")

        for how in (probe, full, probe):
            house.ports.health.probe = how  # type: ignore[method-assign]
            await asyncio.sleep(1)
            answers.append(await house.ask("GET", "/readyz"))
        assert [answer.status_code for answer in answers] == [200, 503, 200]
        assert [answer.json()["store"] for answer in answers] == [True, False, True]


async def test_however_many_ask_for_readiness_the_store_is_written_once_a_second(tmp_path: Path) -> None:
    memory = Memory()
    faults = Faults()
    async with a_house(tmp_path, ports=memory.ports(LoopClock(), SeededChance(), faults)) as house:
        for _ in range(3):
            await asyncio.gather(*(house.ask("GET", "/readyz") for _ in range(20)))
            await asyncio.sleep(1)
        assert faults.requests["health.probe"] == 3


async def test_changes_in_the_pool_are_streamed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = house.context.events.stream(lambda: True)
        assert await anext(events) == b"retry: 2000\n\n"
        assert b"event: workers" in await anext(events)
        await house.ports.records.apply(register(INSTANCE))
        event = await anext(events)
        assert b"event: instance" in event
        assert INSTANCE.encode() in event
        await events.aclose()


# ---- runs


async def test_a_provision_that_fails_is_an_operation_with_its_reason(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.memory.yard.capacity = 0
        begun = await house.ask("POST", "/v1/runs/r/provision", json={"count": 2})
        assert (begun.status_code, begun.json()["state"]) == (202, "running")
        path = f"/v1/operations/{begun.json()['id']}"
        await asyncio.sleep(600)
        shown = (await house.ask("GET", path)).json()
        assert shown["state"] == "failed"
        assert shown["reason"]


async def test_an_operation_is_known_to_every_process_of_a_home(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        begun = (await first.ask("POST", "/v1/runs/r/release")).json()
        await asyncio.sleep(60)
        shown = (await second.ask("GET", f"/v1/operations/{begun['id']}")).json()
        assert (shown["kind"], shown["state"]) == ("release", "succeeded")


async def test_an_operation_that_an_older_release_wrote_down_is_shown_as_it_stands(tmp_path: Path) -> None:
    result = {"provisionId": "p-1", "requested": 1, "timings": {"a new machine": 0.1}, "instances": []}
    written = {"id": "op-0123456789abcdef", "kind": "provision", "runId": "r", "state": "succeeded", "owner": "x"}
    written |= {"startedAt": "2026-01-01T00:00:00Z", "endsBy": "2026-01-01T00:00:00Z", "finishedAt": "", "reason": ""}
    async with a_house(tmp_path) as house:
        (tmp_path / "operations").mkdir(exist_ok=True)
        file = tmp_path / "operations" / "op-0123456789abcdef.json"
        file.write_text(json.dumps({**written, "progress": "1 of 1 ready", "remedy": "", "result": result}))
        shown = (await house.ask("GET", "/v1/operations/op-0123456789abcdef")).json()
        assert (shown["state"], shown["progress"], shown["result"]) == ("succeeded", None, result)


async def test_what_is_wrong_with_a_request_is_named_as_a_field(tmp_path: Path) -> None:
    """Of the body's form, of what the settings allow, and of what only the use case knows."""
    wrong = {
        "count": {"count": 1000},
        "resourceClass": {"count": 1, "resourceClass": "huge"},
        "usageClass": {"count": 1, "usageClass": "stolen"},
    }
    async with a_house(tmp_path) as house:
        for field, body in wrong.items():
            answer = await house.ask("POST", "/v1/runs/r/provision", json=body)
            assert (answer.status_code, answer.json()["field"]) == (400, field)
            assert answer.json()["error"].startswith(field)
        job = {"runId": "r", "command": ["true"], "timeoutSeconds": 0.5}
        answer = await house.ask("POST", "/v1/jobs", json=job)
        assert answer.json()["field"] == "timeoutSeconds"


async def test_two_requests_with_one_idempotency_key_begin_one_operation(tmp_path: Path) -> None:
    """The answer was lost: the same request, to any process, is answered with the operation that has begun."""
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        paths = ("/v1/runs/r/provision", "/v1/runs/r/provision", "/v1/runs/other/provision")
        keys = [{"Idempotency-Key": key} for key in ("a", "b", "a")]
        ids = []
        for house in (first, first, second):
            for path, headers in zip(paths, keys, strict=True):
                answer = await house.ask("POST", path, json={"count": 1}, headers=headers)
                assert answer.status_code == 202
                ids.append(answer.json()["id"])
        assert ids == ids[:3] * 3
        assert len(set(ids)) == 3
        released = await first.ask("POST", "/v1/runs/r/release", headers={"Idempotency-Key": "a"})
        assert (released.status_code, released.json()["kind"]) == (202, "release")


async def test_an_operation_whose_process_died_is_lost_at_once(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        begun = (await first.ask("POST", "/v1/runs/r/provision", json={"count": 1})).json()
        assert second.context.operations.find(begun["id"]).state == "running"
        ownership = first.context.operations._files._lock
        assert ownership is not None
        os.close(ownership._handle)  # as the kernel does when a process dies
        try:
            assert second.context.operations.find(begun["id"]).state == "lost"
            assert (await second.ask("DELETE", f"/v1/operations/{begun['id']}")).json()["state"] == "lost"
        finally:
            ownership._handle = os.open(os.devnull, os.O_RDONLY)


async def test_the_lock_of_a_dead_process_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "operations").mkdir()
    (tmp_path / "operations" / "dead.lock").touch()
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        for house in (first, second):
            await house.ask("POST", "/v1/runs/r/release")
        assert len(list((tmp_path / "operations").glob("*.lock"))) == 2
    assert list((tmp_path / "operations").glob("*.lock")) == []


async def test_provisions_that_wait_keep_no_release_out(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(MOST_AT_ONCE):
            answer = await house.ask("POST", f"/v1/runs/r{number}/provision", json={"count": 1})
            assert answer.status_code == 202
        assert (await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})).status_code == 429
        assert (await house.ask("POST", "/v1/runs/r1/release")).status_code == 202


async def test_an_operation_whose_process_hangs_is_lost_after_its_time(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:

        async def work(stop: asyncio.Event, tell: Tell) -> ProvisionAnswer:
            await stop.wait()
            return provision_of(Outcome("r", "p-1", 1, reason="stopped"))

        begun = first.context.operations.begin(OperationKind.PROVISION, "r", 60.0, work)
        assert second.context.operations.find(begun.id).state == "running"
        await asyncio.sleep(121)
        assert second.context.operations.find(begun.id).state == "lost"


async def test_a_run_is_shown_with_its_instances_and_jobs(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_running_instance(house)
        await a_job(house)
        shown = (await house.ask("GET", "/v1/runs/r")).json()
        assert ([one["id"] for one in shown["instances"]], len(shown["jobs"])) == ([INSTANCE], 1)


# ---- overload and trouble


async def test_above_the_limit_every_request_but_a_heartbeat_gets_a_429(tmp_path: Path) -> None:
    async with a_house(tmp_path, admission=Admission(requests=0, watching=0)) as house:
        for path in ("/v1/status", "/v1/jobs?runId=r", "/v1/instances", "/v1/events"):
            answer = await house.ask("GET", path)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert (await house.ask("GET", agents("record"), INSTANCE)).status_code == 429
        assert (await house.beat()).status_code == 200
        assert (await house.ask("GET", "/healthz")).status_code == 200


async def test_above_the_limit_a_request_that_can_never_succeed_is_told_so(tmp_path: Path) -> None:
    async with a_house(tmp_path, admission=Admission(requests=0)) as house:
        wrong = await house.ask("POST", "/v1/runs/r/provision", json={"count": 1, "resourceClass": "nope"})
        assert (wrong.status_code, wrong.json()["field"]) == (400, "resourceClass")
        assert (await house.ask("GET", "/v1/workers?state=bogus")).status_code == 400
        assert (await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})).status_code == 429


async def test_a_request_that_ends_makes_room_for_the_next(tmp_path: Path) -> None:
    async with a_house(tmp_path, admission=Admission(requests=1)) as house:
        for _ in range(3):
            assert (await house.ask("GET", "/v1/status")).status_code == 200


async def test_on_a_full_disk_a_provision_is_a_503_and_a_release_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with a_house(tmp_path) as house:
        monkeypatch.setattr(Path, "write_bytes", full)
        refused = await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})
        assert (refused.status_code, "No space left" in refused.json()["error"]) == (503, True)
        begun = await house.ask("POST", "/v1/runs/r/release")
        assert begun.status_code == 202
        await asyncio.sleep(30)
        shown = (await house.ask("GET", f"/v1/operations/{begun.json()['id']}")).json()
        assert (shown["state"], shown["kind"]) == ("succeeded", "release")
        assert list((tmp_path / "operations").glob("*.json")) == []


async def test_a_full_disk_that_is_met_anywhere_is_a_503(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:

        async def full() -> object:
            raise OSError(errno.ENOSPC, "No space left on device")

        house.ports.workers.controls = full  # type: ignore[assignment, method-assign]
        answer = await house.ask("GET", "/v1/status")
        assert (answer.status_code, answer.json()["error"]) == (503, "the disk of the server is full")


async def test_a_store_that_does_not_answer_is_a_503_and_no_trace(tmp_path: Path) -> None:
    memory = Memory()
    ports = memory.ports(LoopClock(), SeededChance(), Faults(rates=Rates(lost_request=1.0)))
    async with a_house(tmp_path, ports=ports) as house:
        for answer in (await house.ask("GET", "/v1/status"), await house.beat()):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "Traceback" not in answer.text
        assert (await house.ask("GET", "/readyz")).status_code == 503
        assert (await house.ask("GET", "/healthz")).status_code == 200


async def test_the_answer_to_an_unexpected_error_has_no_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_house(tmp_path) as house:

        async def broken() -> None:
            raise RuntimeError("the password is swordfish")

        house.ports.workers.controls = broken  # type: ignore[method-assign,assignment]
        answer = await house.ask("GET", "/v1/status")
        assert answer.status_code == 500
        assert "swordfish" not in answer.text
        assert "swordfish" in caplog.text
