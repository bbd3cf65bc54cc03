"""Where GitHub is served, whatever the pool stands on: `bullpen serve` and its agents as real processes, and the
fake GitHub.

If the tests run as root, jobs run as another user, because GitHub's runner refuses to run as root: so everything lies
where all users may pass.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from action.steps import StepResult, run_action
from agent.github.fixtures import a_runner
from fakes.github.hub import FakeGithub, Job, Run
from free_ports import a_free_port
from made_tokens import make_token

PATIENCE = 180.0  # seconds; what is waited for takes a few at most, so only a failing test takes so long
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

[timings]
heartbeat = 0.5
lease = {lease}
alive = {lease}
hedge = 5
registration = 30
validation = 50
provision = 60
orphan = 3
idle = 600
{timings}

[liveness]
confirm = 3
grace-gap = 10
"""


@dataclass(kw_only=True)
class GithubSite(ABC):
    ground: Path
    port: int
    hub: FakeGithub

    @property
    def home(self) -> Path:
        return self.ground / "home"

    @property
    def config(self) -> Path:
        return self.ground / "bullpen.toml"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def act(self, job: Job, inputs: Mapping[str, str]) -> StepResult:
        """The action as a step of this job, on a machine of GitHub's: no credentials, only who it is."""
        run = job.run
        environ = {
            "GITHUB_RUN_ID": str(run.id),
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_REPOSITORY": run.repository.name,
            "GITHUB_REPOSITORY_ID": str(run.repository.id),
            **self.hub.oidc_environment(job),
        }
        folder = self.ground / "steps"
        folder.mkdir(exist_ok=True)
        try:
            return run_action({"server": self.url, **inputs}, environ, folder)
        except AssertionError as exc:
            raise AssertionError(f"{exc}\n{self.told()}") from None

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"waited in vain until {what}\n{self.told()}"
            time.sleep(0.05)

    def told(self) -> str:
        """What every process printed, for a test that failed."""
        shown = [f"--- {file}\n{file.read_text(errors='replace')[-6000:]}" for file in self.logs() if file.exists()]
        runs = [
            f"{run.id} attempt {run.attempt} {run.state} {run.conclusion}: {_jobs(run)}"
            for run in self.hub._state.runs.values()
        ]
        return "\n".join([*shown, *runs, f"calls: {list(self.hub.calls)[-30:]}"])

    @abstractmethod
    def logs(self) -> list[Path]: ...

    @abstractmethod
    def live(self) -> list[str]:
        """The instances that have not ended, by their records, in order; as below."""

    @abstractmethod
    def on_offer(self) -> list[str]: ...

    @abstractmethod
    def told_of_job(self, id: str) -> bool:
        """Whether its worker has said what its runner executes."""

    @abstractmethod
    def kill_machine(self, id: str) -> None:
        """The whole machine dies at once: agent, runner, job; none of them signs off."""

    @abstractmethod
    def audit(self) -> list[str]:
        """Every violation in a sentence; empty if all is well. The pool must be at rest."""

    @abstractmethod
    def stop(self) -> None:
        """End `serve`, as an operator does."""

    @abstractmethod
    def down(self) -> None:
        """`bullpen down`, once `serve` has ended."""


@contextmanager
def a_ground(
    hub: FakeGithub,
    *,
    scope: str = "acme/widgets",
    github: str = "",
    timings: str = "",
    more: str = "",
    lease: str = "20",
) -> Iterator[tuple[Path, int]]:
    """What is there before `serve` starts: GitHub's runner, the settings with `more` of them, and a port for `serve`.
    A caller without a token has no permission."""
    ground = Path(tempfile.mkdtemp(prefix="workplace-"))
    ground.chmod(0o755)
    port = a_free_port()
    settings = SETTINGS.format(
        hub=hub,
        scope=scope,
        token=hub.token(),
        secret=SECRET,
        runner=a_runner(ground),
        serve=f"http://127.0.0.1:{port}",
        github=github,
        timings=timings,
        lease=lease,
    )
    config = ground / "bullpen.toml"
    config.touch(mode=0o600)
    config.write_text(settings + more)
    make_token(ground / "home")
    try:
        yield ground, port
    finally:
        shutil.rmtree(ground, ignore_errors=True)


def _jobs(run: Run) -> str:
    return ", ".join(f"{job.name}={job.status}/{job.conclusion}@{job.runner_name}" for job in run.jobs(run.attempt))
