"""The first hour of a newcomer, with the wheel as users install it: the docs, the tests of a project on four runners,
warm the second time, and then the pool over HTTP."""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bullpen.engines.sqlite.notify import SHORT_ROOT
from bullpen.extras import DISTRIBUTION
from bullpen.host.processes import descendants
from docs.conftest import docs_tools
from docs.test_client_page import EXAMPLES
from docs_site import build
from installed import Environment, built, ran, wheel, without_the_checkout
from server.served import a_server
from server.test_api_document import python_tools
from server.test_generated_client import generate_and_use_a_client
from sources.trees import git, write
from users import lent

__all__ = ["built", "docs_tools", "python_tools", "wheel"]  # the fixtures

PROJECT: dict[str, str | bytes] = {
    "widgets/__init__.py": "def double(number):\n    return 2 * number\n",
    "tests/test_widgets.py": """
import json
from pathlib import Path

from widgets import double


def test_double():
    cases = json.loads(Path("tests/cases.json").read_text())
    assert cases
    assert [double(number) for number, _ in cases] == [doubled for _, doubled in cases]


def test_that_neither_ignored_files_nor_the_pool_came_along():
    assert not [name for name in ("secrets.env", ".bullpen", ".git") if Path(name).exists()]
""",
    ".gitignore": "secrets.env\n/out/\n",
}
UNTRACKED: dict[str, str | bytes] = {"tests/cases.json": "[[1, 2], [4, 8]]", "secrets.env": "TOKEN=secret"}
PYTHONS = (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3")
TAG = re.compile("<[^>]*>")
SUPPORTED = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
PAGES = {  # that a newcomer follows, and what each lets them type
    "install": "pipx install",
    "quickstart": "bullpen provision",
    "run": "bullpen run --count 4",
    "serve": "bullpen serve",
    "client": "bullpen.client",
    "api": "provisionRun",
}
PATIENT = {"BULLPEN_TIMINGS_IDLE": "7200"}
"""Beside ten busy processes an installation takes longer than idle runners stay on offer."""
RUN = "bullpen run --count 4 --json --artifact 'report*.xml' --out out -- "
RUN += "python -m pytest -q --junitxml report-{index}.xml"


@pytest.fixture(scope="module")
def env(wheel: Path) -> Iterator[Environment]:
    """An environment with the wheel and pytest, which every user of this machine can use."""
    folder = Path(tempfile.mkdtemp(prefix="hour-", dir=SHORT_ROOT))
    folder.chmod(0o755)
    try:
        env = Environment(folder, a_python_of_every_user())
        env.install(wheel, "pytest")
        yield env
    finally:
        shutil.rmtree(folder)


def a_python_of_every_user() -> str:
    """The Python of these tests, unless it is below a directory of root's; then the system's, if it is supported."""
    for python in map(Path, PYTHONS):
        with suppress(OSError):
            is_open = all(path.stat().st_mode & 0o001 for path in (python.resolve(), *python.resolve().parents))
            if is_open and ran([python, "-c", SUPPORTED], SHORT_ROOT).returncode == 0:
                return str(python)
    return PYTHONS[0]


@dataclass
class Newcomer:
    """A user with an activated environment, who types commands in a project."""

    env: Environment
    project: Path
    user: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        path = f"{self.env.folder / 'env/bin'}:{os.environ['PATH']}"
        home = {"HOME": str(self.project.parent), "VIRTUAL_ENV": str(self.env.folder / "env")}
        return {"PATH": path, **home, **PATIENT}

    def types(self, line: str, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
        found = ran(["env", *shlex.split(line)], self.project, self.user, **self.variables, **variables)
        assert found.returncode == code, f"{line}: {found.returncode}\n{found.stdout}\n{found.stderr}"
        return found

    def answer(self, line: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.types(line).stdout)
        return found

    def pool(self) -> dict[str, str]:
        """The instances, with their states."""
        return {one["id"]: one["state"] for one in self.answer("bullpen status --json")["instances"]}


@contextmanager
def a_newcomer(env: Environment, user: str | None = None) -> Iterator[Newcomer]:
    """With a project whose tests need an untracked file, and must not find an ignored one."""
    folder = Path(tempfile.mkdtemp(prefix="hour-", dir=SHORT_ROOT))
    project = folder / "project"
    write(project, PROJECT)
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "first")
    write(project, UNTRACKED)
    if user:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user, pwd.getpwnam(user).pw_gid)
    newcomer = Newcomer(env, project, user)
    try:
        yield newcomer
    finally:
        ran([env.bullpen, "down", "--yes"], project, user, **newcomer.variables)
        shutil.rmtree(folder)


