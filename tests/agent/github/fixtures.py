"""An agent that serves GitHub's jobs, for tests: the real loop, real scripts as processes, and a GitHub of our own.

Only the way to the store is played: `Store` says what the record is, and remembers what it was told.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import httpx

from bullpen.agent.account import account_of
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, NoRecord
from bullpen.agent.loop import AgentLoop
from bullpen.agent.progress import HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import AgentStore, Grant, NoCredentials, OwnList, RunnerCredentials, StillBusy
from bullpen.agent.wakeup import ThreadWakeup
from bullpen.engines.github.naming import runner_name
from bullpen.host.processes import end_tree, mark_of
from bullpen.model.activity import Activity, Listening, parse, parse_listening
from bullpen.model.served_set import ServedSet
from fakes.github.acting import RUNNERS, caller
from fakes.github.hub import FakeGithub, JobSpec, Run
from fakes.github.set_caller import AGENTS, SetCaller
from users import lent_for_good

PATIENCE = 120.0  # seconds; what is waited for takes milliseconds, so only a failing test takes so long
USER = lent_for_good()
AS_JOBS: dict[str, Any] = {"user": USER, "group": account_of(USER).group, "extra_groups": []} if USER else {}
"""How to start a process as the jobs' user."""
PAIR = Path(__file__).parents[2] / "fakes" / "github" / "runner"


@contextmanager
def a_ground() -> Iterator[Path]:
    """A directory that every user can read, unlike pytest's own."""
    ground = Path(tempfile.mkdtemp())
    ground.chmod(0o755)
    try:
        yield ground
    finally:
        shutil.rmtree(ground)


def a_runner(ground: Path, version: str = "2.336.0") -> Path:
    """GitHub's runner as an administrator has installed it."""
    directory = ground / "actions-runner"
    shutil.copytree(PAIR, directory)
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    (directory / "bin" / "version").write_text(version + "\n")
    return directory


@dataclass
class Store:
    """An `AgentStore` whose record is what the test says. Credentials come from GitHub, as `bullpen serve` gets."""

    hub: FakeGithub
    api: httpx.Client
    instance_id: str
    record: InstanceRecord | NoRecord = ABSENT
    jit: bool = False
    direct: bool = False  # the agent removes its registration itself
    oldest: str = ""
    reports: list[tuple[SignalKind, str, str]] = field(default_factory=list)
    serves: ServedSet | None = None  # the scale set that it registers for
    refused: list[str] = field(default_factory=list)
    beats: list[Activity | None] = field(default_factory=list)
    waiting: list[Listening | None] = field(default_factory=list)  # what the same beats say of a set's registration
    leaving: bool = False  # as the last beat says
    passes: list[RunnerCredentials] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    caller: SetCaller | None = None
    jobs: None = None

    def has_changed(self) -> bool:
        return True

    def read_record(self) -> InstanceRecord | NoRecord:
        return self.record

    def beat(self, job: HeldJob | None, leaving: datetime | None, activity: str) -> Grant:
        self.beats.append(parse(activity))
        self.waiting.append(parse_listening(activity))
        self.leaving = leaving is not None
        return Grant(LeaseHolder(f"{self.instance_id}/a", 1))

    def report(self, kind: SignalKind, record: InstanceRecord, text: str) -> None:
        self.reports.append((kind, record.round, text))

    def register(self, record: InstanceRecord, refused_job: str = "") -> RunnerCredentials | OwnList:
        if record != self.record:
            return OwnList.MOVED_ON
        self.refused += [refused_job] if refused_job else []
        name = runner_name("pool", self.instance_id, record.round, len(self.passes))
        given = RunnerCredentials(name, record.run_id, f"{self.hub.url}/acme/widgets", oldest=self.oldest)
        if self.serves is not None:
            made = self._set_caller().configure(self.hub.sets.of(self.serves.name).id, name)
            given = replace(given, jit=made["encodedJITConfig"], id=made["runner"]["id"], serves=self.serves)
        elif self.jit:
            wanted = {"name": name, "runner_group_id": 1, "labels": [record.run_id]}
            given = replace(given, jit=self._post("generate-jitconfig", json=wanted)["encoded_jit_config"])
        else:
            given = replace(given, token=self._post("registration-token")["token"])
        if self.direct:
            given = replace(given, removal=self._post("remove-token")["token"])
        self.passes.append(given)
        return given

    def removal_token(self) -> str:
        if not self.direct:
            raise NoCredentials("the server deregisters this runner")
        return self._post("remove-token")["token"]

    def deregister(self, runner: str) -> None:
        self.removed.append(runner)
        found = [one for one in self.hub.runners() if one.name == runner]
        if found and self.serves is not None:
            answer = self._set_caller().ask("DELETE", f"{AGENTS}/{found[0].id}")
            if answer.status_code == 400:
                raise StillBusy(answer.text)
            return
        if found and not self.direct:
            assert self.api.delete(f"{RUNNERS}/{found[0].id}").status_code == 204

    def close(self) -> None: ...

    def _set_caller(self) -> SetCaller:
        self.caller = self.caller or SetCaller(self.hub)
        return self.caller

    def _post(self, what: str, **more: Any) -> dict[str, str]:
        answer: dict[str, str] = self.api.post(f"{RUNNERS}/{what}", **more).raise_for_status().json()
        return answer


