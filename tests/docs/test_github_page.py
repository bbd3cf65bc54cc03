"""docs/github.md, followed from its first line to its last, with simulated GitHub, `bullpen serve` and runners."""

import json
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from action.steps import manifest, run_action
from agent.github.fixtures import a_runner
from bullpen.engines.github import permissions
from bullpen.host.processes import end_tree, mark_of
from bullpen.settings import load
from bullpen.settings.scale_sets import completed
from docs.program_texts import texts_of
from docs.reader import PATIENCE, Reader
from fakes.github.hub import FakeGithub, JobSpec
from fakes.github.state import Run
from scenario import processes
from scenario.commands import Starter
from users import lent
from walkthroughs import ROOT, PageStep, steps

PAGE = "docs/github.md"
VERSION = "2.336.0"
SOURCE = ROOT / "src" / "bullpen"
SPEAKERS = (
    "engines/local/*.py",
    "engines/github/*.py",
    "engines/github/scale_sets/*.py",
    "agent/*.py",
    "agent/github/*.py",
    "server/routes/*.py",
    "action/*.py",
    "cli/doctor_*.py",
    "settings/*.py",
    "re*/*.py",
    "provision/*.py",
    "scale_sets/*.py",
    "workflows/settle_losses.py",
    "model/served_set.py",
    "pool/runner_versions.py",
)

# A release settles its provision itself, unless a runner's last heartbeat still shows a job: then it leaves the debt to
# `serve`, which may postpone it. Both are right, and which of them happens is a matter of milliseconds.
LEFT_TO_SERVE = {r"^.* postpone .*\n": "", r"( settle committed  → committed  )serve$": r"\1release of 4711"}
# An error about settings lists where they come from, this test's own variables included.
NOT_OF_READERS = {r"\bBULLPEN_\w+, ": ""}
# The id of a session; and since when it is held: for seconds or, on a busy machine, for minutes.
SESSION = {r"session=[0-9a-f-]{36}": "session=#", r"(\(\d+\), |began to listen |last message came )\d+[sm]": r"\1#s"}

HURRY = {
    "BULLPEN_GITHUB_POLL": "1",
    "BULLPEN_TIMINGS_HEARTBEAT": "0.5",
    "BULLPEN_TIMINGS_TAKEOVER": "2",
}


class PageReader(Reader):
    """Reads this page, with more differences:

    - GitHub is the simulator, and GitHub's runner a stand-in for it: variables of the settings say so;
    - agents send heartbeats and runs are polled more often, so that the test is short;
    - the App's number, the addresses, and the folder of the secrets are ones that exist here;
    - jobs run as users that every Debian has and nothing uses, and wait instead of testing.
    """

    def __init__(self, folder: Path, starter: Starter, hub: FakeGithub, users: tuple[str, ...]) -> None:
        app_id, key = hub.app(_granted())
        (folder / "app.pem").write_text(key)
        (folder / "webhook-secret").write_text("long and random\n")
        (folder / "token").write_text(hub.token() + "\n")
        hub.release(VERSION, days_ago=60)
        runner = str(a_runner(folder, VERSION))
        environ = {"BULLPEN_GITHUB_URL": hub.url, "BULLPEN_GITHUB_RUNNER_DIRECTORY": runner, **HURRY}
        super().__init__(folder, starter, environ=environ, varying=LEFT_TO_SERVE | NOT_OF_READERS | SESSION)
        self.hub = hub
        self.url = f"http://127.0.0.1:{self.place().port}"
        self.instead |= {
            "https://github.com": hub.url,
            "https://bullpen.example.com": self.url,
            "/etc/bullpen": str(folder),
            '"1234567"': f'"{app_id}"',
            "App 1234567": f"App {app_id}",
            '"runner-1", "runner-2", "runner-3"': json.dumps(users)[1:-1],
            "make test": f"until test -e {folder}/go; do sleep 0.05; done; true",
        }
        self.meanwhile = {what: partial(happens, self) for what, happens in MEANWHILE.items()}
        self._workflows: dict[str, dict[str, Any]] = {}  # the first of run labels, and that of a scale set

    def prepare(self, step: PageStep) -> None:
        if step.mark == "workflow":
            self._workflows.setdefault(step.about, yaml.safe_load(self.here(step.text)))
        else:
            super().prepare(step)

    def push(self, id: int, workflow: str = "") -> Run:
        jobs = self._workflows[workflow]["jobs"]
        specs = [spec for key, job in jobs.items() for spec in _specs(key, job)]
        return self.hub.start_run("acme/widgets", specs, id=id)

    def start_workflow(self, id: int) -> None:
        """A run of the page's workflow, with its first job done, as a step on a machine of GitHub's."""
        self.hub.webhook(f"{self.url}/v1/github/webhook", "long and random")
        jobs = self._workflows[""]["jobs"]
        run = self.push(id)
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

    def count(self, table: str, condition: str, place: str = "") -> int:
        """Records of the pool."""
        database = self.place(place).home / ".bullpen" / "bullpen.db"
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            count: int = opened.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0]
        return count

    def log(self) -> str:
        """What server and agents said, for a test that failed."""
        files = [*sorted(self.folder.glob("*/serve.log")), *sorted(self.folder.glob("*/*/instances/*/agent.log"))]
        return "\n".join(f"--- {file}\n{file.read_text()[-3000:]}" for file in files if file.exists())


# ----------------------------------------------------------------------------------------------- what happens meanwhile


