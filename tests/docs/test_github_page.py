"""docs/github.md, followed from its first line to its last, with simulated GitHub, `bullpen serve` and runners."""

import ast
import json
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from action.steps import manifest, run_action
from agent.github.fixtures import a_runner
from bullpen.engines.github import permissions
from bullpen.host.processes import end_tree, mark_of
from fakes.github.hub import FakeGithub, JobSpec
from free_ports import a_free_port
from scenario import processes
from scenario.commands import Command, Starter
from users import lent
from walkthroughs import ROOT, Shown, blanked, commands

PAGE = "docs/github.md"
PATIENCE = 180.0  # seconds; what is waited for takes a few at most
VERSION = "2.336.0"
SOURCE = ROOT / "src" / "bullpen"
SPEAKERS = (
    "engines/local/*.py",
    "engines/github/*.py",
    "agent/*.py",
    "agent/github/*.py",
    "server/routes/*.py",
    "action/*.py",
    "settings/*.py",
    "re*/*.py",
    "provision/*.py",
)
STEP = re.compile(r"^<!-- (?P<mark>[^\n]*) -->\n(?:```(?P<kind>\w+)\n(?P<text>.*?)^```$)?", re.MULTILINE | re.DOTALL)

# A release settles its provision itself, unless a runner's last heartbeat still shows a job: then it leaves the debt to
# `serve`, which may postpone it. Both are right, and which of them happens is a matter of milliseconds.
LEFT_TO_SERVE = (
    (re.compile(r"^.* postpone .*\n", re.MULTILINE), ""),
    (re.compile(r"(settle committed → committed )serve$", re.MULTILINE), r"\1release of #"),
)

HURRY = {
    "BULLPEN_GITHUB_POLL": "1",
    "BULLPEN_TIMINGS_HEARTBEAT": "0.5",
    "BULLPEN_TIMINGS_TAKEOVER": "2",
}


@dataclass(frozen=True)
class Step:
    """Something that a reader does, or that happens meanwhile: what stands in the comment, and the block below it."""

    mark: str
    kind: str
    text: str