class AgentStage:
    """One instance. The test takes the part of the control plane, and turns the agent's loop."""

    def __init__(self, ground: Path, hub: FakeGithub, config: Config, store: Store) -> None:
        self.ground, self.hub, self.config, self.store = ground, hub, config, store
        self.log: list[str] = []
        self.agent = AgentLoop(config, cast(AgentStore, store), ThreadWakeup(), self.log.append)

    def until(self, condition: Callable[[], object]) -> None:
        ends = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < ends, self.log
            if reason := self.agent._turn():
                raise Over(reason)

    def claimed(self, run_id: str, round: str = "r1", **changes: Any) -> None:
        self.store.record = InstanceRecord(
            InstanceState.CLAIMED, run_id, round, time.time() + 600, trust_domain="t", **changes
        )

    def commits(self) -> None:
        assert isinstance(self.store.record, InstanceRecord)
        self.store.record = replace(self.store.record, state=InstanceState.RUNNING)

    def recalls(self, round: str = "r2") -> None:
        assert isinstance(self.store.record, InstanceRecord)
        self.store.record = replace(self.store.record, round=round)

    def releases(self, round: str = "r2") -> None:
        self.store.record = InstanceRecord(InstanceState.IDLE, "", round, time.time() + 120, trust_domain="t")

    def serves(self, run_id: str, **changes: Any) -> None:
        self.claimed(run_id, **changes)
        self.reported(SignalKind.REG_OK)
        self.commits()

    def reported(self, kind: SignalKind) -> str:
        """The text, once the agent has reported this, or a failure, in the record's round."""
        assert isinstance(self.store.record, InstanceRecord)
        round = self.store.record.round
        self.until(lambda: any(at == round and (one is kind or one.is_failure) for one, at, _ in self.store.reports))
        texts = [text for one, at, text in self.store.reports if at == round and one is kind]
        assert texts, self.store.reports
        return texts[-1]

    def starts(self, script: str, run: str = "${{ github.run_id }}", **more: Any) -> Run:
        return self.hub.start_run("acme/widgets", [JobSpec("build", runs_on=(run,), script=script, **more)])

    def close(self) -> None:
        """Collect what has ended."""
        self.agent._wakeups.close()
        actions = self.agent._tasks.boot.actions
        for child in actions._running() if actions is not None else ():
            child.exit_code()
            child.close()

    @property
    def runner(self) -> str:
        return self.store.passes[-1].runner

    @property
    def activity(self) -> Activity | None:
        return self.agent._progress.activity


class Over(Exception):
    """The agent has decided to stop."""


@contextmanager
def a_stage(hub: FakeGithub, version: str = "2.336.0", **settings: Any) -> Iterator[AgentStage]:
    with a_ground() as ground, caller(hub) as api:
        name = f"i-{time.monotonic_ns():016x}"  # unlike any other: cleaning ends whatever carries the mark
        directory = ground / "instance"
        for place in ("work", "home", "tmp"):
            (directory / place).mkdir(mode=0o700, parents=True)
        config = Config(name, ground, directory, 0.2, 60.0, 600.0, "", 30.0, ())
        told: dict[str, Any] = {"ci": "github", "runner_directory": str(a_runner(ground, version))}
        told |= {"runner_user": USER, "shares_machine": True}
        played = {name: settings.pop(name) for name in ("jit", "direct", "oldest", "serves") if name in settings}
        stage = AgentStage(ground, hub, replace(config, **(told | settings)), Store(hub, api, name, **played))
        try:
            yield stage
        finally:
            end_tree(None, mark_of(name), patience=10.0)
            stage.close()
            if stage.store.caller is not None:
                stage.store.caller.close()
