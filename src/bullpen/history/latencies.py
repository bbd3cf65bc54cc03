"""Latencies: how long provisions waited and machines booted, from the reports of provisions. For people and charts."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance, adopt, register
from bullpen.model.provision import Origin
from bullpen.model.report import ProvisionReport, ReportOutcome
from bullpen.model.transition import STORY_LENGTH
from bullpen.ports import Ports

PAGE = 500
REPORTS_READ = 10_000
"""Reports that one question reads at most: the newest."""

BOOTS_READ = 300  # reports, for the boot time of a class
BOOTS_SINCE = timedelta(days=7)
SAMPLED, SAMPLED_FROM = 100, 500  # stories of machines that were launched ahead, of so many live ones


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Seconds from asked to answered, of provisions of a class and repository that got runners."""

    resource_class: str
    repository: str
    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """The provisions of a class that ended within one minute. Waits are None if none of them got runners. A cold start
    is a provision that had to launch a machine."""

    resource_class: str
    minute: datetime
    provisions: int
    selected: int
    created: int
    cold_starts: int
    wait_p50: float | None
    wait_p95: float | None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not less than this share of all: nearest rank. `values` is not empty."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


async def reports_between(
    ports: Ports, since: datetime, until: datetime, most: int = REPORTS_READ
) -> list[ProvisionReport]:
    """The newest reports of calls that ended in the range, the newest first."""
    found: list[ProvisionReport] = []
    after = ""
    while len(found) < most:
        page = await ports.history.reports(since, until, min(PAGE, most - len(found)), after)
        found += page.rows
        after = page.next
        if not after:
            break
    return found


async def waits(ports: Ports, since: datetime, until: datetime) -> list[WaitTimes]:
    """How long provisions waited, by class and repository, in that order."""
    return wait_times(await reports_between(ports, since, until))


def wait_times(reports: Iterable[ProvisionReport]) -> list[WaitTimes]:
    waited: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for report in reports:
        if report.outcome is not ReportOutcome.FAILED:
            waited[report.resource_class, report.repository].append(report.waited)
    return [
        WaitTimes(*key, len(of), percentile(of, 0.5), percentile(of, 0.95), percentile(of, 0.99))
        for key, of in sorted(waited.items())
    ]


def boot_times(reports: Iterable[ProvisionReport]) -> dict[str, list[float]]:
    """Seconds from launched to registered of the new machines that registered, by class."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for report in reports:
        for lane in report.lanes:
            if lane.origin is Origin.CREATED and lane.launched is not None and lane.registered is not None:
                found[report.resource_class].append(max(lane.registered - lane.launched, 0.0))
    return dict(found)


async def warmed_boots(ports: Ports) -> dict[str, list[float]]:
    """Seconds from launched to on offer of machines that live and were launched ahead of any run, by class. A sample:
    those of one page whose stories still begin with their launch."""
    page = await ports.records.live(SAMPLED_FROM)
    young = {one.id: one for one in page if one.version <= STORY_LENGTH}
    ids = list(young)[:SAMPLED]
    found: defaultdict[str, list[float]] = defaultdict(list)
    for id, story in (await ports.records.stories(ids, Instance) if ids else {}).items():
        if [line.step for line in story[:2]] == [register.step, adopt.step]:
            found[young[id].resource_class].append(max((story[1].at - story[0].at).total_seconds(), 0.0))
    return dict(found)


async def boot_p90(ports: Ports, resource_class: str) -> float | None:
    """Seconds within which nine of ten new machines of a class registered lately, or went on offer where runs launched
    none; None if no boot is known."""
    now = ports.clock.now()
    booted = boot_times(await reports_between(ports, now - BOOTS_SINCE, now, BOOTS_READ)).get(resource_class)
    booted = booted or (await warmed_boots(ports)).get(resource_class)
    return percentile(booted, 0.9) if booted else None


async def series(ports: Ports, since: datetime, until: datetime) -> list[SeriesPoint]:
    """A point for each class and minute in which provisions ended, by class, the oldest first."""
    ended: defaultdict[tuple[str, datetime], list[ProvisionReport]] = defaultdict(list)
    for report in await reports_between(ports, since, until):
        ended[report.resource_class, report.ended_at.replace(second=0, microsecond=0)].append(report)
    return [_point(*key, of) for key, of in sorted(ended.items())]


def _point(resource_class: str, minute: datetime, reports: Sequence[ProvisionReport]) -> SeriesPoint:
    waited = [one.waited for one in reports if one.outcome is not ReportOutcome.FAILED]
    return SeriesPoint(
        resource_class,
        minute,
        len(reports),
        sum(one.selected for one in reports),
        sum(one.created for one in reports),
        sum(one.created > 0 for one in reports),
        percentile(waited, 0.5) if waited else None,
        percentile(waited, 0.95) if waited else None,
    )
