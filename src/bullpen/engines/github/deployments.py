"""Which jobs deploy: those that have an environment. Nothing says so of a job itself, but GitHub makes a deployment for
each of them, and its statuses lead back to the job by their links.

A deployment that cannot be assigned to a job counts for every job that is asked about: it is better to run one job too
few again than to deploy twice.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.github.answers import GithubCall, rows, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import READ_DEPLOYMENTS
from bullpen.ports import WorkflowJob, WorkflowRun

ACTIONS = ("github-actions", "github-actions[bot]")
_JOB = re.compile(r"/actions/runs/([0-9]+)(?:/attempts/[0-9]+)?(?:/job/([0-9]+))?(?:[?#].*)?$")
_CHECK = re.compile(r"/runs/([0-9]+)(?:[?#].*)?$")  # as older servers link: the check of a job has the job's number


async def deploying(client: GithubClient, run: WorkflowRun, jobs: list[WorkflowJob]) -> list[int]:
    """Ids of those of the jobs that have an environment, or may have one."""
    path = f"/repos/{run.repository}/deployments"
    call = GithubCall("GET", path, READ_DEPLOYMENTS)
    found = {one["id"]: one for one in await client.listed(call, query={"sha": run.head_sha}) or []}
    newest = await client.ask(call, query={"per_page": "100"})
    # A pull request may be deployed as its merge with the base, and that commit is not the one that its run names.
    with understood(call):
        found |= {one["id"]: one for one in rows(newest.body) if str(one["ref"]).startswith("refs/pull/")}
    ids = [job.id for job in jobs]
    statuses = await gather_or_cancel(
        [client.listed(GithubCall("GET", f"{path}/{id}/statuses", READ_DEPLOYMENTS), expecting=(404,)) for id in found]
    )
    with understood(call):
        held = [placed(one, its or [], run.run, ids) for one, its in zip(found.values(), statuses, strict=True)]
    return [id for id in ids if any(id in one for one in held)]


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
