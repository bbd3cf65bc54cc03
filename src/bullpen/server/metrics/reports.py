"""Provisions of all processes of the pool, counted from the reports in the store since this server began.

Every server counts the same reports, so the series are the pool's. Processes have clocks of their own and an index may
lag, so each look goes back `OVERLAP` seconds, and knows what it has counted there.
"""

from collections import Counter
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.model.histogram import Histogram
from bullpen.model.instance import InstanceFate
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.ports import History
from bullpen.server.metrics.samples import OTHER, Bounded, Samples

OVERLAP = timedelta(seconds=60)
PAGE = 500  # reports read at a time
MOST_PAGES = 20  # of one look: more reports than a pool writes between two scrapes
STAGES = (WorkPhase.SELECT, WorkPhase.CREATE, WorkPhase.REGISTER, WorkPhase.ACQUIRE, WorkPhase.SETTLE)
VERDICTS = ("taken", "put-back", "dropped")
MILESTONES = ("registered", "booted", "launched", "seen", "claimed", "picked")
FATES = frozenset(one.value for one in InstanceFate)
BOUNDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200)


class ReportTally:
    """`began` is when this server began, by the pool's clock."""

    def __init__(self, began: datetime) -> None:
        self._began = self._counted_until = began
        self._known: dict[str, None] = {}  # counted, and within the overlap
        self._counts: dict[str, Counter[tuple[str, ...]]] = {}
        self._durations: dict[tuple[str, ...], Histogram] = {}
        self._stages: dict[WorkPhase, Histogram] = {}
        self._bounded: Bounded | None = None

    async def catch_up(self, history: History, settings: Settings, now: datetime) -> None:
        """Count what has ended since the last look. Raise what the store raises: then the next look counts it."""
        since, after = max(self._began, self._counted_until - OVERLAP), ""
        found: list[ProvisionReport] = []
        for _ in range(MOST_PAGES):
            page = await history.reports(since, now + OVERLAP, PAGE, after)
            found += page.rows
            if not (after := page.next):
                break
        self._bounded = self._bounded or Bounded(settings.classes)
        for report in found:
            if report.id not in self._known:  # a call that was given up for dead may report itself as well
                self._known[report.id] = None
                self._note(report, self._bounded(report.resource_class))
        self._counted_until = now
        recent = max(self._began, now - OVERLAP)
        self._known = {one.id: None for one in found if one.ended_at >= recent}

    def put(self, samples: Samples, settings: Settings) -> None:
        """Series of 0 for every class of the settings, so that the first provision is an increase."""
        for name in settings.classes:
            for outcome in ReportOutcome:
                self._add("provisions_total", 0, name, outcome.value)
            for origin in Origin:
                self._add("provision_runners_total", 0, name, origin.value)
            self._add("claim_collisions_total", 0, name)
            self._add("provision_requested_runners_total", 0, name)
            for verdict in VERDICTS:
                self._add("pickup_verdicts_total", 0, name, verdict)
        for family, counts in self._counts.items():
            samples.put_each(family, counts.items())
        samples.put_each("provision_duration_seconds", self._durations.items())
        for stage, histogram in self._stages.items():
            samples.put("provision_stage_seconds", histogram, stage.value)

    def _note(self, one: ProvisionReport, name: str) -> None:
        self._add("provisions_total", 1, name, one.outcome.value)
        if one.outcome is ReportOutcome.FAILED:
            self._add("provisions_failed_total", 1, name, one.cause.value or OTHER)
        self._add("provision_requested_runners_total", one.requested, name)
        self._add("provision_runners_total", one.selected, name, Origin.SELECTED.value)
        self._add("provision_runners_total", one.created, name, Origin.CREATED.value)
        self._add("claim_collisions_total", one.collisions, name)
        for verdict, count in zip(VERDICTS, (one.taken, one.put_back, one.dropped), strict=True):
            self._add("pickup_verdicts_total", count, name, verdict)
        for lane in one.lanes:
            if not lane.kept:
                fate = lane.fate if lane.fate in FATES else OTHER
                self._add("runners_discarded_total", 1, lane.origin.value, _reached(lane), fate)
        self._durations.setdefault((name, one.outcome.value), Histogram(BOUNDS)).observe(one.waited)
        for stage in STAGES:
            if (seconds := one.timings.get(stage)) is not None:
                self._stages.setdefault(stage, Histogram(BOUNDS)).observe(seconds)

    def _add(self, family: str, count: int, *labels: str) -> None:
        self._counts.setdefault(family, Counter())[labels] += count


def _reached(lane: Lane) -> str:
    """The last thing that happened on a lane."""
    return next((name for name in MILESTONES if getattr(lane, name) is not None), "none")
