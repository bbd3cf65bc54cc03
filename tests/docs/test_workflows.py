"""Every example workflow of README and docs: actionlint and zizmor find nothing, and each job has what it runs."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from action.steps import manifest
from walkthroughs import ROOT

PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JOB = "on: push\npermissions: {}\njobs:\n  example:\n    runs-on: ubuntu-latest\n    permissions: {}\n    steps:\n"


def workflows(text: str) -> list[str]:
    """The workflows of a page. Part of one is completed: a job by the last whole workflow above it, steps by a job."""
    found: list[str] = []
    whole = ""
    for block in BLOCK.findall(text):
        match yaml.safe_load(block):
            case {"jobs": _, **others} if True in others:  # `on` is a boolean of YAML
                whole = block
                found.append(block)
            case {"jobs": _}:
                found.append(whole + block.partition("jobs:\n")[2])
            case list():
                # Steps before and after a change are alternatives: each is a workflow of its own.
                for part in re.split(r"^# ", block, flags=re.MULTILINE):
                    steps = re.sub(r"^(?!- |  ).*\n", "", part, flags=re.MULTILINE)
                    if steps.strip():
                        found.append(JOB + re.sub(r"^", "      ", steps.rstrip(), flags=re.MULTILINE) + "\n")
            case dict() as job if all(isinstance(one, dict) and "steps" in one for one in job.values()):
                found.append(whole + block)
    return found


EXAMPLES = [(page, index, text) for page in PAGES for index, text in enumerate(workflows((ROOT / page).read_text()))]


def _written(folder: Path, examples: list[tuple[str, int, str]]) -> Path:
    """The workflows as files of a repository."""
    target = folder / ".github" / "workflows"
    target.mkdir(parents=True)
    for page, index, text in examples:
        (target / f"{Path(page).stem.lower()}-{index}.yml").write_text(text)
    (folder / ".git").mkdir()
    return target


def _actionlint(linter: Path, folder: Path) -> str:
    files = sorted(str(path) for path in (folder / ".github/workflows").iterdir())
    # Labels of runners come from the pool; shellcheck and pyflakes are whatever the machine has.
    config = folder / "actionlint.yaml"
    config.write_text("self-hosted-runner:\n  labels: [bullpen-medium]\n")  # as docs/github.md tells its readers
    command = [str(linter), "-config-file", str(config), "-no-color", "-oneline", "-shellcheck=", "-pyflakes=", *files]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def _zizmor(linter: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if name not in ("GH_TOKEN", "GITHUB_TOKEN")}
    command = [str(linter), "--offline", "--no-progress", "--format=plain", f"--config={ROOT / 'zizmor.yml'}", "."]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_the_pages_show_workflows() -> None:
    assert {page for page, _, _ in EXAMPLES} >= {"README.md", "docs/github.md", "docs/migration.md"}
    assert len(EXAMPLES) >= 8


def test_actionlint_and_zizmor_find_nothing(workflow_linters: tuple[Path, Path], tmp_path: Path) -> None:
    actionlint, zizmor = workflow_linters
    _written(tmp_path, EXAMPLES)
    assert _actionlint(actionlint, tmp_path) == ""
    ran = _zizmor(zizmor, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_linters_find_what_they_are_for(workflow_linters: tuple[Path, Path], tmp_path: Path) -> None:
    actionlint, zizmor = workflow_linters
    bad = JOB + "      - uses: actions/checkout@v5\n      - run: echo ${{ needs.gone.outputs.x }}\n"
    _written(tmp_path, [("bad", 0, bad)])
    assert 'property "gone" is not defined' in _actionlint(actionlint, tmp_path)
    assert "unpinned-uses" in _zizmor(zizmor, tmp_path).stdout


@pytest.mark.parametrize(("page", "index", "text"), EXAMPLES, ids=lambda it: it if isinstance(it, str) else None)
def test_a_workflow_checks_out_what_it_runs_and_names_its_permissions(page: str, index: int, text: str) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(text)
    assert workflow["permissions"] == {}, "every permission is a job's own"
    for name, job in workflow["jobs"].items():
        assert "permissions" in job, name
        steps = [str(step.get("uses") or step.get("run")) for step in job["steps"]]
        for index_of, step in enumerate(steps):
            if step.startswith("make "):
                assert any(earlier.startswith("actions/checkout@") for earlier in steps[:index_of]), name
        used = [step for step in job["steps"] if str(step.get("uses")).startswith("OWNER/bullpen@")]
        assert {given for step in used for given in step.get("with", {})} <= set(manifest()["inputs"])