class Reader:
    """Does in one folder what the page says, with these differences and no others:

    - GitHub is the simulator, and GitHub's runner a stand-in for it: variables of the settings say so;
    - agents send heartbeats and runs are polled more often, so that the test is short;
    - the App's number, the port, the addresses, and the folder of the secrets are ones that exist here;
    - jobs run as users that every Debian has and nothing uses, and wait instead of testing.
    """

    def __init__(self, folder: Path, starter: Starter, hub: FakeGithub, users: tuple[str, ...]) -> None:
        self.folder, self.hub = folder, hub
        self._starter = starter
        self._url = f"http://127.0.0.1:{a_free_port()}"
        app_id, key = hub.app(_granted())
        (folder / "app.pem").write_text(key)
        (folder / "webhook-secret").write_text("long and random\n")
        (folder / "token").write_text(hub.token() + "\n")
        hub.release(VERSION, days_ago=60)
        self._instead = {
            "https://github.com": hub.url,
            "https://bullpen.example.com": self._url,
            "http://127.0.0.1:8420": self._url,
            "--port 8420": f"--port {self._url.rpartition(':')[2]}",
            "/srv/pool": str(folder),
            "/etc/bullpen": str(folder),
            '"1234567"': f'"{app_id}"',
            '"runner-1", "runner-2", "runner-3"': json.dumps(users)[1:-1],
            "make test": f"until test -e {folder}/go; do sleep 0.05; done; true",
        }
        runner = str(a_runner(folder, VERSION))
        self._environ = {"BULLPEN_GITHUB_URL": hub.url, "BULLPEN_GITHUB_RUNNER_DIRECTORY": runner, **HURRY}
        self._files: list[Path] = []
        self._background: list[Command] = []
        self._workflow: dict[str, Any] = {}

    def follow(self, step: Step) -> None:
        match step.mark.partition(": "), step.kind:
            case ("walk-through", _, _), "console":
                for shown in commands(step.text):
                    self.type(shown)
            case ("meanwhile", _, what), "":
                MEANWHILE[what](self)
            case ("workflow", _, _), "yaml":
                self._workflow = self._workflow or yaml.safe_load(self.here(step.text))
            case (name, _, _), "toml":
                with (self.folder / name).open("a") as file:
                    file.write(self.here(step.text))
            case _:
                raise AssertionError(f"unknown step: {step}")

    def type(self, shown: Shown) -> None:
        """Run a command of the page, and see it print what the page shows."""
        expected = blanked(self.here(shown.output))
        line, _, filtered = self.here(shown.command).partition(" | ")
        words = shlex.split(line)
        if words[0] == "grep":
            assert blanked(self._grep(line)) == expected, (shown.command, self.log())
            return
        assert words[0] == "bullpen", f"the page runs bullpen and grep only, not {shown.command!r}"
        if words[-1] == "&":
            self._leave_running(words[1:-3], words[-2], expected)
            return
        ran = self._start(words[1:]).wait()
        _, mark, complaint = ran.err.partition("bullpen: error:")
        out = self._grep(filtered, ran.out) if filtered else ran.out
        printed = blanked(out + mark + complaint)
        for pattern, instead in LEFT_TO_SERVE:
            printed = pattern.sub(instead, printed)
        # Rows come in the order of ids, which are drawn by chance.
        printed_all = f"{shown.command}\n{ran.out}{ran.err}\n{self.log()}"
        assert sorted(printed.splitlines()) == sorted(expected.splitlines()), printed_all
        assert (ran.code == 0) == ("error:" not in expected and " failed " not in expected), (shown.command, ran)

    def start_workflow(self, id: int) -> None:
        """A run of the page's workflow, with its first job done, as a step on a machine of GitHub's."""
        jobs = self._workflow["jobs"]
        specs = [spec for key, job in jobs.items() for spec in _specs(key, job)]
        run = self.hub.start_run("acme/widgets", specs, id=id)
        job = run.job("provision")
        environ = {"GITHUB_RUN_ID": str(id), **self.hub.oidc_environment(job)}
        (step,) = jobs["provision"]["steps"]
        ran = run_action({name: str(value) for name, value in step["with"].items()}, environ, self.folder)
        assert ran.code == 0, f"{ran.log}\n{self.log()}"
        self.hub.hosted(run, "provision", "success", ran.outputs)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < give_up, f"waited in vain until {what}\n{self.log()}"
            time.sleep(0.02)

    def count(self, table: str, condition: str) -> int:
        """Records of the pool."""
        with closing(sqlite3.connect(f"file:{self.folder / '.bullpen' / 'bullpen.db'}?mode=ro", uri=True)) as opened:
            count: int = opened.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]
        return count

    def here(self, text: str) -> str:
        for written, instead in self._instead.items():
            text = text.replace(written, instead)
        return text

    def log(self) -> str:
        """What everybody said, for a test that failed."""
        files = [self.folder / "serve.log", *sorted(self.folder.glob("*/instances/*/agent.log"))]
        return "\n".join(f"--- {file}\n{file.read_text()[-3000:]}" for file in files if file.exists())

    def stop(self) -> list[int]:
        """End what was left running as control-C would; the exit codes."""
        for command in self._background:
            command.send(signal.SIGINT)
        return [command.wait().code for command in self._background]

    def _grep(self, line: str, text: str = "") -> str:
        words = shlex.split(line)
        assert words[0] == "grep"
        found = subprocess.run(words, input=text, cwd=self.folder, capture_output=True, text=True, check=False)
        return found.stdout

    def _leave_running(self, words: list[str], log: str, expected: str) -> None:
        self._background.append(self._start(words, self.folder / log))
        self.until(lambda: blanked(self._files[-1].read_text()) == expected, f"{words} says {expected!r}")
        self.hub.webhook(f"{self._url}/v1/github/webhook", "long and random")

    def _start(self, words: list[str], err: Path | None = None) -> Command:
        out = self.folder / f"{len(self._files)}.out"
        err = err or out.with_suffix(".err")
        around = {"cwd": str(self.folder), "environ": self._environ, "ahead": 0.0}
        pid = self._starter.ask(start=words, out=str(out), err=str(err), **around)["pid"]
        self._files.append(out)
        return Command(pid, time.monotonic(), self._starter, (out, err))


# ----------------------------------------------------------------------------------------------- what happens meanwhile


def _workflow_runs(reader: Reader) -> None:
    reader.start_workflow(4711)
    reader.until(lambda: reader.count("workers", "activity <> ''") == 2, "both jobs run")


def _run_ends(reader: Reader) -> None:
    (reader.folder / "go").touch()
    reader.until(lambda: "label 4711 is released" in reader.log(), "`serve` has released it")
    reader.until(lambda: reader.log().count("UD_CLEAN_OK") == 2, "both runners are clean")
    reader.until(lambda: reader.count("provisions", "owes_kind IS NOT NULL") == 0, "the release is settled")
    (reader.folder / "go").unlink()


def _job_begins(reader: Reader) -> None:
    script = reader.here("make test")
    reader.hub.start_run("acme/widgets", [JobSpec("test", runs_on=("4712",), script=script)], id=4712)
    reader.until(lambda: reader.count("workers", "activity <> ''") == 1, "the job runs")


def _job_ends(reader: Reader) -> None:
    (reader.folder / "go").touch()
    reader.until(lambda: reader.count("instances", "attested") == 2, "both runners are on offer again")


def _new_release(reader: Reader) -> None:
    reader.hub.release("2.337.0", days_ago=28)


