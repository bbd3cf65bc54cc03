"""Timeline of a provision: when each of its instances reached each stage, and what was discarded and why.

The report of the call has it. While the provision is open, or where its report is lost or forgotten, the stories of its
instances say when they were claimed, launched and committed; the stages between are not known then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import began
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.job import Job, began_at
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import ABORTED, COMMITTED, Origin, Provision
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.model.transition import StoryLine
from bullpen.model.wait import TimelineOutcome

STAGES = ("picked", "claimed", "seen", "launched", "booted", "registered", "first job")
"""In the order in which an instance reaches them."""
JOBS = 200  # of the run, of which the beginning is looked up
LANES = 200


OUTCOMES = {one: TimelineOutcome(one.value) for one in ReportOutcome}


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane, with the seconds from the request until its first job."""

    lane: Lane
    first_job: float | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """`stages` are seconds from the request until all instances that were kept had reached a stage; `phases` for how
    long the call waited for what."""

    provision_id: str
    asked_at: datetime
    ended_at: datetime | None
    outcome: TimelineOutcome
    reason: str = ""
    stages: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[WorkPhase, float] = field(default_factory=dict)
    lanes: tuple[TimelineLane, ...] = ()

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it is not decided."""
        return None if self.ended_at is None else max((self.ended_at - self.asked_at).total_seconds(), 0.0)


async def timeline_of(view: PoolView, provision: Provision) -> Timeline | None:
    """None if it is not known when the provision was asked for."""
    story = await view.story(provision.id)
    report = await view.report(provision.id)
    asked = report.asked_at if report is not None else began(story)
    if asked is None:
        return None
    # The report of a killed call has no lanes: the stories of its instances know more.
    lanes = report.lanes if report is not None and report.lanes else await _lanes_of_stories(view, provision, asked)
    first_jobs = await _first_jobs(view, provision, asked) if provision.run_id else {}
    return _timeline(
        provision, story, report, asked, [TimelineLane(one, first_jobs.get(one.instance_id)) for one in lanes]
    )


def _timeline(
    provision: Provision,
    story: Sequence[StoryLine],
    report: ProvisionReport | None,
    asked: datetime,
    lanes: Sequence[TimelineLane],
) -> Timeline:
    ended: datetime | None
    if report is not None:
        ended, outcome, reason = report.ended_at, OUTCOMES[report.outcome], report.reason
    else:
        ended = max((line.at for line in story if line.step in ("commit", "abort")), default=None)
        outcome = {COMMITTED: TimelineOutcome.MET, ABORTED: TimelineOutcome.FAILED}.get(
            provision.state, TimelineOutcome.OPEN
        )
        reason = provision.reason
    return Timeline(
        provision.id,
        asked,
        ended,
        outcome,
        reason,
        stages_of(lanes),
        report.timings if report is not None else {},
        tuple(lanes[:LANES]),
    )


def stages_of(lanes: Iterable[TimelineLane]) -> dict[str, float]:
    """Seconds until all kept lanes that have a stage had reached it; of all lanes if none was kept."""
    lanes = list(lanes)
    counted = [one for one in lanes if one.lane.kept] or lanes
    reached = {stage: [at for one in counted if (at := _at(one, stage)) is not None] for stage in STAGES}
    return {stage: max(times) for stage, times in reached.items() if times}


def _at(one: TimelineLane, stage: str) -> float | None:
    if stage == "first job":
        return one.first_job
    at: float | None = getattr(one.lane, stage)
    return at


async def _first_jobs(view: PoolView, provision: Provision, asked: datetime) -> dict[str, float]:
    """Seconds until the first job of each instance began, of the embedded CI."""
    if view.settings.on_github:
        return {}
    jobs = [one for one in await view.ports.jobs.of_run(provision.run_id, JOBS) if one.instance_id]
    stories = await view.stories(one.id for one in jobs)
    found: dict[str, float] = {}
    for job in jobs:
        at = _began(job, stories.get(job.id, ()))
        if at is not None and at >= asked:
            seconds = round((at - asked).total_seconds(), 3)
            found[job.instance_id] = min(found.get(job.instance_id, seconds), seconds)
    return found


def _began(job: Job, story: Iterable[StoryLine]) -> datetime | None:
    return began_at((line.step, line.at) for line in story)


async def _lanes_of_stories(view: PoolView, provision: Provision, asked: datetime) -> tuple[Lane, ...]:
    """As far as the steps of the instances tell it that belong to the provision now."""
    held = await _held(view, provision)
    stories = await view.stories(one.id for one in held)
    return tuple(_lane_of_story(one, stories.get(one.id, ()), provision, asked) for one in held[:LANES])


async def _held(view: PoolView, provision: Provision) -> list[Instance]:
    if provision.run_id:
        found = await view.ports.records.run_instances(provision.run_id)
    else:
        found = await view.live()
    return sorted((one for one in found if one.provision_id == provision.id), key=lambda one: one.id)


def _lane_of_story(one: Instance, story: Iterable[StoryLine], provision: Provision, asked: datetime) -> Lane:
    lane = Lane(one.id, Origin.SELECTED, kept=provision.state is COMMITTED)
    for line in story:
        if line.at < asked:
            continue
        since = round((line.at - asked).total_seconds(), 3)
        if line.step == "claim":
            lane = replace(lane, claimed=since)
        elif line.step == "register":
            lane = replace(lane, origin=Origin.CREATED, launched=since)
    return lane
