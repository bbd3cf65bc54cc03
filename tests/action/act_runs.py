"""Workflows executed by `nektos/act` on this machine, without containers.

    ran = run_workflow(act, workflow, tmp_path / "act", {"SERVER_TOKEN": "…"})
    ran.step("runners").outputs["label"]

act prepares the workspace, evaluates the workflow's expressions and the `inputs` and `outputs` of action.yml, and reads
the files of a step. The tests beside (`steps.py`) do all of that by themselves. Where act differs from GitHub's runner:

- It skips `actions/checkout` and copies the repository instead, so nothing is fetched. Proxies that do not exist make a
  request to another host fail.
- Its jobs have no OIDC token: a step needs the input server-token.
- A step writes to a terminal, not into pipes. act closes the terminal as soon as a step has failed, and may miss the
  last lines: the reason of a failure is read from the summary, which is a file. `steps.py` checks the annotations.
- It reads the files of an action's inner step twice, the second time as those of the step that uses the action. Outputs
  are therefore those that act evaluated from action.yml before that.
- It passes on only the inputs that action.yml declares, so a misspelt one does not reach the action.
- A label of `runs-on` only has to be one that act was told of.
- Cancelling a workflow is not tried here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILES = ("action.yml", "action-packages.txt", "pyproject.toml")
INNER = "bullpen"  # the step in action.yml
PATIENCE = 900.0  # seconds; a workflow of these tests takes ten
NOWHERE = "http://127.0.0.1:1"


@dataclass(frozen=True)
class StepRun:
    """One step, as act saw it. `lines` is what it printed, without commands."""

    result: str
    exit_code: int
    outputs: dict[str, str]
    summary: str
    lines: list[str]


@dataclass(frozen=True)
class WorkflowRun:
    """`entries` are act's log. act is told to mask nothing in it, so `printed` shows what the steps really printed."""

    code: int
    entries: list[dict[str, Any]]
    warnings: str

    def step(self, id: str) -> StepRun:
        outer = [one for one in self.entries if one.get("stepID") == [id] and one["stage"] == "Main"]
        inner = [one for one in self.entries if one.get("stepID") == [id, INNER]]
        assert outer, f"step {id} did not run:\n{self.printed}"
        ends = next(at for at, one in enumerate(outer) if "stepResult" in one)
        exits = [found for one in inner or outer if (found := re.fullmatch(r"exit status (\d+)", one["msg"]))]
        return StepRun(
            outer[ends]["stepResult"],
            int(exits[0].group(1)) if exits else 0,
            {one["name"]: one["arg"] for one in outer[:ends] if one.get("command") == "set-output"},
            "".join(one["content"] for one in inner or outer if one.get("command") == "summary"),
            [one["msg"].rstrip("\n") for one in inner or outer if one.get("raw_output")],
        )

    @property
    def printed(self) -> str:
        return "\n".join([*(one["msg"] for one in self.entries), self.warnings])

    @property
    def masked(self) -> set[str]:
        """What a step has asked to mask."""
        return {one["arg"] for one in self.entries if one.get("command") == "add-mask"}


def run_workflow(act: Path, workflow: str, folder: Path, secrets: Mapping[str, str], run: str = "4711") -> WorkflowRun:
    """Execute the jobs of a workflow in a repository with the action, as a push to acme/widgets would."""
    repository = folder / "repository"
    _make_repository(repository, workflow)
    # A token of GitHub that is named is not looked for elsewhere on this machine.
    named = {"GITHUB_TOKEN": "no-token-of-github", **secrets}
    (folder / "secrets").write_text("".join(f"{name}={value}\n" for name, value in named.items()))
    context = {
        "GITHUB_RUN_ID": run,
        "GITHUB_REPOSITORY": "acme/widgets",
        "GITHUB_REF": "refs/heads/main",
        "SHA_REF": "0" * 40,
    }
    command = [str(act), "push", "-C", str(repository), "--secret-file", str(folder / "secrets"), "--json"]
    command += ["--insecure-secrets", "--no-cache-server", "--pull=false", "--container-daemon-socket=-"]
    command += [word for label in ("ubuntu-latest", run) for word in ("-P", f"{label}=-self-hosted")]
    command += [word for name, value in context.items() for word in ("--env", f"{name}={value}")]
    ran = subprocess.run(
        command, env=_environment(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )
    return WorkflowRun(ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr)


def _make_repository(repository: Path, workflow: str) -> None:
    workflows = repository / ".github/workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").write_text(workflow)
    for name in FILES:
        shutil.copy(ROOT / name, repository)
    shutil.copytree(ROOT / "src", repository / "src", ignore=shutil.ignore_patterns("__pycache__"))


def _environment(folder: Path) -> dict[str, str]:
    """No variable of the test, and a Python without Bullpen's packages, as on GitHub's machines."""
    python = Path(sys.base_prefix) / "bin"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    return {
        **proxies,
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
        "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "ACT_DISABLE_VERSION_CHECK": "1",
    }
