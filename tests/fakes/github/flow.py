"""How runs and jobs move.

    start ──► queued ──► (assigned) ──► in_progress ──► completed        a job; with needs it exists once they are done
                 ▲            │              │
                 └── 60 s ────┘              └── no renewal for `lease` ──► failure "lost communication"

A run is completed when every job is, and only then it may be run again: a new attempt, in which untouched jobs are
shown as they ended, under new ids. All functions expect the state's lock to be held.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from fakes.github.state import (
    CANCELLED,
    COMPLETED,
    FAILURE,
    IN_PROGRESS,
    QUEUED,
    SKIPPED,
    SUCCESS,
    Deployment,
    Job,
    JobSpec,
    Repository,
    Run,
    Runner,
    State,
)

RERUNS = 50
RERUN_WITHIN = timedelta(days=30)
GAVE_UP_AFTER = timedelta(hours=24)  # a job that no runner takes
ALREADY_RUNNING = "This workflow run is already running"
JOB_ALREADY_RUNNING = "The workflow run containing this job is already running"
NOT_CURRENT = "Only jobs from the current attempt can be re-run"
NOT_RETRIABLE = "This workflow run cannot be retried"
FORGOTTEN_AFTER = {True: timedelta(days=1), False: timedelta(days=14)}  # runners without a connection; ephemeral?
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
LOST = "The self-hosted runner lost communication with the server."


class Forbidden(Exception):
    """GitHub answers 403 with this text."""


def start(
    state: State, repository: Repository, specs: Iterable[JobSpec], *, event: str, name: str, run_id: int | None = None
) -> Run:
    run_id, now = run_id or next(state.ids), state.clock()
    number = 1 + sum(run.repository is repository for run in state.runs.values())
    run = Run(run_id, repository, tuple(specs), number, f"{run_id:040x}", now, event, name, updated_at=now)
    state.runs[run_id] = run
    _attempt(state, run, {})
    return run


def _attempt(state: State, run: Run, kept: dict[str, Job]) -> None:
    """A new attempt: jobs in `kept` are shown as they ended, the others run."""
    now = state.clock()
    run.attempts.append([])
    run.status, run.conclusion, run.is_cancelled = QUEUED, "", False
    run.started_at = run.updated_at = now
    state.tell("workflow_run", "requested", run)
    for spec in run.specs:
        if ended := kept.get(spec.shown):
            copy = Job(next(state.ids), run, run.attempt, spec, ended.created_at, COMPLETED, ended.conclusion)
            copy.labels = ended.labels
            copy.runner_name, copy.runner_id, copy.group = ended.runner_name, ended.runner_id, ended.group
            copy.outputs, copy.log = ended.outputs, ended.log
            copy.started_at, copy.completed_at = ended.started_at, ended.completed_at
            run.attempts[-1].append(copy)
            state.tell("workflow_job", "completed", run, copy)  # GitHub tells of untouched jobs once more
    proceed(state, run)


def proceed(state: State, run: Run) -> None:
    """Create the jobs whose needs are done, and end the run once all are."""
    moved = True
    while moved:
        moved = False
        known = {job.name: job for job in run.attempts[-1]}
        for spec in run.specs:
            needed = [known.get(other.shown) for other in run.specs if other.key in spec.needs]
            if spec.shown not in known and all(job and job.status == COMPLETED for job in needed):
                _create(state, run, spec, is_wanted=all(job and job.conclusion == SUCCESS for job in needed))
                moved = True
    if len(run.attempts[-1]) == len(run.specs) and all(job.status == COMPLETED for job in run.attempts[-1]):
        _complete(state, run)
    state.changed()


def _create(state: State, run: Run, spec: JobSpec, is_wanted: bool) -> None:
    now = state.clock()
    job = Job(next(state.ids), run, run.attempt, spec, now)
    job.labels = tuple(resolve(label, run) for label in spec.runs_on)
    run.attempts[-1].append(job)
    if run.is_cancelled or not is_wanted:
        job.status, job.conclusion = COMPLETED, CANCELLED if run.is_cancelled else SKIPPED
        job.started_at = job.completed_at = now
        state.tell("workflow_job", "completed", run, job)
        return
    if spec.environment:
        state.deployments.append(Deployment(next(state.ids), job, now))
    state.tell("workflow_job", "queued", run, job)


def resolve(text: str, run: Run) -> str:
    """With the expressions that our workflows use: github.run_id, github.run_attempt, needs.KEY.outputs.NAME."""

    def value(found: re.Match[str]) -> str:
        match found[1].split("."):
            case ["github", "run_id"]:
                return str(run.id)
            case ["github", "run_attempt"]:
                return str(run.attempt)
            case ["needs", key, "outputs", name]:
                return run.job(key).outputs.get(name, "")
        raise ValueError(f"an expression that this GitHub does not know: {found[0]}")

    return EXPRESSION.sub(value, text)


def _complete(state: State, run: Run) -> None:
    if run.status == COMPLETED:
        return
    ends = {job.conclusion for job in run.attempts[-1]}
    worst = FAILURE if FAILURE in ends else CANCELLED if CANCELLED in ends else SUCCESS
    run.status, run.conclusion = COMPLETED, CANCELLED if run.is_cancelled else worst
    run.conclusions.append(run.conclusion)
    run.updated_at = state.clock()
    state.tell("workflow_run", "completed", run)


def take(state: State, runner: Runner) -> Job | None:
    """Assign the oldest job that waits for such a runner. There is no pinning: only labels, scope and group count."""
    if runner.job:
        return runner.job if runner.job.status == QUEUED else None
    group = state.group_of(runner)
    for run in state.runs.values():
        if runner.scope.lower() not in (run.repository.name.lower(), run.repository.owner.lower()):
            continue
        if group.repositories and run.repository.name not in group.repositories:
            continue
        for job in run.attempts[-1]:
            if job.status == QUEUED and job.runner is None and runner.serves(job.labels):
                job.runner, job.assigned_at, runner.job = runner, state.clock(), job
                job.renewed_at = job.assigned_at
                state.changed()
                return job
    return None


def begin(state: State, job: Job, runner_name: str) -> None:
    now = state.clock()
    job.status, job.runner_name, job.started_at, job.renewed_at = IN_PROGRESS, runner_name, now, now
    if job.runner:
        job.runner_id, job.group = job.runner.id, state.group_of(job.runner)
    if job.run.status == QUEUED:
        job.run.status, job.run.updated_at = IN_PROGRESS, now
        state.tell("workflow_run", "in_progress", job.run)
    state.tell("workflow_job", "in_progress", job.run, job)
    state.changed()


def finish(state: State, job: Job, conclusion: str) -> None:
    job.status, job.conclusion, job.completed_at = COMPLETED, conclusion, state.clock()
    job.started_at = job.started_at or job.completed_at
    runner, job.runner = job.runner, None
    if runner:
        runner.job = None
        if runner.ephemeral:
            state.remove_runner(runner)
    state.tell("workflow_job", "completed", job.run, job)
    proceed(state, job.run)


def cancel(state: State, run: Run) -> None:
    """Jobs that no runner has begun end at once; the others when their runner hears of it, or is given up for lost."""
    run.is_cancelled = True
    for job in list(run.attempts[-1]):
        if job.status == QUEUED:
            finish(state, job, CANCELLED)
    proceed(state, run)


def rerun(state: State, run: Run, jobs: list[Job] | None) -> None:
    """Run these jobs of a completed run again, with those that need them; None: all."""
    now = state.clock()
    if run.status != COMPLETED:
        raise Forbidden(ALREADY_RUNNING if jobs is None or len(jobs) != 1 else JOB_ALREADY_RUNNING)
    if jobs and any(job.attempt != run.attempt for job in jobs):
        raise Forbidden(NOT_CURRENT)
    if run.attempt > RERUNS or now - run.created_at > RERUN_WITHIN or jobs == []:
        raise Forbidden(NOT_RETRIABLE)
    kept: dict[str, Job] = {}
    if jobs is not None:
        again = {job.key for job in jobs}
        names = {job.name for job in jobs}
        grown = True
        while grown:
            dependents = {spec.key for spec in run.specs if set(spec.needs) & again} - again
            again |= dependents
            names |= {spec.shown for spec in run.specs if spec.key in dependents}
            grown = bool(dependents)
        kept = {job.name: job for job in run.attempts[-1] if job.name not in names}
    _attempt(state, run, kept)


def sweep(state: State) -> None:
    """What time does by itself: unmet assignments, leases that ran out, jobs and runners forgotten."""
    now = state.clock()
    for run in list(state.runs.values()):
        if run.status == COMPLETED:
            continue
        for job in list(run.attempts[-1]):
            if job.status == QUEUED and job.runner and _is_over(job.assigned_at, state.pick_up_within, now):
                job.runner.job, job.runner, job.assigned_at = None, None, None
                state.changed()
            elif job.status == QUEUED and now - job.created_at > GAVE_UP_AFTER:
                finish(state, job, FAILURE)
            elif job.status == IN_PROGRESS and job.runner and _is_over(job.renewed_at, state.lease, now):
                job.annotation = LOST
                finish(state, job, CANCELLED if run.is_cancelled else FAILURE)
    for runner in list(state.runners.values()):
        patience = FORGOTTEN_AFTER[runner.ephemeral]
        if not runner.busy and not state.is_online(runner) and now - (runner.seen_at or runner.created_at) > patience:
            state.remove_runner(runner)


def _is_over(since: datetime | None, seconds: float, now: datetime) -> bool:
    return since is not None and now - since >= timedelta(seconds=seconds)
