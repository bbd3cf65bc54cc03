"""The action's steps, executed as GitHub's runner would: from action.yml, with environment files and signals.

    ran = run_action({"mode": "provision", "home": "…"}, {}, tmp_path)
    ran.code, ran.outputs, ran.summary, ran.log, ran.errors

`start_action` returns while it runs; `cancel()` does what the runner does: SIGINT, after 7.5 s SIGTERM, 2.5 s later
the end. On a busy machine these times are as many times longer as everything else there. Inputs that action.yml does
not declare are passed on, as the runner does, which only warns of them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from busy_machines import UnhurriedClock

ROOT = Path(__file__).parents[2]
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
UNTIL_TERMINATED, UNTIL_KILLED = 7.5, 2.5  # seconds that a cancelled step has
PATIENCE = 180.0  # seconds; a step takes a few
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
PASSED_ON = ("HOME", "LANG", "TMPDIR")  # a job has no variables of the test, least of all BULLPEN_* and AWS_*


@dataclass(frozen=True)
class StepResult:
    """What came of the action. `log` is as people see it: masked from the line on that says so."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    seconds: float = 0.0  # of a step that was cancelled: from then to its end
    unexpected: tuple[str, ...] = ()

    @property
    def errors(self) -> list[str]:
        """The messages of `::error::`, unescaped."""
        found = re.findall(r"^::error(?: [^:]*)?::(.*)$", self.log, re.MULTILINE)
        return [text.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%") for text in found]


@dataclass
class ActionStep:
    """A step that runs."""

    process: subprocess.Popen[bytes]
    folder: Path
    unexpected: tuple[str, ...] = ()
    declared: dict[str, Any] = field(default_factory=dict)

    def wait_for(self, text: str) -> None:
        """Until the log has it."""
        end = time.monotonic() + PATIENCE
        while text not in self.log():
            assert time.monotonic() < end, f"{text!r} is not in the log:\n{self.log()}"
            assert self.process.poll() is None, self.log()
            time.sleep(0.02)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def cancel(self, then: Callable[[], object] = lambda: None) -> StepResult:
        """As the runner does, and `then` this as soon as it is told; `seconds` is how long it took from that signal, or
        would have taken on a machine that is not busy."""
        clock = UnhurriedClock()
        self.process.send_signal(signal.SIGINT)
        then()
        if not clock.wait(self.process, UNTIL_TERMINATED):
            self.process.terminate()
            if not clock.wait(self.process, UNTIL_TERMINATED + UNTIL_KILLED):
                self.process.kill()
        return self._ran(clock.seconds)

    def end(self) -> StepResult:
        """Wait for it."""
        return self._ran()

    def _ran(self, seconds: float = 0.0) -> StepResult:
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end:\n{self.log()}") from None
        step = _outputs((self.folder / "output").read_text())
        context = {f"steps.bullpen.outputs.{name}": value for name, value in step.items()}
        outputs = {name: _evaluated(one["value"], context) for name, one in self.declared["outputs"].items()}
        summary = (self.folder / "summary").read_text()
        return StepResult(code, _masked(self.log()), outputs, summary, seconds, self.unexpected)


@cache
def manifest() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "action.yml").read_text())
    assert isinstance(found, dict)
    return found


def start_action(
    inputs: Mapping[str, str],
    environment: Mapping[str, str],
    folder: Path,
    checkout: Mapping[str, str] = MappingProxyType({}),
) -> ActionStep:
    """Start the action's step in a fresh folder below `folder`, as a job of run 4711 of acme/widgets would whose
    workflow has checked out these files."""
    declared = manifest()
    (step,) = declared["runs"]["steps"]
    place = folder / f"step-{len(list(folder.glob('step-*')))}"
    (place / "checkout").mkdir(parents=True)
    for name, text in checkout.items():
        (place / "checkout" / name).write_text(text)
    for name in ("output", "summary", "env", "log"):
        (place / name).touch()
    given = {name: str(one.get("default", "")) for name, one in declared["inputs"].items()} | dict(inputs)
    context = {"toJSON(inputs)": json.dumps(given, indent=2)}
    script = place / "script.sh"
    script.write_text(_evaluated(step["run"], context))
    own = {name: _evaluated(value, context) for name, value in step["env"].items()}
    with open(place / "log", "wb") as log:
        process = subprocess.Popen(
            [*SHELL, str(script)],
            cwd=place / "checkout",
            env={**_environment(place), **environment, **own},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    unexpected = tuple(name for name in inputs if name not in declared["inputs"])
    return ActionStep(process, place, unexpected, declared)


def run_action(inputs: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> StepResult:
    """Execute the action and wait for it."""
    return start_action(inputs, environment, folder).end()


def _environment(place: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return passed | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_WORKSPACE": str(place / "checkout"),
        "GITHUB_OUTPUT": str(place / "output"),
        "GITHUB_STEP_SUMMARY": str(place / "summary"),
        "GITHUB_ENV": str(place / "env"),
        "GITHUB_RUN_ID": "4711",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_REPOSITORY": "acme/widgets",
        "GITHUB_REPOSITORY_ID": "42",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_ACTOR": "octocat",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_API_URL": "https://api.github.com",
        "RUNNER_TEMP": str(place),
        "RUNNER_TOOL_CACHE": str(place / "tools"),
        "RUNNER_OS": "Linux",
    }


def _evaluated(text: str, context: Mapping[str, str]) -> str:
    """Expressions replaced; an unknown one is an error, unless it names an output that was not set."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        assert name in context or name.startswith("steps."), f"unknown expression {name}"
        return context.get(name, "")

    return EXPRESSION.sub(value, text)


def _outputs(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT as the runner reads it, of which the action writes `name=value` only."""
    found = {}
    for line in filter(None, text.splitlines()):
        name, equals, value = line.partition("=")
        assert equals, f"GITHUB_OUTPUT: the runner refuses {line!r}"
        found[name] = value
    return found


def _masked(log: str) -> str:
    secrets: list[str] = []
    shown = []
    for line in log.splitlines():
        if line.startswith("::add-mask::"):
            secrets.append(line.removeprefix("::add-mask::"))
            continue
        for secret in secrets:
            line = line.replace(secret, "***")
        shown.append(line)
    return "\n".join(shown)
