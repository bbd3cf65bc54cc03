"""A pool of real processes on a home of its own: commands, looks at the database, and an end for everything."""

import asyncio
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bullpen.engines.processes import TreeSurvived, end_tree, mark_of
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.jobs import SqliteJobs
from bullpen.engines.system import SystemChance, SystemClock
from scenario import processes
from scenario.audit import audit

PATIENCE = 20.0  # seconds; what is waited for takes milliseconds, so only a failing test takes so long
LONGEST = 60.0  # seconds that any command may take before it counts as hanging
LOOK_AGAIN = 0.002
AHEAD = 100.0
"""Seconds by which `settle` puts the clock ahead: past every deadline below, and short of what may stay for long."""

TIMINGS = {
    "heartbeat": 0.5,
    "lease": 5,
    "alive": 5,
    "hedge": 1,
    "registration": 5,
    "validation": 20,
    "provision": 30,
    "claim-grace": 10,
    "orphan": 60,
    "cleaning": 1000,
    "idle": 2000,
}


@dataclass(frozen=True)
class Ran:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything beside it fails the test."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class Starter:
    """A `starter.py` that commands are forked from."""

    def __init__(self) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        script = Path(__file__).with_name("starter.py")
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, str(script)], stdin=pipe, stdout=pipe, text=True, env=environ)

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Command:
    """A command under way."""

    pid: int
    began: float
    _starter: Starter
    _files: tuple[Path, Path]
    _ran: Ran | None = None

    def send(self, number: signal.Signals) -> None:
        if self._ran is None:  # its pid is its own until it has been waited for
            os.kill(self.pid, number)

    def kill(self) -> Ran:
        self.send(signal.SIGKILL)
        return self.wait()

    def after(self, seconds: float, number: signal.Signals) -> Ran:
        """Send it a signal so long after its start, unless it has ended by then."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))
        self.send(number)
        return self.wait()

    def has_ended(self) -> bool:
        """True once it is a zombie: ended, and not yet waited for."""
        return self._ran is not None or Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    def wait(self) -> Ran:
        if self._ran is None:
            give_up = time.monotonic() + LONGEST
            while not self.has_ended() and time.monotonic() < give_up:
                time.sleep(LOOK_AGAIN)
            is_late = not self.has_ended()
            if is_late:
                os.kill(self.pid, signal.SIGKILL)
            code = self._starter.ask(wait=self.pid)["code"]
            # One that was killed before its first instruction has not even opened them.
            self._ran = Ran(code, *(file.read_text() if file.exists() else "" for file in self._files))
            assert not is_late, f"not within {LONGEST:g} s: {self._ran}"
        return self._ran


@dataclass
class Pool:
    """Commands get the pool's settings, and those of the call besides."""

    home: Path
    folder: Path
    starter: Starter
    settings: dict[str, Any] = field(default_factory=lambda: {f"timings.{k}": v for k, v in TIMINGS.items()})
    _commands: list[Command] = field(default_factory=list)

    # --------------------------------------------------------------------------------------------------------- commands

    def start(self, *arguments: str, ahead: float = 0.0) -> Command:
        files = (self.folder / f"{len(self._commands)}.out", self.folder / f"{len(self._commands)}.err")
        out, err = map(str, files)
        asked = {"start": self.line(*arguments), "out": out, "err": err, "cwd": str(self.folder), "ahead": ahead}
        pid = self.starter.ask(**asked)["pid"]
        command = Command(pid, time.monotonic(), self.starter, files)
        self._commands.append(command)
        return command

    def run(self, *arguments: str, ahead: float = 0.0) -> Ran:
        return self.start(*arguments, ahead=ahead).wait()

    def line(self, *arguments: str) -> list[str]:
        settings = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        return ["--home", str(self.home), *settings, *arguments]  # first: behind a -- they would be a job's

    def start_provision(self, run_id: str, count: int, *more: str) -> Command:
        return self.start("provision", "--run-id", run_id, "--count", str(count), "--json", *more)

    def provision(self, run_id: str, count: int, *more: str) -> dict[str, Any]:
        """Succeeds, or fails the test."""
        return self._must(self.start_provision(run_id, count, *more))

    def refused(self, run_id: str, count: int, *more: str) -> dict[str, Any]:
        """The answer of a provision that must fail, with everything given back."""
        ran = self.start_provision(run_id, count, *more).wait()
        assert ran.code == 1, ran
        assert ran.answer["state"] == "failed"
        assert "Traceback" not in ran.err
        return ran.answer

    def release(self, run_id: str) -> dict[str, Any]:
        return self._must(self.start("release", "--run-id", run_id, "--json"))

    def refresh(self, ahead: float = 0.0) -> list[dict[str, str]]:
        actions: list[dict[str, str]] = self._must(self.start("refresh", "--json", ahead=ahead))["actions"]
        return actions

    def settle(self) -> None:
        """Bring the pool to rest: refresh past every deadline, and once more for what must be seen twice."""
        self.refresh(AHEAD)
        self.until(self.is_calm, "agents have done what the refresh left to them")
        self.refresh(2 * AHEAD)

    def _must(self, command: Command) -> dict[str, Any]:
        ran = command.wait()
        assert ran.code == 0, ran
        return ran.answer

    def run_job(self, run_id: str, script: str) -> str:
        """Run a shell script as a job of the run, to its end; returns the id of the instance that took it."""
        job_id = self.submit(run_id, script)
        done = "SELECT instance_id, exit_code FROM jobs WHERE id = ? AND state = 'finished'"
        self.until(lambda: bool(self.rows(done, job_id)), "the job has ended")
        ((instance_id, code),) = self.rows(done, job_id)
        assert code == 0, f"the job failed with {code}"
        return str(instance_id)

    def submit(self, run_id: str, script: str) -> str:
        return asyncio.run(self._submit(run_id, ["/bin/sh", "-c", script]))

    async def _submit(self, run_id: str, command: Sequence[str]) -> str:
        async with Database.open(self.home) as database:
            return await SqliteJobs(database, SystemClock(), SystemChance()).submit(run_id, command)

    # ------------------------------------------------------------------------------------------------------------ looks

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What the database says now, without touching it; nothing while there is none."""
        if not (self.home / "bullpen.db").exists():
            return []
        with closing(sqlite3.connect(f"file:{self.home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query, parameters).fetchall()

    def ids(self, state: str) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE state = ? ORDER BY id", state)]

    def on_offer(self) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE attested = 1 ORDER BY id")]

    def live(self) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE state <> 'terminated' ORDER BY id")]

    def story(self, id: str) -> str:
        return "\n".join(why for (why,) in self.rows("SELECT why FROM stories WHERE record_id = ?", id))

    def agent(self, id: str) -> int:
        """The pid of an instance's agent."""
        pids = [one.pid for one in processes.of_home(self.home) if one.is_agent and one.instance_id == id]
        assert len(pids) == 1, f"agents of {id}: {pids}\n{self.story(id)}\n{self._told()}"
        return pids[0]

    def signal(self, id: str, number: signal.Signals) -> None:
        pid = self.agent(id)
        os.kill(pid, number)
        # One that is stopped in the middle of a write stops every other writer: that is another test.
        while number is signal.SIGSTOP and not self._can_write():
            os.kill(pid, signal.SIGCONT)
            time.sleep(LOOK_AGAIN)
            os.kill(pid, signal.SIGSTOP)

    def _can_write(self) -> bool:
        """True if both locks of the turnstile come free, as they do within milliseconds unless their holder stands."""
        give_up = time.monotonic() + 0.5
        while time.monotonic() < give_up:
            with open(self.home / "turn.lock") as turn, open(self.home / "db.lock") as db, suppress(BlockingIOError):
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(db, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(LOOK_AGAIN)
        return False

    def is_calm(self) -> bool:
        """True if nothing is left for an agent to do: every instance that is cleaning has attested."""
        reported = "SELECT 1 FROM signals WHERE instance_id = id AND round = instances.round AND kind LIKE 'UD_CLEAN_%'"
        cleaning = f"SELECT 1 FROM instances WHERE state = 'idle' AND attested = 0 AND NOT EXISTS ({reported})"
        return not self.rows(cleaning)

    def audit(self) -> list[str]:
        return audit(self.home)

    def until(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        give_up = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < give_up, f"not within {patience:g} s: {what}\n{self._told()}"
            time.sleep(LOOK_AGAIN)

    def _told(self) -> str:
        """What commands and agents have said so far: a test that fails only now and then has to say why at once."""
        files = [*sorted(self.folder.glob("*.err")), *sorted(self.home.glob("instances/*/agent.log"))]
        return "\n".join(f"--- {file.relative_to(self.folder)}\n{file.read_text()[-2000:]}" for file in files)

    # -------------------------------------------------------------------------------------------------------------- end

    def end(self) -> None:
        """End every process of this home, each by its pid: commands first, for they might start more."""
        for command in self._commands:
            with suppress(ProcessLookupError):
                command.kill()
        for id in dict.fromkeys(one.instance_id for one in processes.of_home(self.home)):
            with suppress(TreeSurvived):
                end_tree(None, mark_of(id), patience=5.0)
        for left in processes.of_home(self.home):
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)
