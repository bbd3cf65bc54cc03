"""Why: one answer for everything that an id names."""

from contextlib import suppress
from dataclasses import replace

from bullpen.config import Settings
from bullpen.errors import NotFound
from bullpen.explain.github_jobs import explain_github_job
from bullpen.explain.instance_waits import explain_instance
from bullpen.explain.job_waits import explain_job, explain_queued, situation_of
from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import explain_provision
from bullpen.explain.set_waits import explain_sets
from bullpen.explain.subject import Subject, subject_of, summary_of
from bullpen.explain.timeline import Timeline, timeline_of
from bullpen.inventory import Story, stories
from bullpen.lazy_dataclass import dataclass
from bullpen.model.job import QUEUED
from bullpen.model.limits import SESSION_PREFIX, SET_PREFIX
from bullpen.model.provision import OPEN, Provision
from bullpen.model.wait import ExplainedWait, SubjectKind
from bullpen.model.workflow_page import WorkflowPage, parse_page
from bullpen.ports import Ports
from bullpen.settings.workflow_pages import check_page

JOBS_EXPLAINED = 100  # queued jobs of a run; the others wait for the same runners
WITH_CANDIDATES = 5  # of them: the runners are the same, and may be hundreds


@dataclass(frozen=True, slots=True)
class Explanation:
    """`waits` is empty if it waits for nothing; the wait that holds up the others comes first."""

    id: str
    kind: SubjectKind
    summary: str
    waits: tuple[ExplainedWait, ...]
    timeline: Timeline | None
    stories: tuple[Story, ...]


async def why(ports: Ports, settings: Settings, id: str) -> Explanation:
    """Why what this id names waits, or where its time went. Raise NotFound, and ConfigError for a URL that is not of
    this pool's GitHub."""
    view = PoolView(ports, settings)
    page = parse_page(id)
    if page is not None and page.job:
        return await _of_github(view, page)
    if page is not None:
        check_page(settings, page)
        id = page.run
    subject = subject_of(id, await stories(ports, settings, id))
    waits = tuple(await _waits(view, subject))
    timeline = await _timeline(view, subject)
    return Explanation(id, subject.kind, summary_of(subject, waits), waits, timeline, subject.stories)


async def _of_github(view: PoolView, page: WorkflowPage) -> Explanation:
    """Of a job of GitHub, with the records of the run that its label names."""
    found = await explain_github_job(view, page)
    subject = Subject(page.url, SubjectKind.JOB, ())
    if found.label:
        with suppress(NotFound):
            told = await stories(view.ports, view.settings, found.label)
            subject = Subject(page.url, SubjectKind.JOB, tuple(told))
    waits = (found.wait,) if found.wait is not None else ()
    timeline = await timeline_of(view, subject.provisions[0]) if subject.provisions else None
    summary = found.summary or summary_of(subject, waits)
    return Explanation(page.url, SubjectKind.JOB, summary, waits, timeline, subject.stories)


async def _waits(view: PoolView, subject: Subject) -> list[ExplainedWait]:
    match subject.kind:
        case SubjectKind.RUN:
            open_ = [await explain_provision(view, one) for one in subject.provisions if one.state is OPEN]
            return [*open_, *await _of_jobs(view, subject)]
        case SubjectKind.PROVISION:
            return [await explain_provision(view, one) for one in subject.provisions if one.state is OPEN]
        case SubjectKind.JOB:
            return await _of_jobs(view, subject)
        case SubjectKind.INSTANCE:
            found = [await explain_instance(view, one) for one in subject.instances]
            return [one for one in found if one is not None]
        case SubjectKind.SET:
            return await explain_sets(view, subject.id.removeprefix(SET_PREFIX).removeprefix(SESSION_PREFIX))
    return []


async def _of_jobs(view: PoolView, subject: Subject) -> list[ExplainedWait]:
    """The queued ones of these jobs, of a run all that it has; the oldest first."""
    if not subject.jobs:
        return []
    run = await situation_of(view, subject.jobs[0].run_id)
    if subject.kind is SubjectKind.JOB:
        return [await explain_job(view, job, run) for job in subject.jobs if job.state is QUEUED]
    found = await explain_queued(view, run, JOBS_EXPLAINED)
    return [one if at < WITH_CANDIDATES else replace(one, candidates=()) for at, one in enumerate(found)]


async def _timeline(view: PoolView, subject: Subject) -> Timeline | None:
    """Of the newest provision that the id names; of the one that got an instance or a job its runner."""
    found: Provision | None = subject.provisions[0] if subject.provisions else None
    if found is None and subject.kind is SubjectKind.INSTANCE and subject.instances:
        id = subject.instances[0].provision_id
        found = await view.ports.records.provision(id) if id else None
    if found is None and subject.kind is SubjectKind.JOB and subject.jobs:
        told = await view.ports.records.told_provisions(subject.jobs[0].run_id, 1)
        found = told[0] if told else None
    return await timeline_of(view, found) if found is not None else None
