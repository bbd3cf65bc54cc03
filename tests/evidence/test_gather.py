"""What evidence of a record has: on memory engines, with what is missing and why."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from builders import NOW, on_offer, open_provision, running
from bullpen import evidence
from bullpen.config import Agent, Github, Settings
from bullpen.engines.memory import Memory
from bullpen.errors import NotFound
from bullpen.evidence import LOG_TAIL, GatheredFiles, gather, shown_settings
from bullpen.evidence.scrub import Scrubber
from bullpen.jobs import submit
from bullpen.jobs.request import JobRequest
from bullpen.ports import FoundLogs, MachineLog, Ports


class PlannedLogs:
    """Of every machine the same."""

    def __init__(self, logs: dict[str, bytes], missing: dict[str, str] | None = None) -> None:
        self._found = FoundLogs({name: MachineLog(one, len(one)) for name, one in logs.items()}, missing or {})

    async def read(self, instance_id: str, limit: int) -> FoundLogs:
        return self._found


async def a_pool(logs: PlannedLogs | None = None) -> Ports:
    ports = Memory().ports()
    await ports.records.apply(open_provision())
    for change in (*running("i-1"), *on_offer("i-2", provision_id="p-1")):
        await ports.records.apply(change)
    return replace(ports, machine_logs=logs or PlannedLogs({"agent.log": b"one\ntwo\n"}))


async def gathered(ports: Ports, subject: str, settings: Settings | None = None) -> dict[str, str]:
    files = await gather(ports, settings or Settings(), subject, Scrubber())
    return {one.name: one.content.decode() for one in files}


def manifest(files: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files["manifest.json"])
    return found


async def test_evidence_of_an_instance_has_its_record_story_log_settings_and_versions() -> None:
    files = await gathered(await a_pool(), "i-1")
    assert next(iter(files)) == "manifest.json"
    record = json.loads(files["records/i-1.json"])
    assert record["record"]["state"] == "running"
    assert [step["step"] for step in record["story"]["story"]] == ["register", "adopt", "claim", "commit"]
    assert files["instances/i-1/agent.log"] == "one\ntwo\n"
    assert json.loads(files["why.json"])["kind"] == "instance"
    assert json.loads(files["settings.json"])["timings.idle"] == 420
    assert json.loads(files["versions.json"])["engine"] == "embedded"
    listed = manifest(files)
    assert [one["name"] for one in listed["files"]] == [name for name in files if name != "manifest.json"]
    assert (listed["subject"], listed["missing"]) == ("i-1", [])


async def test_evidence_of_a_run_has_its_provision_instances_and_jobs() -> None:
    ports = await a_pool()
    (job,) = await submit(ports, [JobRequest("run-1", ("true",))], by="a test")
    files = await gathered(ports, "run-1")
    assert {"records/p-1.json", "records/i-1.json", f"records/{job.id}.json"} <= {*files}
    assert manifest(files)["missing"] == [
        {"name": f"jobs/{job.id}.attempt-0.log", "why": "the job has never been given to a worker"}
    ]


async def test_what_is_missing_is_named_with_its_reason() -> None:
    logs = PlannedLogs({}, {"agent.log": "it is on the machine", "console.log": "no permission: token=abcdefgh"})
    listed = manifest(await gathered(await a_pool(logs), "i-1"))
    assert listed["missing"] == [
        {"name": "instances/i-1/agent.log", "why": "it is on the machine"},
        {"name": "instances/i-1/console.log", "why": "no permission: token=(not shown)"},
    ]


async def test_an_unknown_record_is_an_error_as_for_every_query() -> None:
    with pytest.raises(NotFound, match="nothing: no such instance"):
        await gathered(await a_pool(), "nothing")


async def test_a_log_begins_with_a_whole_line_where_it_is_cut() -> None:
    files = GatheredFiles(Scrubber())
    files.add_log("cut", b"f of a line\nnext\n", 1000)
    files.add_log("whole", b"line\nnext\n", 10)
    files.add_log("one line", b"no break", 1000)
    assert [(one.content, one.size) for one in files.files] == [
        (b"next\n", 1000),
        (b"line\nnext\n", 10),
        (b"no break", 1000),
    ]


async def test_the_whole_is_bounded_and_says_what_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "TOTAL", 12_000)
    logs = PlannedLogs({"agent.log": b"x" * 5_000, "boot.log": b"y" * 5_000})
    files = await gathered(await a_pool(logs), "run-1")
    assert sum(map(len, files.values())) < 12_000 + len(files["manifest.json"])
    (missing, *_) = manifest(files)["missing"]
    assert missing["why"] == "the archive is full: all files together have at most 12000 bytes"


async def test_a_job_log_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "LOG_TAIL", 20)
    monkeypatch.setattr(evidence, "READ", 16)
    ports = await a_pool()
    (job,) = await submit(ports, [JobRequest("run-1", ("true",))], by="a test")
    await ports.logs.append(job.id, 1, 0, b"".join(b"line %03d\n" % number for number in range(50)))
    content, size = await evidence._log_of(ports, replace(job, fence=1))
    assert (content, size) == (b"7\nline 048\nline 049\n", 450)


def test_files_of_equal_names_are_not_written_twice() -> None:
    files = GatheredFiles(Scrubber())
    files.add_json("records/a_b.json", {"id": "a/b"})
    files.add_json("records/a_b.json", {"id": "a_b"})
    assert len(files.files) == 1
    assert files.missing == {"records/a_b.json (a second one)": "another record has the same name here"}


# ---- secrets


async def test_no_secret_of_settings_records_or_logs_is_in_the_files() -> None:
    planted = {
        "github token": "plain-token-of-github",
        "webhook": "plain-secret-of-the-webhook",
        "private key": "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkq\n-----END PRIVATE KEY-----",
        "script": "export NPM_AUTH=npm-plain-value",
        "job": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "agent": "bpa_i-1_1790000000_QUJDREVGR0hJSktMTU5PUA",
        "option": "value-behind-an-option",
    }
    settings = Settings(
        github=Github(
            token=planted["github token"], webhook_secret=planted["webhook"], private_key=planted["private key"]
        ),
        agent=Agent(pre_runner_script=planted["script"]),
    )
    everything = "\n".join(f"printed {value}" for value in planted.values() if value != planted["option"])
    ports = await a_pool(PlannedLogs({"agent.log": everything.encode(), "runner/x.log": everything.encode()}))
    command = ("deploy", "--secret", planted["option"], planted["job"])
    await submit(ports, [JobRequest("run-1", command)], by="a test")
    from bullpen.evidence.scrub import known_secrets

    files = await gather(ports, settings, "run-1", Scrubber([*known_secrets(settings, {}), "npm-plain-value"]))
    whole = b"\n".join(one.content for one in files).decode()
    for what, value in planted.items():
        for line in value.splitlines():
            if not line.startswith("-----"):
                assert line.removeprefix("export NPM_AUTH=") not in whole, what
    assert "deploy" in whole


def test_the_settings_are_shown_without_secrets_and_without_scripts() -> None:
    settings = Settings(github=Github(token="t0ps3cret"), agent=Agent(pre_runner_script="echo hello"))
    shown = shown_settings(settings)
    assert shown["github.token"] == "(not shown)"
    assert shown["agent.pre-runner-script"] == "(10 characters)"
    assert shown["classes.small.cpu"] == 1
    assert "t0ps3cret" not in msgspec.json.encode(shown).decode()


def test_a_tail_is_shorter_than_the_whole() -> None:
    assert evidence.TOTAL > 10 * LOG_TAIL
    assert NOW.year > 1980
