"""An agent's last words, and the end of its machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

import bullpen
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, UNKNOWN, NoRecord
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, SignalKind
from bullpen.agent.shutdown import LINES, Journal, leave
from bullpen.agent.store.base import StoreUnreachable
from bullpen.model.activity import Activity
from bullpen.model.signal_text import refused_version, refuses_runner

AGENT = Path(bullpen.__file__).parent / "agent" / "__main__.py"
RUNNING = InstanceRecord(InstanceState.RUNNING, "run-1", "a1", threshold=1e12)
PROGRESS = AgentProgress(began=0.0)


class Said:
    """In place of a store: what it was told, in order."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.told: list[object] = []
        self._failure = failure

    def report(self, kind: SignalKind, record: InstanceRecord, text: str) -> None:
        if self._failure is not None:
            raise self._failure
        self.told.append((str(kind), record.round, text))

    def beat(self, job: object, leaving: datetime | None, activity: str) -> None:
        assert leaving is not None
        self.told.append(activity)

    def deregister(self, runner: str) -> None:
        self.told.append("deregister")

    def stop(self) -> None:
        self.told.append("stop")

    def close(self) -> None:
        self.told.append("close")


def left(
    store: Said, record: InstanceRecord | NoRecord, progress: AgentProgress = PROGRESS, reason: str = "it broke"
) -> list[object]:
    config = Config("i-unused", Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 30.0, ())
    journal = Journal(print)
    journal("takes job j-1")
    with pytest.MonkeyPatch.context() as patch:
        # What runs below this process belongs to other tests.
        patch.setattr("bullpen.agent.shutdown.end_tree", lambda *_, **__: store.told.append("end"))
        leave(config, store, record, progress, reason, journal)  # type: ignore[arg-type]
    return store.told


def test_the_control_plane_learns_that_the_machine_leaves_before_its_job_ends() -> None:
    job = Activity("acme/widgets", "4711", 1, "4711", "bullpen.i-1.0")
    told = left(Said(), RUNNING, PROGRESS.bound(job, 0.0))
    assert told.index(job.text()) < told.index("end")
    assert job.text() not in left(Said(), RUNNING)


def test_the_control_plane_reads_which_version_is_refused_also_from_an_agent_that_has_stopped() -> None:
    reason = refuses_runner("2.1.0", "GitHub refuses runner version 2.1.0: use a newer one")
    report = left(Said(), RUNNING, reason=reason)[0]
    assert isinstance(report, tuple)
    text = report[2]
    assert refused_version(text) == "2.1.0"
    assert "the agent has stopped: GitHub refuses runner version 2.1.0: use a newer one; its last lines:" in text


@pytest.mark.parametrize(
    ("state", "progress", "kind"),
    [
        (InstanceState.CREATED, PROGRESS, SignalKind.FAILED),
        (InstanceState.CREATED, PROGRESS.reported(SignalKind.OK, "a1", 0.0), SignalKind.REG_FAILED),
        (InstanceState.CLAIMED, PROGRESS, SignalKind.REG_FAILED),
        (InstanceState.RUNNING, PROGRESS.reported(SignalKind.REG_OK, "a1", 0.0), SignalKind.REG_FAILED),
        (InstanceState.IDLE, PROGRESS.reported(SignalKind.CLEAN_OK, "a1", 0.0), SignalKind.CLEAN_FAILED),
    ],
)
def test_a_process_that_waits_for_the_instance_gets_the_reason_and_the_last_lines(
    state: InstanceState, progress: AgentProgress, kind: SignalKind
) -> None:
    said, *rest = left(Said(), replace(RUNNING, state=state), progress)
    text = "the agent has stopped: it broke; its last lines:\ntakes job j-1\nstops: it broke"
    assert said == (str(kind), "a1", text)
    assert rest == ["end", "deregister", "close"]


@pytest.mark.parametrize("record", [ABSENT, UNKNOWN, replace(RUNNING, state=InstanceState.TERMINATED)])
def test_without_a_waiting_process_nothing_is_reported(record: InstanceRecord | NoRecord) -> None:
    assert [word for word in left(Said(), record) if word != "stop"] == ["end", "deregister", "close"]


