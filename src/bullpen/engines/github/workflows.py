"""Workflow runs of GitHub Actions: reads their state, runs jobs again, cancels."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bullpen.engines.github import deployments
from bullpen.engines.github.answers import GithubAnswer, GithubCall, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import READ_RUNS, WRITE_RUNS
from bullpen.errors import Conflict, NotFound, PermissionDenied, Refused
from bullpen.ports import Conclusion, WorkflowJob, WorkflowRun
from bullpen.settings.github import covers

SPACING = 1.0  # seconds between re-runs: GitHub asks for that of everything that sets off more
MOVED_ON = ("already running", "current attempt")  # in GitHub's words: not completed, or run again meanwhile
NO_MORE = ("cannot be retried", "unable to retry", "cannot be re-run")  # too old, too often, or never

_CONCLUSIONS = {
    "success": Conclusion.SUCCESS,
    "neutral": Conclusion.SUCCESS,
    "skipped": Conclusion.SUCCESS,
    "cancelled": Conclusion.CANCELLED,
}


class GithubWorkflows:
    """`ports.Workflows` for the repositories of one scope. Others are not asked after: who names one has made it up."""

    def __init__(self, client: GithubClient) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._last = -SPACING

    async def run(self, repository: str, run: str) -> WorkflowRun:
        call = GithubCall("GET", self._path(repository, run), READ_RUNS)
        answer = await self._client.ask(call, expecting=(404,), remembers=True)
        if answer.status == 404:
            raise _missing(repository, run)
        with understood(call):
            return WorkflowRun(
                repository=repository,
                run=run,
                attempt=int(answer.body.get("run_attempt") or 1),
                completed=answer.body["status"] == "completed",
                conclusion=answer.body["conclusion"] or "",
                head_sha=answer.body["head_sha"],
                url=answer.body["html_url"],
            )

    async def jobs(self, repository: str, run: str, attempt: int) -> list[WorkflowJob]:
        call = GithubCall("GET", f"{self._path(repository, run)}/attempts/{attempt}/jobs", READ_RUNS)
        found = await self._client.listed(call, "jobs", expecting=(404,))
        if found is None:
            raise _missing(repository, run)
        with understood(call):
            return [_job(one, attempt) for one in found]

    async def deploying(self, run: WorkflowRun, jobs: list[WorkflowJob]) -> list[int]:
        self._path(run.repository, run.run)
        return await deployments.deploying(self._client, run, jobs)

    async def rerun_job(self, repository: str, job: int) -> None:
        await self._rerun(f"{self._repository(repository)}/actions/jobs/{job}/rerun")

    async def rerun_failed(self, repository: str, run: str) -> None:
        await self._rerun(f"{self._path(repository, run)}/rerun-failed-jobs")

    async def cancel(self, repository: str, run: str) -> None:
        call = GithubCall("POST", f"{self._path(repository, run)}/cancel", WRITE_RUNS)
        answer = await self._client.ask(call, expecting=(404, 409))
        if answer.status == 404:
            raise _missing(repository, run)
        if answer.status == 409 and not (await self.run(repository, run)).completed:
            raise Conflict(f"{call}: {answer.message}")  # between two attempts: it is not there to be cancelled yet

    async def _rerun(self, path: str) -> None:
        call = GithubCall("POST", path, WRITE_RUNS)
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(max(0.0, self._last + SPACING - loop.time()))
            try:
                answer = await self._client.ask(call, expecting=(403, 404, 409))
            finally:
                self._last = loop.time()
        if answer.status >= 300:
            raise _not_rerun(call, answer)

    def _path(self, repository: str, run: str) -> str:
        if not run.isascii() or not run.isdigit():
            raise _missing(repository, run)
        return f"{self._repository(repository)}/actions/runs/{run}"

    def _repository(self, repository: str) -> str:
        """Whatever names a run may come from a job: no path is built of what is no repository of ours."""
        if not covers(self._client.settings.scope, repository) or repository.rpartition("/")[2] in (".", ".."):
            raise NotFound(f"{repository!r:.140} is not a repository of {self._client.settings.scope}")
        return f"/repos/{repository}"


def _not_rerun(call: GithubCall, answer: GithubAnswer) -> Conflict | Refused | NotFound:
    """What a refused re-run means: GitHub says 403 for everything, and only its message says why."""
    said, words = f"{call}: {answer.message} ({answer.status})", answer.message.lower()
    if answer.status == 409 or any(sign in words for sign in MOVED_ON):
        return Conflict(said)
    if answer.status == 404:
        return NotFound(said)
    if any(sign in words for sign in NO_MORE):
        return Refused(said)
    return PermissionDenied(f"{said}; the call needs the {call.right}", remedy="Grant the credentials that permission.")


def _missing(repository: str, run: str) -> NotFound:
    return NotFound(
        f"run {run:.40} of {repository:.140} does not exist, or the credentials may not see it (needs the {READ_RUNS})"
    )


def _job(one: Mapping[str, Any], attempt: int) -> WorkflowJob:
    completed = one["status"] == "completed"
    return WorkflowJob(
        id=one["id"],
        name=one["name"],
        attempt=one.get("run_attempt") or attempt,
        completed=completed,
        conclusion=_CONCLUSIONS.get(one["conclusion"], Conclusion.FAILURE) if completed else Conclusion.NONE,
        runner=one["runner_name"] or "",
        labels=tuple(one["labels"]),
        started_at=_moment(one["started_at"]),
        completed_at=_moment(one["completed_at"]) if completed else None,
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
