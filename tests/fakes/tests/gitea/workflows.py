"""Workflows for the real Gitea. Their steps are plain commands: an action would be fetched from the internet."""

from __future__ import annotations

from fakes.gitea.api import GiteaRepository, Json

OWN_LABEL = "run-${{ github.run_id }}"
PATH = ".gitea/workflows/check.yaml"


def one_job(command: str, runs_on: str = OWN_LABEL) -> dict[str, str]:
    """The files of a repository that pushes start a job `build` of."""
    return {PATH: f"on: push\njobs:\n  build:\n    runs-on: {runs_on}\n    steps:\n      - run: {command}\n"}


def waiting(repository: GiteaRepository, command: str) -> tuple[Json, Json]:
    """Its run and its job, which no runner has the label for."""
    run = repository.run_of(repository.push(one_job(command)))
    return run, repository.job_that(run["id"], "build", status="queued")