def _set_runs(reader: PageReader) -> None:
    reader.push(4801, "sets")
    reader.until(lambda: reader.count("workers", "activity LIKE '%4801%'", "sets") == 1, "the job of the set runs")


def _set_stops(reader: PageReader) -> None:
    (reader.folder / "go").touch()
    reader.until(lambda: reader.count("workers", "activity LIKE '%4801%'", "sets") == 0, "the job of the set has ended")
    assert reader.place("sets").stop() == [0]
    (reader.folder / "go").unlink()


def _workflow_runs(reader: PageReader) -> None:
    reader.start_workflow(4711)
    reader.until(lambda: reader.count("workers", "activity <> ''") == 2, "both jobs run")


def _run_ends(reader: PageReader) -> None:
    (reader.folder / "go").touch()
    reader.until(lambda: "label released" in reader.log(), "`serve` has released it")
    reader.until(lambda: reader.log().count("UD_CLEAN_OK") == 2, "both runners are clean")
    reader.until(lambda: reader.count("provisions", "owes_kind IS NOT NULL") == 0, "the release is settled")
    (reader.folder / "go").unlink()


def _job_begins(reader: PageReader) -> None:
    script = reader.here("make test")
    reader.hub.start_run("acme/widgets", [JobSpec("test", runs_on=("4712",), script=script)], id=4712)
    reader.until(lambda: reader.count("workers", "activity <> ''") == 1, "the job runs")


def _job_ends(reader: PageReader) -> None:
    (reader.folder / "go").touch()
    reader.until(lambda: reader.count("instances", "attested") == 2, "both runners are on offer again")


def _new_release(reader: PageReader) -> None:
    reader.hub.release("2.337.0", days_ago=28)


MEANWHILE: dict[str, Callable[[PageReader], None]] = {
    "a push starts the workflow above, and its test runs": _set_runs,
    "the job ends, and you stop `serve`": _set_stops,
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
def reader(github: FakeGithub, users: tuple[str, ...]) -> Iterator[PageReader]:
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    folder.chmod(0o755)  # jobs of another user must get to their places
    starter = Starter("github")
    reader = PageReader(folder, starter, github, users)
    try:
        yield reader
    finally:
        for place in ("sets", ""):
            reader.place(place).stop()
        for instances in folder.glob("*/*/instances"):
            for id in dict.fromkeys(one.instance_id for one in processes.of_home(instances.parent)):
                end_tree(None, mark_of(id), patience=5.0)
        starter.close()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_the_page_leads_from_an_app_to_jobs_and_back_to_nothing(reader: PageReader) -> None:
    for step in steps(PAGE):
        reader.follow(step)
    assert reader.place().stop() == [0]
    assert reader.hub.runners() == []


def test_every_block_of_the_page_is_used_or_marked_as_not_run() -> None:
    text = (ROOT / PAGE).read_text()
    blocks = re.findall(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n", text, re.MULTILINE)
    known = {("walk-through", "console"), ("bullpen.toml", "toml"), ("direct.toml", "toml"), ("workflow", "yaml")}
    known |= {("walk-through: sets", "console"), ("bullpen.toml: sets", "toml"), ("workflow: sets", "yaml")}
    assert {block for block in blocks if block[1] and not block[0].startswith("not run: ")} == known
    assert {step.about for step in steps(PAGE) if step.mark == "meanwhile"} == set(MEANWHILE)


def test_the_workflows_of_page_and_readme_use_inputs_and_outputs_that_the_action_has() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    shown += [step.text for step in steps(PAGE) if step.mark == "workflow"]
    workflows = [yaml.safe_load(text) for text in shown]
    assert len(workflows) == 4
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    uses = [(job, step) for job in jobs for step in job["steps"] if step.get("uses", "").startswith("OWNER/bullpen@")]
    assert {step["with"]["mode"] for _, step in uses} == {"provision", "release"}
    assert all(job["permissions"] == {"id-token": "write"} for job, _ in uses)
    assert {name for _, step in uses for name in step["with"]} <= set(manifest()["inputs"])
    read = re.findall(r"steps\.runners\.outputs\.([\w-]+)", str(workflows))
    assert read
    assert set(read) <= set(manifest()["outputs"])


def test_the_workflow_of_a_scale_set_names_the_set_of_the_settings_above_it(tmp_path: Path) -> None:
    written = {step.mark: step.text for step in steps(PAGE) if step.about == "sets"}
    (tmp_path / "bullpen.toml").write_text(written["bullpen.toml"])
    sets = completed(load({}, config=str(tmp_path / "bullpen.toml")).settings)
    asked = [job["runs-on"] for job in yaml.safe_load(written["workflow"])["jobs"].values()]
    assert asked == [one.name for one in sets.values()] == ["bullpen-medium"]


def test_every_message_that_the_page_explains_is_one_of_the_programs() -> None:
    paths = [path for folder in SPEAKERS for path in sorted(SOURCE.glob(folder))]
    texts = [text.replace("`", "") for path in paths for text in texts_of(path)]
    messages = re.findall(r"^\| `([^|]*?)` \|", _section("Troubleshooting"), re.MULTILINE)
    assert len(messages) > 15
    assert [one for one in messages if not any(map(_pattern(one).search, texts))] == []


def _pattern(message: str) -> re.Pattern[str]:
    """Finds this message in a text of the program; dots in it stand for whatever varies or follows."""
    return re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")))


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
