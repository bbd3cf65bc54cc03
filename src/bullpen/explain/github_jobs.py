"""Why a job of GitHub waits, by the URL of its page: GitHub is asked how it stands, the pool who could serve it.

completed, or has a runner    waits for nothing
its label is a run's          as the provision of that run
its label is a scale set's    as the jobs of that set
any other labels              no-match
"""

from dataclasses import replace

from bullpen.errors import BullpenError, NotFound, Throttled, Unavailable
from bullpen.explain.job_waits import situation_of, without_runners
from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import Because, explain_provision
from bullpen.explain.set_waits import explain_sets
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import RUNNING
from bullpen.model.label import parse
from bullpen.model.provision import OPEN
from bullpen.model.scale_set import RETIRED, fits_set
from bullpen.model.wait import ExplainedWait, WaitCause, WaitKind
from bullpen.model.workflow_page import WorkflowPage
from bullpen.ports import WorkflowJob
from bullpen.scale_sets.wait_reason import max_of
from bullpen.settings.workflow_pages import check_page

STANDARD = ("self-hosted", "linux", "x64", "arm64")
"""Labels that GitHub gives to runners by itself."""


@dataclass(frozen=True, slots=True)
class GithubJobWait:
    """`label` is the run id in Bullpen that the job names; empty if it names none. `summary` says how the job stands if
    it waits for nothing."""

    wait: ExplainedWait | None
    label: str = ""
    summary: str = ""


async def explain_github_job(view: PoolView, page: WorkflowPage) -> GithubJobWait:
    """Raise NotFound for a job that does not exist, ConfigError for one that is not at this pool's GitHub."""
    check_page(view.settings, page)
    try:
        run = await view.ports.workflows.run(page.repository, page.run)
        jobs = await view.ports.workflows.jobs(page.repository, page.run, page.attempt or run.attempt)
    except Throttled as exc:
        later = f"Ask again in {exc.retry_after:.0f} s."
        return GithubJobWait(_wait(page, Because(WaitCause.GITHUB_LIMIT, str(exc), later)))
    except Unavailable as exc:
        later = "Ask again once GitHub answers: see https://www.githubstatus.com."
        return GithubJobWait(_wait(page, Because(WaitCause.GITHUB_OUTAGE, str(exc), later)))
    job = next((one for one in jobs if str(one.id) == page.job), None)
    if job is None:
        raise NotFound(
            f"{page.url}: run {page.run} has no such job in attempt {page.attempt or run.attempt}",
            remedy="Open the page of the run and copy the URL of the job again; a re-run has other jobs.",
        )
    name = f"job {job.name!r} of {page.repository}, run {page.run}"
    label = next((one for one in job.labels if parse(one) is not None), "")
    if job.completed:
        return GithubJobWait(None, label, f"{name} has completed: {job.conclusion.value or 'no conclusion'}")
    if job.runner:
        on = view.ports.ci.instance_of(job.runner)
        where = f"{on} of this pool" if on is not None else f"{job.runner}, which is not of this pool"
        return GithubJobWait(None, label, f"{name} runs on {where}")
    if run.completed:
        over = Because(WaitCause.RUN_OVER, f"run {page.run} has completed", "GitHub gives it to no runner.")
        return GithubJobWait(_wait(page, over), label)
    return GithubJobWait(await _explained(view, page, job, label), label)


async def _explained(view: PoolView, page: WorkflowPage, job: WorkflowJob, label: str) -> ExplainedWait:
    if label:
        return await _of_run(view, page, job, label)
    sets = await view.ports.records.scale_sets()
    name = next((name for name, one in sets.items() if one.state is not RETIRED and fits_set(job.labels, name)), "")
    if name:
        return await _of_set(view, page, job, name)
    own = [one for one in job.labels if one.casefold() not in STANDARD]
    asked, known = ", ".join(own or job.labels), ", ".join(sorted(sets)) or "none"
    return _wait(
        page,
        Because(
            WaitCause.NO_MATCH,
            f"it asks for {asked or 'no label'}, which is no run's label and no scale set of this pool (sets: {known})",
            "Correct runs-on in the workflow, or describe such a scale set in the settings.",
        ),
    )


