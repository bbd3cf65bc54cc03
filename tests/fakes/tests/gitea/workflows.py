"""Workflows for the real Gitea, and runners for their jobs. Steps are plain commands: an action would be fetched from
the internet."""

from __future__ import annotations

import json
from collections.abc import Callable

from fakes.gitea.api import GiteaRepository, GiteaScope, Json
from fakes.gitea.runner import GiteaRunner
from fakes.gitea.waiting import until

Runners = Callable[..., GiteaRunner]

OWN_LABEL = "run-${{ github.run_id }}"
PATH = ".gitea/workflows/check.yaml"


def one_job(command: str, runs_on: str = OWN_LABEL) -> dict[str, str]:
    """The files of a repository that pushes start a job `build` of."""
    step = json.dumps({"run": command})  # JSON is YAML
    return {PATH: f"on: push\njobs:\n  build:\n    runs-on: {runs_on}\n    steps: [{step}]\n"}


def waiting(repository: GiteaRepository, command: str) -> tuple[Json, Json]:
    """Its run and its job, which no runner has the label for."""
    run = repository.run_of(repository.push(one_job(command)))
    return run, repository.job_that(run["id"], "build", status="queued")


def registered(make: Runners, where: GiteaScope, run: Json, **changed: str) -> GiteaRunner:
    """An ephemeral runner with the label of the run."""
    runner = make(**changed)
    labels = [f"run-{run['id']}:host"]
    assert runner.register(where.registration_token(), "bullpen-1", labels) == 0, runner.log.read_text()
    return runner


def at_work(
    make: Runners, repository: GiteaRepository, first: str = "true", **changed: str
) -> tuple[GiteaRunner, Json]:
    """A runner whose job has begun, with a command, and ends when it may; and the job."""
    command = f"{first}; touch $HOME/begun; until [ -e $HOME/may_end ]; do sleep 0.05; done; touch $HOME/ended"
    run, job = waiting(repository, command)
    runner = registered(make, repository, run, **changed)
    runner.start()
    until(lambda: (runner.folder / "begun").exists(), f"the step has begun: {runner.log}")
    return runner, job


def let_end(runner: GiteaRunner) -> None:
    (runner.folder / "may_end").touch()
