"""The API's routes for runs, jobs, deployments and releases."""

from __future__ import annotations

from fakes.github import flow
from fakes.github.calling import ApiCall, ApiRefusal, listed
from fakes.github.state import COMPLETED, Job, State
from fakes.github.views import (
    at,
    shown_deployment,
    shown_full_repository,
    shown_job,
    shown_release,
    shown_run,
    shown_status,
)
from fakes.github.wire import WireAnswer

RERUNNABLE = ("failure", "cancelled", "timed_out")


def jobs_now(state: State, url: str) -> dict[tuple[int, int], list[dict[str, object]]]:
    """Every job of every attempt, by run and attempt, as it is shown."""
    return {
        (run.id, number): [shown_job(url, job) for job in jobs]
        for run in state.runs.values()
        for number, jobs in enumerate(run.attempts, 1)
    }


def repository(call: ApiCall) -> WireAnswer:
    return WireAnswer(200, shown_full_repository(call.url, call.repository()))


def list_runs(call: ApiCall) -> WireAnswer:
    found = [run for run in call.state.runs.values() if run.repository is call.repository()]
    wanted = call.query
    if status := wanted.get("status"):
        found = [run for run in found if status in (run.status, run.conclusion)]
    if sha := wanted.get("head_sha"):
        found = [run for run in found if run.head_sha == sha]
    return listed(call, "workflow_runs", [shown_run(call.url, run) for run in reversed(found)])


def get_run(call: ApiCall) -> WireAnswer:
    return WireAnswer(200, shown_run(call.url, call.run()))


def get_attempt(call: ApiCall) -> WireAnswer:
    return WireAnswer(200, shown_run(call.url, call.run(), _attempt(call)))


def attempt_jobs(call: ApiCall) -> WireAnswer:
    return listed(call, "jobs", call.past.shown("jobs").get((call.run().id, _attempt(call)), []))


def run_jobs(call: ApiCall) -> WireAnswer:
    """Of the newest attempt, or of all with filter=all."""
    run = call.run()
    seen = call.past.shown("jobs")
    first = 1 if call.query.get("filter") == "all" else run.attempt
    shown = [view for number in range(first, run.attempt + 1) for view in seen.get((run.id, number), [])]
    return listed(call, "jobs", shown)


def get_job(call: ApiCall) -> WireAnswer:
    return WireAnswer(200, shown_job(call.url, _job(call)))


def rerun_job(call: ApiCall) -> WireAnswer:
    job = _job(call)
    return _rerun(call, job.run.id, [job])


def rerun_all(call: ApiCall) -> WireAnswer:
    return _rerun(call, call.run().id, None)


def rerun_failed(call: ApiCall) -> WireAnswer:
    run = call.run()
    return _rerun(call, run.id, [job for job in run.jobs() if job.conclusion in RERUNNABLE])


def _rerun(call: ApiCall, run_id: int, jobs: list[Job] | None) -> WireAnswer:
    try:
        flow.rerun(call.state, call.state.runs[run_id], jobs)
    except flow.Forbidden as exc:
        raise ApiRefusal(403, str(exc)) from None
    return WireAnswer(201, {})


def cancel(call: ApiCall) -> WireAnswer:
    run = call.run()
    if run.status == COMPLETED:
        raise ApiRefusal(409, "Cannot cancel a workflow run that is completed.")
    flow.cancel(call.state, run)
    return WireAnswer(202, {})


def pending_deployments(call: ApiCall) -> WireAnswer:
    """None: no environment here asks for a review."""
    call.run()
    return WireAnswer(200, [])


def deployments(call: ApiCall) -> WireAnswer:
    found = [one for one in reversed(call.state.deployments) if one.job.run.repository is call.repository()]
    views = [shown_deployment(call.url, one) for one in found]
    for name in ("sha", "ref", "task", "environment"):
        if wanted := call.query.get(name):
            views = [view for view in views if view[name] == wanted]
    return listed(call, "", views)


def deployment_statuses(call: ApiCall) -> WireAnswer:
    found = [one for one in call.state.deployments if one.id == int(call.path["deployment_id"])]
    if not found or found[0].job.run.repository is not call.repository():
        raise ApiRefusal(404, "Not Found")
    return listed(call, "", [shown_status(call.url, one) for one in found])


def releases(call: ApiCall) -> WireAnswer:
    _check_runner_repository(call)
    newest_first = sorted(call.state.releases, key=lambda one: one.published_at, reverse=True)
    return listed(call, "", [shown_release(call.url, one) for one in newest_first])


def latest_release(call: ApiCall) -> WireAnswer:
    _check_runner_repository(call)
    if not call.state.releases:
        raise ApiRefusal(404, "Not Found")
    return WireAnswer(
        200, shown_release(call.url, max(call.state.releases, key=lambda one: at(one.published_at) or ""))
    )


def _check_runner_repository(call: ApiCall) -> None:
    if call.scope != "actions/runner":
        raise ApiRefusal(404, "Not Found")


def _attempt(call: ApiCall) -> int:
    number = int(call.path["attempt_number"])
    if not 1 <= number <= call.run().attempt:
        raise ApiRefusal(404, "Not Found")
    return number


def _job(call: ApiCall) -> Job:
    job = call.state.job(int(call.path["job_id"]))
    if job is None or job.run.repository is not call.repository():
        raise ApiRefusal(404, "Not Found")
    return job