async def _of_run(view: PoolView, page: WorkflowPage, job: WorkflowJob, label: str) -> ExplainedWait:
    """The label is that of a run: its runners, and no others, get the job."""
    run = await situation_of(view, label)
    open_ = [one for one in run.provisions if one.state is OPEN]
    serving = [one for one in run.instances if one.state is RUNNING]
    if open_ and not serving:
        wait = await explain_provision(view, open_[0])
        return _wait(page, Because(wait.cause, wait.because, wait.next, wait.seconds_left), wait)
    if not run.instances:
        return _wait(page, await without_runners(view, run))
    pulses = await view.pulses(one.id for one in serving)
    heard = [one for one in serving if view.is_heard(pulses.get(one.id))]
    busy = [one for one in heard if (beat := pulses[one.id].heartbeat) is not None and beat.activity]
    if serving and not heard:
        lost = f"none of the {len(serving)} runners of run {label} shows a sign of life"
        return _wait(page, Because(WaitCause.RUNNER_LOST, lost, "A server replaces lost runners."))
    if heard and len(busy) == len(heard):
        behind = f"other jobs of run {label} occupy all {len(busy)} of its runners"
        return _wait(page, Because(WaitCause.QUEUED_BEHIND, behind, "The next runner that is done takes it."))
    if heard and (closed := await _closed_group(view, page.repository)):
        return _wait(page, closed)
    if heard:
        idle = f"{len(heard) - len(busy)} runners of run {label} are registered, and GitHub has not given it the job"
        return _wait(page, Because(WaitCause.GITHUB_OUTAGE, idle, "GitHub hands a queued job over within seconds."))
    return _wait(page, Because(WaitCause.BOOTING, f"the runners of run {label} register", "One takes the job."))


async def _of_set(view: PoolView, page: WorkflowPage, job: WorkflowJob, name: str) -> ExplainedWait:
    known = await explain_sets(view, name)
    same = [one for one in known if one.run_id == page.run] or [one for one in known if one.kind is WaitKind.SET]
    if same:
        one = same[0]
        return _wait(page, Because(one.cause, one.because, one.next, one.seconds_left), one)
    if (closed := await _closed_group(view, page.repository, name)) is not None:
        return _wait(page, closed)
    one_set = (await view.ports.records.scale_sets())[name]
    members = await view.ports.records.run_instances(one_set.run_id)
    if len(members) >= one_set.rules.max:
        full = f"{max_of(view.settings, one_set)}, and scale set {name} has as many runners"
        found = _wait(page, Because(WaitCause.CAP, full, "It gets the next runner of the set that is done."))
        return replace(found, resource_class=one_set.rules.resource_class)
    if known:
        because = Because(known[0].cause, known[0].because, known[0].next)
        return _wait(page, because, known[0])
    fresh = Because(
        WaitCause.BOOTING,
        f"GitHub has not announced it to scale set {name} yet, or its runner registers",
        "A job is announced within seconds, and gets a registered runner.",
    )
    return replace(_wait(page, fresh), resource_class=one_set.rules.resource_class)


async def _closed_group(view: PoolView, repository: str, set_name: str = "") -> Because | None:
    """Whether the runner group of the runners does not admit the repository; None if it does, or that is not known."""
    group = view.settings.github.runner_group
    if set_name:
        one = (await view.ports.records.scale_sets()).get(set_name)
        group = one.rules.group if one is not None else group
    try:
        admitted = await view.ports.workflows.groups_open_to(repository)
    except BullpenError:
        return None  # without the permission to list groups
    if admitted is None or (group or "Default").casefold() in {name.casefold() for name in admitted}:
        return None
    return Because(
        WaitCause.RUNNER_GROUP_CLOSED,
        f"the runner group {group or 'Default'!r} does not admit {repository}",
        "Admit the repository in the settings of the group at GitHub.",
    )


def _wait(page: WorkflowPage, why: Because, of: ExplainedWait | None = None) -> ExplainedWait:
    return ExplainedWait(
        subject=page.url,
        kind=WaitKind.JOB,
        cause=why.cause,
        because=why.because,
        next=why.next,
        run_id=page.run,
        repository=page.repository,
        resource_class=of.resource_class if of is not None else "",
        since=of.since if of is not None else None,
        seconds_left=why.seconds_left,
        refusals=of.refusals if of is not None else (),
        candidates=of.candidates if of is not None else (),
    )
