"""Workflow runs in memory, as one process reaches them."""

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.github import GithubRun, MemoryGithub
from bullpen.errors import Conflict, NotFound
from bullpen.ports import WorkflowJob, WorkflowRun

FIRST_REPOSITORY = 1001  # its id


class MemoryWorkflows:
    def __init__(self, hub: MemoryGithub, faults: Faults) -> None:
        self._hub = hub
        self._faults = faults

    @request("workflows.repository_id")
    def repository_id(self, repository: str) -> int:
        ids = self._hub.repositories
        if not (found := ids.setdefault(repository.casefold(), FIRST_REPOSITORY + len(ids))):
            raise NotFound(f"{repository} does not exist, or the token may not see it")
        return found

    @request("workflows.run")
    def run(self, repository: str, run: str) -> WorkflowRun:
        return self._hub.seen(repository, run)[0]

    @request("workflows.jobs")
    def jobs(self, repository: str, run: str, attempt: int) -> list[WorkflowJob]:
        attempts = self._hub.seen(repository, run)[1]
        return attempts[attempt - 1] if attempt <= len(attempts) else []

    @request("workflows.waiting_jobs")
    def waiting_jobs(self, repository: str, runs: int) -> list[WorkflowJob]:
        self._hub.allows("waiting_jobs")
        own = [run for run in self._hub.runs.values() if run.repository.casefold() == repository.casefold()]
        found = [self._hub.seen(repository, run.id) for run in own]
        unfinished = sorted((one for one in found if not one[0].completed), key=lambda one: one[0].attempt == 1)
        return [job for _, attempts in unfinished[:runs] for job in attempts[-1] if job.waits]

    @request("workflows.groups_open_to")
    def groups_open_to(self, repository: str) -> list[str] | None:
        return None if self._hub.open_groups is None else self._hub.open_groups.get(repository.casefold(), [])

    @request("workflows.deploying")
    def deploying(self, run: WorkflowRun, jobs: list[WorkflowJob]) -> list[int]:
        self._hub.allows("deploying")
        ids = {job.id for job in jobs}
        found = [job for attempt in self._hub.of(run.repository, run.run).attempts for job in attempt]
        return [job.id for job in found if job.id in ids and job.spec.environment and job.runner]

    @request("workflows.rerun_job")
    def rerun_job(self, repository: str, job: int) -> None:
        self._hub.allows("rerun_job")
        for run in self._hub.runs.values():
            for attempt in run.attempts:
                if (found := next((one for one in attempt if one.id == job), None)) is None:
                    continue
                _check_over(run)
                if attempt is not run.jobs:
                    raise Conflict(f"job {job}: only jobs from the current attempt can be re-run")
                return self._hub.rerun(run, (found.spec.name,))
        raise NotFound(f"job {job} of {repository} does not exist")

    @request("workflows.rerun_failed")
    def rerun_failed(self, repository: str, run: str) -> None:
        self._hub.allows("rerun_failed")
        found = self._hub.of(repository, run)
        _check_over(found)
        self._hub.rerun(found, tuple(job.spec.name for job in found.jobs if job.failed))

    @request("workflows.cancel")
    def cancel(self, repository: str, run: str) -> None:
        self._hub.allows("cancel")
        self._hub.cancels.append(run)
        self._hub.cancel(self._hub.of(repository, run))


def _check_over(run: GithubRun) -> None:
    if not run.completed:
        raise Conflict(f"the workflow run {run.id} is already running")
