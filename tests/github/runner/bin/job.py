"""Executes a job as GitHub's runner does: the hook before it, its script, the hook after it; and keeps its lease."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hub import Away, Hub, Refused  # type: ignore[import-not-found]

RENEWED_EVERY = 0.5  # seconds; the real one takes a minute, and its GitHub is as much more patient
LOOKED_EVERY = 0.02
LONGEST_LOG = 200_000


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
    step = _Step(hub, job["id"], workspace, {**os.environ, **own, **places, **files, **job["env"]}, is_stopped)
    outcome = Outcome()
    hooks = [os.environ.get(f"ACTIONS_RUNNER_HOOK_JOB_{event}", "") for event in ("STARTED", "COMPLETED")]
    for command in (hooks[0], str(script)):
        if command and outcome.conclusion == "success":
            outcome.conclusion = step.run(command)
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
                self._renew()
                if not is_last and (self._is_stopped() or self._is_cancelled):
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    break
                time.sleep(LOOKED_EVERY)
        self.log = (self.log + output.read_text(encoding="utf-8", errors="replace"))[-LONGEST_LOG:]
        if not is_last and (self._is_stopped() or self._is_cancelled):
            if self._is_stopped():
                self.log += "The runner has received a shutdown signal.\n"
            return "cancelled"
        return "success" if process.returncode == 0 else "failure"

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at >= RENEWED_EVERY:
            self._renewed_at = time.monotonic()
            with suppress(Refused, Away):
                self._is_cancelled |= bool(self._hub.say("renew", job=self._job).get("cancel"))