def test_the_first_hour(env: Environment, tmp_path: Path, python_tools: Path, docs_tools: Path) -> None:
    site = build(tmp_path / "docs")
    for page, command in PAGES.items():
        assert command in TAG.sub("", (site / f"{page}.html").read_text()), page
    with a_newcomer(env) as newcomer:
        runners = run_the_tests_of_the_project(newcomer)
        env.install(f"{DISTRIBUTION}[serve,client]")  # beside a warm pool
        variables = without_the_checkout() | newcomer.variables
        with a_server(newcomer.project / ".bullpen", program=[str(env.bullpen)], env=variables) as served:
            generate_and_use_a_client(tmp_path, served.url, python_tools)
            use_a_server(newcomer, f"bullpen --server {served.url}")
            said = newcomer.types(shlex.join(["python", "-c", EXAMPLES[0]]), BULLPEN_SERVER=served.url)
            assert said.stdout == "hello from a runner\nsucceeded\n"
            assert served.end() == 0
        assert newcomer.pool() == dict.fromkeys(runners, "idle")
        ended = newcomer.answer("bullpen down --json")
        assert set(ended["terminated"]) == runners
        assert newcomer.pool() == {}


def test_a_normal_user_runs_the_tests_of_a_project_too(env: Environment) -> None:
    """The test above has done it, unless it ran as root."""
    if os.geteuid() != 0:
        pytest.skip("these tests run as a normal user")
    with lent(1) as (user,):
        if ran(["env", env.python, "-c", ""], SHORT_ROOT, user).returncode:
            reason = f"NOT TESTED: {user} can execute none of {', '.join(PYTHONS)}"
            (pytest.fail if os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1" else pytest.skip)(reason)
        with a_newcomer(env, user) as newcomer:
            run_the_tests_of_the_project(newcomer)
            newcomer.types("bullpen down")
            assert descendants(None, "no mark", pwd.getpwnam(user).pw_uid) == ()


def use_a_server(newcomer: Newcomer, bullpen: str) -> None:
    """The same commands, over HTTP."""
    ran = newcomer.types(f"{bullpen} run --count 4 --no-sync --json -- python -m pytest --version")
    jobs = json.loads(ran.stdout)["jobs"]
    assert [job["result"] for job in jobs] == ["succeeded"] * 4
    assert {job["instanceId"] for job in jobs} == newcomer.pool().keys()
    assert newcomer.types(f"{bullpen} job logs {jobs[0]['id']}").stdout.startswith("pytest ")


def run_the_tests_of_the_project(newcomer: Newcomer) -> set[str]:
    """Cold, warm, and after a change: on four runners each time. Return these."""
    cold = newcomer.types(RUN)
    assert "sending 4 changed files" in cold.stderr
    assert cold.stderr.count("2 passed") == 4
    jobs = json.loads(cold.stdout)["jobs"]
    assert [job["result"] for job in jobs] == ["succeeded"] * 4
    runners = {job["instanceId"] for job in jobs}
    assert newcomer.pool() == dict.fromkeys(runners, "idle")
    assert len(runners) == 4
    assert reports(newcomer) == {f"job-{index}/report-{index}.xml": (2, 0) for index in range(4)}

    warm = newcomer.types(RUN)
    assert "sending nothing" in warm.stderr
    assert {job["instanceId"] for job in json.loads(warm.stdout)["jobs"]} == runners

    write(newcomer.project, {"tests/cases.json": "[[1, 2], [4, 9]]"})
    changed = newcomer.types(RUN, code=1)
    assert "sending 1 changed file, 16 B of" in changed.stderr
    assert changed.stderr.count("1 failed, 1 passed") == 4
    assert reports(newcomer) == {f"job-{index}/report-{index}.xml": (2, 1) for index in range(4)}
    assert newcomer.pool() == dict.fromkeys(runners, "idle")
    return runners


def reports(newcomer: Newcomer) -> dict[str, tuple[int, int]]:
    """What the jobs' reports that came back count: tests and failures. They are the user's own files."""
    found = {}
    out = newcomer.project / "out"
    for path in (path for path in out.rglob("*") if path.is_file()):
        suite = xml.parse(path).getroot()[0]
        found[str(path.relative_to(out))] = int(suite.attrib["tests"]), int(suite.attrib["failures"])
        assert path.owner() == newcomer.project.owner()
    return found
