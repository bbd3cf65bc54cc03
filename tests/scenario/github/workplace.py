"""One box that serves GitHub: `bullpen serve` and its agents as real processes, and a GitHub of our own.

Jobs run as another user if we are root, as which GitHub's runner refuses to: so everything lies where all may pass.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action.steps import Ran, run_action
from agent.actions_stage import a_runner
from bullpen.engines.keys import Keys, Scope
from bullpen.engines.processes import TreeSurvived, end_tree, identify, mark_of
from github.hub import FakeGithub, Job, Run
from scenario import processes
from scenario.audit import audit
from users import lent
from web.served import Served, a_server, command, environment

MOST = 4  # instances at once: each has a user of its own
PATIENCE = 60.0  # seconds; what is waited for takes a few at most, so only a failing test takes so long
SECRET = "a secret that only GitHub and serve know"

SETTINGS = """
[engines]
ci = "github"

[github]
scope = "{scope}"
url = "{hub.url}"
token = "{token}"
oidc-issuer = "{hub.issuer}"
webhook-secret = "{secret}"
runner-directory = "{runner}"
poll = 2
{github}

[agent]
serve-url = "{serve}"

[local]
runner-users = {users}

[timings]
heartbeat = 0.5
lease = 2
alive = 4
hedge = 1
registration = 15
validation = 30
provision = 60
orphan = 3
idle = 600
{timings}

[liveness]
confirm = 1
min-lease = 1
grace-gap = 5
"""


@dataclass
class Workplace:
    ground: Path
    hub: FakeGithub
    served: Served
    config: Path

    @property
    def home(self) -> Path:
        return self.ground / "home"

    def act(self, job: Job, inputs: Mapping[str, str]) -> Ran:
        """The action as a step of this job, on a machine of GitHub's: no credentials, only who it is."""
        run = job.run
        environ = {
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_REPOSITORY": run.repository.name,
            **self.hub.oidc_environment(job),
        }
        folder = self.ground / "steps"
        folder.mkdir(exist_ok=True)
        return run_action({"server": self.served.url, **inputs}, environ, folder)

    def bullpen(self, *arguments: str) -> dict[str, Any]:
        """A command of the operator's, on this box."""
        line = command(self.home, *arguments, "--config", str(self.config), "--json")
        ran = subprocess.run(line, capture_output=True, text=True, env=environment(), timeout=PATIENCE)
        assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}\n{self.told()}"
            time.sleep(0.05)

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query, parameters).fetchall()

    def ids(self, where: str) -> list[str]:
        return [id for (id,) in self.rows(f"SELECT id FROM instances WHERE {where} ORDER BY id")]

    def kill_machine(self, id: str) -> None:
        """The whole machine dies at once: agent, runner, job; nobody says goodbye."""
        (agent,) = [one.pid for one in processes.of_home(self.home) if one.is_agent and one.instance_id == id]
        os.kill(agent, 9)
        end_tree(identify(agent), mark_of(id), patience=5.0)

    def audit(self) -> list[str]:
        return audit(self.home)

    def told(self) -> str:
        """What everybody said, for a test that failed."""
        files = [self.ground / "serve.log", *sorted(self.home.glob("instances/*/agent.log"))]
        shown = [f"--- {file}\n{file.read_text(errors='replace')[-6000:]}" for file in files if file.exists()]
        runs = [
            f"{run.id} attempt {run.attempt} {run.state} {run.conclusion}: {_jobs(run)}"
            for run in self.hub._state.runs.values()
        ]
        return "\n".join([*shown, *runs, f"calls: {list(self.hub.calls)[-30:]}"])

    def end(self) -> None:
        for id in dict.fromkeys(one.instance_id for one in processes.of_home(self.home)):
            with suppress(TreeSurvived):
                end_tree(None, mark_of(id), patience=5.0)


def _jobs(run: Run) -> str:
    return ", ".join(f"{job.name}={job.status}/{job.conclusion}@{job.runner_name}" for job in run.jobs(run.attempt))


@contextmanager
def a_workplace(
    hub: FakeGithub, *, scope: str = "acme/widgets", github: str = "", timings: str = ""
) -> Iterator[Workplace]:
    """Serving until the block ends; then every process of it is ended, each by its pid."""
    with lent(MOST) as users:
        yield from _a_workplace(hub, users, scope, github, timings)


def _a_workplace(hub: FakeGithub, users: tuple[str, ...], scope: str, github: str, timings: str) -> Iterator[Workplace]:
    ground = Path(tempfile.mkdtemp(prefix="workplace-"))
    ground.chmod(0o755)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = ground / "bullpen.toml"
    config.touch(mode=0o600)
    config.write_text(
        SETTINGS.format(
            hub=hub,
            scope=scope,
            token=hub.token(),
            secret=SECRET,
            runner=a_runner(ground),
            serve=f"http://127.0.0.1:{port}",
            users=json.dumps(users),
            github=github,
            timings=timings,
        )
    )
    Keys(ground / "home").create(Scope.ADMIN, None)
    try:
        with a_server(ground / "home", "--port", str(port), "--config", str(config)) as served:
            place = Workplace(ground, hub, served, config)
            hub.webhook(f"{served.url}/v1/github/webhook", SECRET)
            try:
                yield place
            finally:
                place.end()
    finally:
        shutil.rmtree(ground, ignore_errors=True)