@pytest.mark.parametrize(
    ("record", "progress"),
    [
        (ABSENT, PROGRESS),
        (replace(RUNNING, state=InstanceState.TERMINATED), PROGRESS),
        (UNKNOWN, PROGRESS.saw(replace(RUNNING, state=InstanceState.TERMINATED))),
    ],
)
def test_the_agent_of_an_ended_instance_says_last_that_its_worker_has_stopped(
    record: InstanceRecord | NoRecord, progress: AgentProgress
) -> None:
    assert left(Said(), record, progress)[-3:] == ["deregister", "stop", "close"]


def test_while_its_instance_lives_or_a_job_of_github_runs_others_judge_by_its_beats() -> None:
    job = Activity("acme/widgets", "4711", 1, "4711", "bullpen.i-1.0")
    assert "stop" not in left(Said(), RUNNING)
    assert "stop" not in left(Said(), UNKNOWN, PROGRESS.saw(RUNNING))
    assert "stop" not in left(Said(), replace(RUNNING, state=InstanceState.TERMINATED), PROGRESS.bound(job, 0.0))


def test_what_was_seen_last_counts_while_the_store_is_out_of_reach() -> None:
    assert "UD_REG_FAILED" in str(left(Said(), UNKNOWN, PROGRESS.saw(RUNNING)))


def test_what_failed_first_is_not_overwritten() -> None:
    progress = PROGRESS.reported(SignalKind.REG_FAILED, "a1", 0.0)
    assert left(Said(), RUNNING, progress) == ["end", "deregister", "close"]


@pytest.mark.parametrize("failure", [StoreUnreachable("away"), RuntimeError("broken")])
def test_an_agent_that_cannot_report_leaves_all_the_same(failure: Exception) -> None:
    assert left(Said(failure), RUNNING) == ["end", "deregister", "close"]


def test_a_journal_hands_on_every_line_and_closes_with_the_last_ones_that_fit() -> None:
    written: list[str] = []
    journal = Journal(written.append)
    for number in range(LINES + 5):
        journal(f"line {number} {'x' * 400}")
    assert len(written) == LINES + 5
    assert len(written[0]) > 400
    text = journal.closing("it broke", 1000)
    assert len(text) == 1000
    assert text.startswith("it broke; its last lines:\n")
    assert f"line {LINES + 4} " in text
    assert "line 0 " not in text
    assert Journal(print).closing("it broke", 5) == "it br"


# ----------------------------------------------------------------------------------------------- the end of the machine


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """An agent's configuration; its machine ends by a file that appears."""
    config = {
        "instance_id": "i-00000000000000ee",
        "home": str(tmp_path),
        "heartbeat": 5.0,
        "appears_within": 60.0,
        "max_runtime": 60.0,
        "pre_runner_script": "",
        "pre_runner_timeout": 30.0,
        "keep": [],
        "shutdown": ["touch", str(tmp_path / "ended")],
    }
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(config))
    for name in ("work", "home", "tmp"):
        (tmp_path / name).mkdir()
    return path


def started(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", str(AGENT), str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def ended(agent: subprocess.Popen[str], path: Path) -> int:
    """Its exit code, once everything that it started has ended too, which holds its last output open."""
    assert agent.stderr is not None
    agent.stderr.read()
    agent.stderr.close()
    return agent.wait(20)


def test_a_machine_ends_with_its_agent(told: Path) -> None:
    agent = started(told)
    assert agent.stderr is not None
    while "booted" not in agent.stderr.readline():
        pass
    agent.send_signal(signal.SIGTERM)
    assert ended(agent, told) == 0
    assert (told.parent / "ended").exists()


def test_a_machine_ends_when_its_agent_cannot_start(told: Path) -> None:
    config = json.loads(told.read_text()) | {"home": str(told.parent / "nowhere"), "table": "pool"}
    told.write_text(json.dumps(config))
    assert ended(started(told), told) == 2
    assert (told.parent / "ended").exists()


def test_a_shutdown_command_that_cannot_start_is_logged(told: Path) -> None:
    told.write_text(json.dumps(json.loads(told.read_text()) | {"table": "pool", "shutdown": ["/no/such/program"]}))
    agent = started(told)
    assert agent.stderr is not None
    assert "cannot end the machine" in agent.stderr.read()
    assert ended(agent, told) == 2
