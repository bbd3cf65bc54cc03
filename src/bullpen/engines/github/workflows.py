"""Workflow runs of GitHub Actions: reads their state, runs jobs again, cancels.

Jobs deploy that have an environment. Nothing says so of a job itself, but GitHub makes a deployment for each of them,
and its statuses lead back to the job by their links. A deployment that cannot be assigned to a job counts for every job
that is asked about: it is better to run one job too few again than to deploy twice.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.github.answers import GithubAnswer, GithubCall, rows, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import READ_DEPLOYMENTS, READ_METADATA, READ_RUNS, WRITE_RUNS, Right, runners
from bullpen.errors import Conflict, NotFound, PermissionDenied, Refused
from bullpen.model.limits import REPOSITORY_ID_DIGITS
from bullpen.ports import Conclusion, WorkflowJob, WorkflowRun
from bullpen.settings.github import covers

SPACING = 1.0  # seconds between re-runs: GitHub asks for that of everything that sets off more
MOVED_ON = ("already running", "current attempt")  # in GitHub's words: not completed, or run again meanwhile
NO_MORE = ("cannot be retried", "unable to retry", "cannot be re-run")  # too old, too often, or never
MOVED = (301, 302, 307, 308)  # GitHub knows that the repository has another name now
QUEUED = "queued"  # of a run or a job: one that waits for an approval, or for another run, has another status
UNFINISHED = (QUEUED, "in_progress")
LARGEST_ID = 10**REPOSITORY_ID_DIGITS
ACTIONS = ("github-actions", "github-actions[bot]")
_JOB = re.compile(r"/actions/runs/([0-9]+)(?:/attempts/[0-9]+)?(?:/job/([0-9]+))?(?:[?#].*)?$")
_CHECK = re.compile(r"/runs/([0-9]+)(?:[?#].*)?$")  # as older servers link: the check of a job has the job's number

_CONCLUSIONS = {
    "success": Conclusion.SUCCESS,
    "neutral": Conclusion.SUCCESS,
    "skipped": Conclusion.SUCCESS,
    "cancelled": Conclusion.CANCELLED,
}


class GithubWorkflows:
    """`ports.Workflows` for the repositories of one scope. It asks for no others: a job may name any."""

    def __init__(self, client: GithubClient) -> None:
        self._client = client
        self._turn = asyncio.Lock()
        self._last = -SPACING

    async def repository_id(self, repository: str) -> int:
        call = GithubCall("GET", self._repository(repository), READ_METADATA)
        answer = await self._client.ask(call, expecting=(404, *MOVED))
        if answer.status == 404:
            raise _invisible(repository, READ_METADATA)
        with understood(call):
            found = "" if answer.status in MOVED else str(answer.body["full_name"])
            if found.casefold() == repository.casefold():
                if 0 < (id := int(answer.body["id"])) < LARGEST_ID:
                    return id
                raise ValueError("the id of the repository is out of range")
        raise NotFound(f"{repository} was renamed or moved{f' to {found:.140}' if found else ''}")

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

    async def waiting_jobs(self, repository: str, runs: int) -> list[WorkflowJob]:
        found: dict[int, int] = {}  # the current attempt of each run
        for status in UNFINISHED:
            call = GithubCall("GET", f"{self._repository(repository)}/actions/runs", READ_RUNS)
            query = {"status": status, "per_page": "100"}
            answer = await self._client.ask(call, query=query, expecting=(404, *MOVED), remembers=True)
            if answer.status >= 300:
                raise _invisible(repository, READ_RUNS)
            with understood(call):
                listed = rows(answer.body, "workflow_runs")
                found |= {int(one["id"]): int(one.get("run_attempt") or 1) for one in listed}
        again_first = sorted(found, key=lambda id: found[id] == 1)
        jobs: list[WorkflowJob] = []
        for id in again_first[:runs]:
            call = GithubCall("GET", f"{self._path(repository, str(id))}/attempts/{found[id]}/jobs", READ_RUNS)
            answer = await self._client.ask(call, query={"per_page": "100"}, expecting=(404,), remembers=True)
            if answer.status == 404:  # it is gone
                continue
            with understood(call):
                jobs += [_job(one, found[id]) for one in rows(answer.body, "jobs") if one["status"] == QUEUED]
        return [job for job in jobs if job.waits]

    async def groups_open_to(self, repository: str) -> list[str] | None:
        scope = self._client.settings.scope
        if "/" in scope:
            return None
        self._repository(repository)  # raises NotFound for another scope's
        call = GithubCall("GET", f"{self._client.scope_path}/actions/runner-groups", runners(scope, "read"))
        query = {"visible_to_repository": repository.partition("/")[2]}
        listed = await self._client.listed(call, "runner_groups", query=query) or []
        with understood(call):
            return [str(one["name"]) for one in listed]

    async def deploying(self, run: WorkflowRun, jobs: list[WorkflowJob]) -> list[int]:
        """Those that have an environment, or may have one."""
        self._path(run.repository, run.run)  # raises NotFound for another scope's
        path = f"/repos/{run.repository}/deployments"
        call = GithubCall("GET", path, READ_DEPLOYMENTS)
        found = {one["id"]: one for one in await self._client.listed(call, query={"sha": run.head_sha}) or []}
        newest = await self._client.ask(call, query={"per_page": "100"})
        # A pull request may be deployed as its merge with the base, and that commit is not the one that its run names.
        with understood(call):
            found |= {one["id"]: one for one in rows(newest.body) if str(one["ref"]).startswith("refs/pull/")}
        statuses_of = [GithubCall("GET", f"{path}/{id}/statuses", READ_DEPLOYMENTS) for id in found]
        statuses = await gather_or_cancel([self._client.listed(one, expecting=(404,)) for one in statuses_of])
        ids = [job.id for job in jobs]
        with understood(call):
            held = [placed(one, its or [], run.run, ids) for one, its in zip(found.values(), statuses, strict=True)]
        return [id for id in ids if any(id in one for one in held)]

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
        """The name of a run may come from a job: no path is built of a repository outside the scope."""
        if not covers(self._client.settings.scope, repository) or repository.rpartition("/")[2] in (".", ".."):
            raise NotFound(f"{repository!r:.140} is not a repository of {self._client.settings.scope}")
        return f"/repos/{repository}"


def placed(
    deployment: Mapping[str, Any], statuses: Iterable[Mapping[str, Any]], run: str, jobs: list[int]
) -> list[int]:
    """Those of the jobs of this run that a deployment may belong to."""
    links = [one.get(name) or "" for one in statuses for name in ("log_url", "target_url")]
    if found := [match for link in links if (match := _JOB.search(link))]:
        of_run = [match for match in found if match[1] == run]
        named = [int(match[2]) for match in of_run if match[2]]
        return [id for id in jobs if id in named] if len(named) == len(of_run) else jobs
    if checks := [int(match[1]) for link in links if (match := _CHECK.search(link))]:
        return [id for id in jobs if id in checks]
    app, creator = deployment.get("performed_via_github_app") or {}, deployment.get("creator") or {}
    made_by_actions = app.get("slug") in ACTIONS or creator.get("login") in ACTIONS
    return jobs if made_by_actions else []


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


def _invisible(repository: str, right: Right) -> NotFound:
    return NotFound(f"{repository:.140} does not exist, or the credentials may not see it (needs the {right})")


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
