"""Provision: a run asks for N instances and gets N verified ones, reused where one fits, created where none does.

open the record → select, create → validate → settle: commit, roll back or dump
"""

import asyncio
from dataclasses import replace

from bullpen import debts
from bullpen.config import Settings
from bullpen.model.instance import RUNNING
from bullpen.model.provision import COMMITTED
from bullpen.ports import Ports
from bullpen.provision.attempt import Attempt
from bullpen.provision.outcome import Member, Origin, Outcome, Request, Tell

__all__ = ["Member", "Origin", "Outcome", "Request", "provision"]

TAKE_OVER = 20
"""Debts of others that a provision pays before its own work: enough to keep a pool tidy, few enough not to be felt."""


async def provision(
    ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell = lambda line: None
) -> Outcome:
    """Serve a request. A failure is an answer, with everything given back; an unexpected error dumps and is raised."""
    began = asyncio.get_running_loop().time()
    await debts.pay_due(ports, settings, TAKE_OVER, by="provision")
    present = await _present(ports, settings, request)
    missing = request.count - len(present)
    if missing <= 0:
        outcome = Outcome(request.run_id, "", request.count)
        present = present[: request.count]
    else:
        attempt = await Attempt.open(ports, settings, request, missing, tell)
        outcome = await attempt.run(stop)
    duration = asyncio.get_running_loop().time() - began
    members = (*present, *outcome.members) if outcome.succeeded else ()
    return replace(outcome, members=members, duration=duration)


async def _present(ports: Ports, settings: Settings, request: Request) -> list[Member]:
    """Instances of the class that serve the run already: a second provision tops up to the asked count."""
    for earlier in await ports.records.run_provisions(request.run_id):
        if earlier.state is COMMITTED and earlier.owes is not None:
            # Decided and not carried out: whoever decided it may be dead, and its members count.
            await debts.settle_provision(ports, settings, earlier, by="provision")
    found = await ports.records.run_instances(request.run_id)
    return [
        Member(one, Origin.SELECTED)
        for one in found
        if one.state is RUNNING and one.resource_class == request.needs.resource_class
    ]
