"""Executes a job as GitHub's worker does: the hook before it, its script, the hook after it; and keeps its lease.

As there, a hook is a step like others: if it fails, or the job is cancelled, those that always run do so all the same.
The log is sent now and then, so most of it is known of a worker that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from hub import Away, Hub, Refused  # type: ignore[import-not-found]

RENEWED_EVERY = 0.25  # seconds; the real one takes a minute, but for its log, and its GitHub is more patient
LOOKED_EVERY = 0.02
INTERRUPTED_FOR, TERMINATED_FOR = 0.75, 0.25  # seconds; ten times as long there
LONGEST_LOG = 200_000
CODES = {"success": 100, "failure": 102, "cancelled": 103}  # as there: no other tells of a job that came to its end


@dataclass
class Outcome:
    conclusion: str = "success"
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)


def execute(hub: Hub, job: dict[str, Any], work: Path, is_stopped: Callable[[], bool]) -> Outcome:
    name = job["repository"].partition("/")[2]
    workspace, temp = work / name / name, work / "_temp"
    for directory in (workspace, temp, work / "_tool"):
        directory.mkdir(parents=True, exist_ok=True)
    files = {f"GITHUB_{name}": str(temp / name.lower()) for name in ("OUTPUT", "ENV", "PATH", "STEP_SUMMARY")}
    for path in files.values():
        Path(path).write_text("", encoding="utf-8")
    script = temp / "step.sh"
    script.write_text(job["script"], encoding="utf-8")
    places = {"GITHUB_WORKSPACE": str(workspace), "RUNNER_TEMP": str(temp), "RUNNER_TOOL_CACHE": str(work / "_tool")}
    own = {"RUNNER_OS": "Linux", "RUNNER_ARCH": "X64", "RUNNER_ENVIRONMENT": "self-hosted"}
    always = temp / "always.sh"
    always.write_text(job["always"], encoding="utf-8")
    step = _Step(hub, job["id"], workspace, {**os.environ, **own, **places, **files, **job["env"]}, is_stopped)
    outcome = Outcome()
    hooks = [os.environ.get(f"ACTIONS_RUNNER_HOOK_JOB_{event}", "") for event in ("STARTED", "COMPLETED")]
    for command in (hooks[0], str(script)):
        if command and outcome.conclusion == "success":
            outcome.conclusion = step.run(command)
    if job["always"] and step.run(str(always), is_last=True) != "success" and outcome.conclusion == "success":
        outcome.conclusion = "failure"
    if hooks[1] and step.run(hooks[1], is_last=True) != "success" and outcome.conclusion == "success":
        outcome.conclusion = "failure"
    outcome.log = step.log
    lines = Path(files["GITHUB_OUTPUT"]).read_text(encoding="utf-8").splitlines()
    outcome.outputs = {name: value for name, sign, value in (line.partition("=") for line in lines) if sign}
    return outcome


class _Step:
    """Commands of one job, one after the other, each with `bash -e`."""

    def __init__(
        self, hub: Hub, job: int, workspace: Path, environment: dict[str, str], is_stopped: Callable[[], bool]
    ) -> None:
        self.log = ""
        self._hub, self._job, self._workspace, self._environment = hub, job, workspace, environment
        self._is_stopped = is_stopped
        self._renewed_at = 0.0
        self._is_cancelled = False

    def run(self, script: str, *, is_last: bool = False) -> str:
        """success, failure or cancelled. What comes last is executed whatever happened before."""
        output = self._workspace.parent / "output"
        with open(output, "wb") as log:
            process = subprocess.Popen(
                ["bash", "-e", script],
                cwd=self._workspace,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            while process.poll() is None:
                self._renew(output)
                if not is_last and (self._is_stopped() or self._is_cancelled):
                    self._end(process, output)
                    break
                time.sleep(LOOKED_EVERY)
        self.log = self._with(output)
        if not is_last and (self._is_stopped() or self._is_cancelled):
            if self._is_stopped():
                self.log += "The runner has received a shutdown signal.\n"
            return "cancelled"
        return "success" if process.returncode == 0 else "failure"

    def _end(self, process: subprocess.Popen[bytes], output: Path) -> None:
        """As there: the shell is asked twice, then killed with everything below it."""
        for number, patience in ((signal.SIGINT, INTERRUPTED_FOR), (signal.SIGTERM, TERMINATED_FOR)):
            until = time.monotonic() + patience
            process.send_signal(number)
            while process.poll() is None and time.monotonic() < until:
                self._renew(output)
                time.sleep(LOOKED_EVERY)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _with(self, output: Path) -> str:
        return (self.log + output.read_text(encoding="utf-8", errors="replace"))[-LONGEST_LOG:]

    def _renew(self, output: Path) -> None:
        if time.monotonic() - self._renewed_at >= RENEWED_EVERY:
            self._renewed_at = time.monotonic()
            with suppress(Refused, Away):
                told = self._hub.say("renew", job=self._job, log=self._with(output))
                self._is_cancelled |= bool(told.get("cancel"))


def main() -> int:
    """One job, as the listener describes it; the exit code reports how it ended."""
    told = json.load(sys.stdin)
    hub, stops = Hub(told["url"], **told["known"]), []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stops.append(number))
    outcome = execute(hub, told["job"], Path(told["work"]), lambda: bool(stops))
    about = {"conclusion": outcome.conclusion, "log": outcome.log, "outputs": outcome.outputs}
    with suppress(Refused):  # given up as lost meanwhile
        hub.say("finish", job=told["job"]["id"], **about)
    return CODES[outcome.conclusion]


if __name__ == "__main__":
    sys.exit(main())
