"""The report of a call, for people: what it was asked, what it got, and when each instance reached each stage."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from bullpen.errors import BullpenError
from bullpen.model.report import LANES_KEPT, REASON_LENGTH, ProvisionReport, ReportOutcome
from bullpen.model.texts import fitting
from bullpen.model.ticket import Verdict
from bullpen.ports import Ports
from bullpen.provision.outcome import Outcome, Request

PATIENCE = 1.0
"""Seconds that a call waits for its report to be written. No decision depends on it."""


async def note_call(ports: Ports, request: Request, outcome: Outcome, asked_at: datetime) -> None:
    """Store the report of a call that had a provision of its own, and send its trace if that is switched on. A store
    that does not answer loses the report."""
    if not outcome.provision_id:
        return
    report = report_of_call(request, outcome, asked_at, ports.clock.now())
    ports.traces.note(report)
    with suppress(BullpenError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await ports.history.note_provision(report)


def report_of_call(request: Request, outcome: Outcome, asked_at: datetime, ended_at: datetime) -> ProvisionReport:
    got = ReportOutcome.MET if len(outcome.members) >= outcome.requested else ReportOutcome.PARTIAL
    needs = request.needs
    return ProvisionReport(
        id=outcome.provision_id,
        run_id=request.run_id,
        repository=needs.repository,
        resource_class=needs.resource_class,
        usage_class=needs.usage_class,
        trust_domain=needs.trust_domain,
        asked_at=asked_at,
        ended_at=ended_at,
        outcome=got if outcome.succeeded else ReportOutcome.FAILED,
        cause=outcome.cause,
        reason=fitting(outcome.reason, REASON_LENGTH),
        requested=outcome.requested,
        selected=outcome.selected,
        created=outcome.created,
        collisions=outcome.collisions,
        taken=outcome.verdicts.get(Verdict.TAKE, 0),
        put_back=outcome.verdicts.get(Verdict.PUT_BACK, 0),
        dropped=outcome.verdicts.get(Verdict.DROP, 0),
        timings=outcome.timings,
        lanes=tuple(replace(one, reason=fitting(one.reason, REASON_LENGTH)) for one in outcome.lanes[:LANES_KEPT]),
    )