MEANWHILE: dict[str, Callable[[Reader], None]] = {
    "run 4711 of the workflow above has started, and its tests run": _workflow_runs,
    "the tests of run 4711 end, and so does the run": _run_ends,
    "a job of run 4712 begins": _job_begins,
    "that job ends": _job_ends,
    "GitHub released another runner 28 days ago": _new_release,
}


# ---------------------------------------------------------------------------------------------------------------- tests


@pytest.fixture
def users() -> Iterator[tuple[str, ...]]:
    with lent(3) as names:
        yield names


@pytest.fixture
def reader(github: FakeGithub, users: tuple[str, ...]) -> Iterator[Reader]:
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    folder.chmod(0o755)  # jobs of another user must get to their places
    starter = Starter("github")
    reader = Reader(folder, starter, github, users)
    try:
        yield reader
    finally:
        reader.stop()
        for instances in folder.glob("*/instances"):
            for id in dict.fromkeys(one.instance_id for one in processes.of_home(instances.parent)):
                end_tree(None, mark_of(id), patience=5.0)
        starter.close()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_the_page_leads_from_an_app_to_jobs_and_back_to_nothing(reader: Reader) -> None:
    for step in _steps():
        reader.follow(step)
    assert reader.stop() == [0]
    assert reader.hub.runners() == []


def test_every_block_of_the_page_is_used_or_marked_as_not_run() -> None:
    text = (ROOT / PAGE).read_text()
    blocks = re.findall(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n", text, re.MULTILINE)
    known = {("walk-through", "console"), ("bullpen.toml", "toml"), ("direct.toml", "toml"), ("workflow", "yaml")}
    assert {block for block in blocks if block[1] and not block[0].startswith("not run: ")} == known
    assert {step.mark.removeprefix("meanwhile: ") for step in _steps() if not step.kind} == set(MEANWHILE)


def test_the_workflows_of_page_and_readme_use_inputs_and_outputs_that_the_action_has() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    workflows = [yaml.safe_load(text) for text in (*shown, *(one.text for one in _steps() if one.mark == "workflow"))]
    assert len(workflows) == 3
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    uses = [(job, step) for job in jobs for step in job["steps"] if step.get("uses", "").startswith("OWNER/bullpen@")]
    assert {step["with"]["mode"] for _, step in uses} == {"provision", "release"}
    assert all(job["permissions"] == {"id-token": "write"} for job, _ in uses)
    assert {name for _, step in uses for name in step["with"]} <= set(manifest()["inputs"])
    read = re.findall(r"steps\.runners\.outputs\.([\w-]+)", str(workflows))
    assert read
    assert set(read) <= set(manifest()["outputs"])


def test_every_message_that_the_page_explains_is_one_of_the_programs() -> None:
    texts = [text for folder in SPEAKERS for path in sorted(SOURCE.glob(folder)) for text in _texts(path)]
    messages = re.findall(r"^\| `([^|]*?)` \|", _section("Troubleshooting"), re.MULTILINE)
    assert len(messages) > 15
    assert [one for one in messages if not any(_is_said(one, text) for text in texts)] == []


def _is_said(message: str, text: str) -> bool:
    """Whether a text of the program is this message, in which dots stand for whatever varies or follows."""
    plain = text.replace("`", "")
    return re.search(".*".join(re.escape(part.strip()) for part in message.split("…")), plain) is not None


def _texts(path: Path) -> Iterator[str]:
    """The strings of a module, as they are put together, with dots for the values in them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _steps() -> list[Step]:
    found = [Step(one["mark"], one["kind"] or "", one["text"] or "") for one in STEP.finditer(_text())]
    return [step for step in found if not step.mark.startswith("not run: ")]


def _text() -> str:
    return (ROOT / PAGE).read_text()


def _section(title: str) -> str:
    return _text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _granted() -> dict[str, str]:
    """The permissions of a repository's App, as the page lists them: they must do for everything that follows."""
    keys = {
        one.name: one.key
        for one in (permissions.runners("acme/widgets"), permissions.WRITE_RUNS, permissions.READ_DEPLOYMENTS)
    }
    section = _section("Create a GitHub App or token")
    rows = re.findall(r"^\| repository: ([\w -]+) \| (read|write)\b", section, re.MULTILINE)
    return {{"Metadata": "metadata", **keys}[name]: level for name, level in rows}


def _specs(key: str, job: dict[str, Any]) -> list[JobSpec]:
    """A job of a workflow, once for each value of its matrix."""
    script = "\n".join(step["run"] for step in job["steps"] if "run" in step)
    needs = (job["needs"],) if "needs" in job else ()
    made = JobSpec(key, runs_on=(job["runs-on"],), needs=needs, script=script)
    parts = job.get("strategy", {}).get("matrix", {}).get("part", [])
    once = [(f"{key} ({part})", script.replace("${{ matrix.part }}", str(part))) for part in parts]
    return [replace(made, name=name, script=text) for name, text in once] or [made]
