"""Real commands on a pool, whatever its engines: started, signalled, waited for, and what they answer."""

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

PATIENCE = 120.0  # seconds; what is waited for takes milliseconds, so only a failing test takes so long
LONGEST = 180.0  # seconds that any command may take before it counts as hanging
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

    def __init__(self, *engines: str) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        line = [sys.executable, str(Path(__file__).with_name("starter.py")), *engines]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, env=environ)

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

    def said(self) -> str:
        """Its output so far."""
        return self._files[0].read_text()

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


@dataclass(kw_only=True)
class Commands(ABC):
    """Commands on one pool. They get its settings, and those of the call besides."""

    home: Path
    folder: Path
    starter: Starter
    settings: dict[str, Any] = field(default_factory=lambda: {f"timings.{k}": v for k, v in TIMINGS.items()})
    environ: dict[str, str] = field(default_factory=dict)
    _commands: list[Command] = field(default_factory=list)
    look_again: ClassVar[float] = LOOK_AGAIN

    def start(
        self, *arguments: str, ahead: float = 0.0, skewed: float = 0.0, environ: dict[str, str] | None = None
    ) -> Command:
        files = (self.folder / f"{len(self._commands)}.out", self.folder / f"{len(self._commands)}.err")
        out, err = map(str, files)
        around = {"cwd": str(self.folder), "environ": {**self.environ, **(environ or {})}}
        clock = {"ahead": ahead, "skewed": skewed}
        pid = self.starter.ask(start=self.line(*arguments), out=out, err=err, **around, **clock)["pid"]
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

    def until(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        give_up = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < give_up, f"not within {patience:g} s: {what}\n{self._told()}"
            time.sleep(self.look_again)

    def kill_commands(self) -> None:
        for command in self._commands:
            with suppress(ProcessLookupError):
                command.kill()

    @abstractmethod
    def ids(self, state: str) -> list[str]:
        """The instances that are in this state by their records, in order, as below."""

    @abstractmethod
    def on_offer(self) -> list[str]: ...

    @abstractmethod
    def live(self) -> list[str]: ...

    @abstractmethod
    def is_calm(self) -> bool:
        """True if nothing is left for an agent to do: every instance that is cleaning has attested."""

    @abstractmethod
    def audit(self) -> list[str]:
        """Every violation in a sentence; empty if all is well. The pool must be at rest."""

    @abstractmethod
    def _told(self) -> str:
        """What commands and agents have said so far: a test that fails only now and then has to say why at once."""

    @staticmethod
    def _last_words(files: Iterable[Path], below: Path) -> str:
        return "\n".join(f"--- {os.path.relpath(file, below)}\n{file.read_text()[-2000:]}" for file in files)
