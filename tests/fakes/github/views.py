"""How GitHub shows its records: the official example of an answer, with what we know in its place."""

from __future__ import annotations

import copy
import functools
import json
from datetime import datetime
from typing import Any

from fakes.github import description
from fakes.github.calling import ApiCall
from fakes.github.state import (
    COMPLETED,
    DEFAULT_GROUP,
    QUEUED,
    Deployment,
    Group,
    Job,
    Release,
    Repository,
    Run,
    Runner,
    State,
)

Json = dict[str, Any]
REPO = "/repos/{owner}/{repo}"
EXAMPLES = ("octo-org/octo-repo", "octocat/Hello-World", "octocat/example", "octo-org/hello-world")
READ_ONLY = ("self-hosted", "linux", "x64")


@functools.lru_cache(maxsize=256)
def _text(operation: str, url: str, repository: str) -> str:
    text = json.dumps(description.load()["operations"][operation]["example"])
    for name in EXAMPLES:
        text = text.replace(f"https://api.github.com/repos/{name}", f"{url}/api/v3/repos/{repository}")
        text = text.replace(f"https://github.com/{name}", f"{url}/{repository}")
    return text


def example(operation: str, url: str = "", repository: str = "") -> Any:
    return json.loads(_text(operation, url, repository))


def at(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def shown_runner(state: State, runner: Runner) -> Json:
    shown: Json = {
        "id": runner.id,
        "name": runner.name,
        "os": runner.os if runner.seen_at or runner.version else "unknown",
        "status": "online" if state.is_online(runner) else "offline",
        "busy": state.knows_busy(runner),
        "ephemeral": runner.ephemeral,
        "runner_group_id": runner.group,
        "labels": [shown_label(label) for label in runner.labels],
    }
    return shown | ({"version": runner.version} if runner.version else {})


def shown_label(label: str) -> Json:
    return {"id": len(label), "name": label, "type": "read-only" if label.lower() in READ_ONLY else "custom"}


def shown_group(call: ApiCall, group: Group) -> Json:
    shown: Json = example("get /orgs/{org}/actions/runner-groups")["runner_groups"][0]
    base = f"{call.api_url}/orgs/{call.scope}/actions/runner-groups/{group.id}"
    visibility = "selected" if group.repositories else "all"
    shown |= {"id": group.id, "name": group.name, "default": group.id == DEFAULT_GROUP, "visibility": visibility}
    return shown | {"runners_url": f"{base}/runners", "allows_public_repositories": False}


def shown_repository(url: str, repository: Repository) -> Json:
    shown: Json = example(f"get {REPO}/actions/runs/{{run_id}}", url, repository.name)["repository"]
    return _about(shown, url, repository)


def shown_full_repository(url: str, repository: Repository) -> Json:
    shown: Json = example(f"get {REPO}", url, repository.name)
    relatives = ("parent", "source", "template_repository")
    # The official example leaves out what the description requires.
    return _about({n: v for n, v in shown.items() if n not in relatives} | {"language": None}, url, repository)


def _about(shown: Json, url: str, repository: Repository) -> Json:
    shown |= {"id": repository.id, "name": repository.name.partition("/")[2], "full_name": repository.name}
    shown["owner"] |= {"login": repository.owner, "url": f"{url}/api/v3/users/{repository.owner}"}
    return shown | {"private": repository.is_private}


def shown_run(url: str, run: Run, attempt: int | None = None) -> Json:
    """As it stands; an attempt that is over, as it ended."""
    operation = f"get {REPO}/actions/runs/{{run_id}}"
    shown: Json = example(operation, url, run.repository.name)
    number = attempt or run.attempt
    repository = shown_repository(url, run.repository)
    base = f"{url}/api/v3/repos/{run.repository.name}/actions/runs/{run.id}"
    is_over = number < run.attempt
    jobs = run.jobs(number)
    conclusion = run.conclusions[number - 1] if is_over else run.conclusion
    return shown | {
        "id": run.id,
        "name": run.name,
        "run_number": run.number,
        "run_attempt": number,
        "event": run.event,
        "head_branch": run.head_branch,
        "head_sha": run.head_sha,
        "status": COMPLETED if is_over else run.status,
        "conclusion": conclusion or None,
        "created_at": at(run.created_at),
        "updated_at": at(run.updated_at),
        "run_started_at": at(jobs[0].created_at if is_over and jobs else run.started_at),
        "url": base,
        "html_url": f"{url}/{run.repository.name}/actions/runs/{run.id}",
        "jobs_url": f"{base}/jobs",
        "logs_url": f"{base}/logs",
        "cancel_url": f"{base}/cancel",
        "rerun_url": f"{base}/rerun",
        "artifacts_url": f"{base}/artifacts",
        "previous_attempt_url": f"{base}/attempts/{number - 1}" if number > 1 else None,
        "repository": repository,
        "head_repository": copy.deepcopy(repository),
        "pull_requests": [],
        "referenced_workflows": [],
    }


def shown_job(url: str, job: Job) -> Json:
    run, base = job.run, f"{url}/api/v3/repos/{job.run.repository.name}"
    html = f"{url}/{run.repository.name}/actions/runs/{run.id}"
    is_given = bool(job.runner_name)
    shown: Json = example(f"get {REPO}/actions/jobs/{{job_id}}", url, run.repository.name)
    return shown | {
        "id": job.id,
        "run_id": run.id,
        "run_url": f"{base}/actions/runs/{run.id}",
        "run_attempt": job.attempt,
        "head_sha": run.head_sha,
        "head_branch": run.head_branch,
        "workflow_name": run.name,
        "url": f"{base}/actions/jobs/{job.id}",
        "html_url": f"{html}/job/{job.id}",
        "check_run_url": f"{base}/check-runs/{job.id}",
        "name": job.name,
        "status": job.status,
        "conclusion": job.conclusion or None,
        "created_at": at(job.created_at),
        "started_at": at(job.started_at or job.created_at),
        "completed_at": at(job.completed_at),
        "labels": list(job.labels),
        "runner_id": job.runner_id if is_given else None,
        "runner_name": job.runner_name or None,
        "runner_group_id": job.group.id if is_given else None,
        "runner_group_name": job.group.name if is_given else None,
        "steps": _steps(job),
    }


def _steps(job: Job) -> list[Json]:
    if job.status == QUEUED or not job.runner_name:
        return []
    step = {"name": "Set up job", "number": 1, "status": job.status, "conclusion": job.conclusion or None}
    return [step | {"started_at": at(job.started_at), "completed_at": at(job.completed_at)}]


def shown_deployment(url: str, deployment: Deployment) -> Json:
    run = deployment.job.run
    base = f"{url}/api/v3/repos/{run.repository.name}"
    shown: Json = example(f"get {REPO}/deployments", url, run.repository.name)[0]
    environment = deployment.job.spec.environment
    shown |= {"id": deployment.id, "url": f"{base}/deployments/{deployment.id}", "sha": run.head_sha}
    shown |= {"ref": run.head_branch, "environment": environment, "original_environment": environment}
    shown |= {"created_at": at(deployment.created_at), "updated_at": at(deployment.created_at), "description": ""}
    return shown | {"statuses_url": f"{base}/deployments/{deployment.id}/statuses", "repository_url": base}


def shown_status(url: str, deployment: Deployment) -> Json:
    """Of a deployment: its links name the job that it belongs to."""
    job = deployment.job
    run = job.run
    base = f"{url}/api/v3/repos/{run.repository.name}"
    link = f"{url}/{run.repository.name}/actions/runs/{run.id}/job/{job.id}"
    shown: Json = example(f"get {REPO}/deployments/{{deployment_id}}/statuses", url, run.repository.name)[0]
    states = {"success": "success", "failure": "failure", "cancelled": "failure", "": job.status}
    shown |= {"id": deployment.id, "state": states.get(job.conclusion, "inactive"), "environment": job.spec.environment}
    shown |= {"target_url": link, "log_url": link, "description": "", "environment_url": ""}
    return shown | {"deployment_url": f"{base}/deployments/{deployment.id}", "repository_url": base}


def shown_release(url: str, release: Release) -> Json:
    shown: Json = example(f"get {REPO}/releases/latest", url, "actions/runner")
    tag = f"v{release.version}"
    shown |= {"tag_name": tag, "name": tag, "body": "", "created_at": at(release.published_at), "assets": []}
    return shown | {"published_at": at(release.published_at), "html_url": f"{url}/actions/runner/releases/{tag}"}
