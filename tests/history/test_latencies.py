"""Waits and boot times, from the reports of provisions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, later
from bullpen.engines.memory import Memory
from bullpen.history import latencies
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.ports import Ports

MINUTE = timedelta(minutes=1)


def a_report(id: str, asked: float = 0, waited: float = 5, **more: object) -> ProvisionReport:
    found = ProvisionReport(
        id,
        "run-1",
        "acme/widgets",
        "small",
        UsageClass.ON_DEMAND,
        "default",
        later(asked),
        later(asked + waited),
        ReportOutcome.MET,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def booted(id: str, seconds: float) -> Lane:
    return Lane(id, Origin.CREATED, launched=1.0, registered=1.0 + seconds, kept=True)


async def noted(*reports: ProvisionReport) -> Ports:
    ports = Memory().ports()
    for report in reports:
        await ports.history.note_provision(report)
    return ports


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.95, 10), (0.99, 10), (0.1, 1), (0.0, 1), (1.0, 10)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert latencies.percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == expected


async def test_waits_are_told_by_class_and_repository() -> None:
    many = [a_report(f"p-{n}", waited=n + 1) for n in range(100)]
    other = a_report("p-o", waited=3, repository="", resource_class="large")
    ports = await noted(*many, other, a_report("p-f", waited=999, outcome=ReportOutcome.FAILED))
    assert await latencies.waits(ports, NOW, NOW + timedelta(days=1)) == [
        latencies.WaitTimes("large", "", 1, 3, 3, 3),
        latencies.WaitTimes("small", "acme/widgets", 100, 50, 95, 99),
    ]


async def test_a_range_without_reports_has_no_waits() -> None:
    ports = await noted(a_report("p-1"))
    assert await latencies.waits(ports, NOW - MINUTE, NOW) == []
    assert await latencies.series(ports, NOW - MINUTE, NOW) == []


async def test_the_boot_time_of_a_class_counts_the_machines_that_registered() -> None:
    ports = Memory().ports()
    now = ports.clock.now()
    lanes = tuple(booted(f"i-{n}", n) for n in range(1, 11))
    failed = Lane("i-x", Origin.CREATED, launched=1.0)
    report = a_report("p-1", lanes=(*lanes, failed, Lane("i-s", Origin.SELECTED, picked=0.0, registered=500.0)))
    await ports.history.note_provision(replace(report, ended_at=now - MINUTE))
    old = a_report("p-2", lanes=(booted("i-o", 900),))
    await ports.history.note_provision(replace(old, ended_at=now - timedelta(days=8)))
    assert await latencies.boot_p90(ports, "small") == 9
    assert await latencies.boot_p90(ports, "large") is None


async def test_a_series_has_a_point_for_each_class_and_minute() -> None:
    ports = await noted(
        a_report("p-1", waited=10, selected=2),
        a_report("p-2", waited=20, created=3),
        a_report("p-3", waited=30, outcome=ReportOutcome.FAILED),
        a_report("p-4", asked=60, waited=5, resource_class="large", selected=1),
        a_report("p-5", asked=61, waited=5, outcome=ReportOutcome.FAILED),
    )
    assert await latencies.series(ports, NOW, NOW + 5 * MINUTE) == [
        latencies.SeriesPoint("large", NOW + MINUTE, 1, 1, 0, 0, 5, 5),
        latencies.SeriesPoint("small", NOW, 3, 2, 3, 1, 10, 20),
        latencies.SeriesPoint("small", NOW + MINUTE, 1, 0, 0, 0, None, None),
    ]


async def test_no_question_reads_more_than_its_bound() -> None:
    ports = await noted(*(a_report(f"p-{n:03}", asked=n) for n in range(30)))
    found = await latencies.reports_between(ports, NOW, NOW + timedelta(days=1), 7)
    assert [one.id for one in found] == [f"p-{n:03}" for n in range(29, 22, -1)]
