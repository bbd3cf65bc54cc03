"""Which function answers a call, and the permission that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fakes.github import runners, runs
from fakes.github.auth import Grant, IssuedCredentials
from fakes.github.calling import ApiCall, ApiRefusal
from fakes.github.limits import Limits
from fakes.github.views import example
from fakes.github.wire import WireAnswer

REPO, ORG = "/repos/{owner}/{repo}", "/orgs/{org}"
OF_APPS = "app"  # only for an App that calls as itself
PUBLIC = "public"  # for every caller, even without credentials


@dataclass(frozen=True)
class Route:
    answer: Callable[[ApiCall], WireAnswer]
    permission: str  # empty: any caller that sees the scope
    level: str = "read"

    def admit(self, caller: Grant | None, call: ApiCall) -> None:
        """Refuse a caller without the permission."""
        if self.permission == PUBLIC:
            return
        if caller is None:
            raise ApiRefusal(401, "Requires authentication")
        if caller.is_app_itself != (self.permission == OF_APPS):
            text = "A JSON web token could not be decoded" if self.permission == OF_APPS else "Bad credentials"
            raise ApiRefusal(401, text)
        if self.permission == OF_APPS:
            return
        if call.scope and not (call.state.has_scope(call.scope) and caller.sees(call.scope)):
            raise ApiRefusal(404, "Not Found")
        if self.permission and not caller.may(self.permission, self.level):
            wanted = {"X-Accepted-GitHub-Permissions": f"{self.permission}={self.level}"}
            raise ApiRefusal(403, f"Resource not accessible by {caller.name}", wanted)


def routes(credentials: IssuedCredentials, limits: Limits) -> dict[str, Route]:
    table = {
        "get /rate_limit": Route(limits.overview, ""),
        "get /app": Route(credentials.get_app, OF_APPS),
        "get /app/installations": Route(credentials.installations, OF_APPS),
        "get /app/installations/{installation_id}": Route(credentials.installation, OF_APPS),
        "post /app/installations/{installation_id}/access_tokens": Route(credentials.access_token, OF_APPS),
        f"get {ORG}": Route(_organisation, ""),
        f"get {ORG}/actions/runner-groups": Route(runners.groups, "organization_self_hosted_runners"),
        f"get {ORG}/actions/runner-groups/{{runner_group_id}}/repositories": Route(
            runners.group_repositories, "organization_self_hosted_runners"
        ),
        f"get {REPO}": Route(runs.repository, "metadata"),
        f"get {REPO}/releases": Route(runs.releases, PUBLIC),
        f"get {REPO}/releases/latest": Route(runs.latest_release, PUBLIC),
        f"get {REPO}/deployments": Route(runs.deployments, "deployments"),
        f"get {REPO}/deployments/{{deployment_id}}/statuses": Route(runs.deployment_statuses, "deployments"),
        f"get {REPO}/actions/runs": Route(runs.list_runs, "actions"),
        f"get {REPO}/actions/jobs/{{job_id}}": Route(runs.get_job, "actions"),
        f"post {REPO}/actions/jobs/{{job_id}}/rerun": Route(runs.rerun_job, "actions", "write"),
    }
    run = f"{REPO}/actions/runs/{{run_id}}"
    table |= {
        f"get {run}": Route(runs.get_run, "actions"),
        f"get {run}/jobs": Route(runs.run_jobs, "actions"),
        f"get {run}/attempts/{{attempt_number}}": Route(runs.get_attempt, "actions"),
        f"get {run}/attempts/{{attempt_number}}/jobs": Route(runs.attempt_jobs, "actions"),
        f"get {run}/pending_deployments": Route(runs.pending_deployments, "actions"),
        f"post {run}/cancel": Route(runs.cancel, "actions", "write"),
        f"post {run}/force-cancel": Route(runs.cancel, "actions", "write"),
        f"post {run}/rerun": Route(runs.rerun_all, "actions", "write"),
        f"post {run}/rerun-failed-jobs": Route(runs.rerun_failed, "actions", "write"),
    }
    for scope, permission in ((REPO, "administration"), (ORG, "organization_self_hosted_runners")):
        base = f"{scope}/actions/runners"
        table |= {
            f"get {scope}/installation": Route(credentials.installation, OF_APPS),
            f"get {base}": Route(runners.list_all, permission),
            f"post {base}/registration-token": Route(runners.registration_token, permission, "write"),
            f"post {base}/remove-token": Route(runners.removal_token, permission, "write"),
            f"post {base}/generate-jitconfig": Route(runners.jit_config, permission, "write"),
            f"get {base}/{{runner_id}}": Route(runners.get, permission),
            f"delete {base}/{{runner_id}}": Route(runners.delete, permission, "write"),
            f"get {base}/{{runner_id}}/labels": Route(runners.labels, permission),
            f"post {base}/{{runner_id}}/labels": Route(runners.add_labels, permission, "write"),
            f"put {base}/{{runner_id}}/labels": Route(runners.set_labels, permission, "write"),
            f"delete {base}/{{runner_id}}/labels": Route(runners.remove_labels, permission, "write"),
        }
    return table


def _organisation(call: ApiCall) -> WireAnswer:
    # The official example leaves out what the description requires.
    return WireAnswer(200, example(f"get {ORG}") | {"login": call.scope, "archived_at": None})
