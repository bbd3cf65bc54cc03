"""Provision: a run asks for N instances and gets N verified ones, reused where one fits, created where none does.

count what the run has → open the record → select, create → validate → settle: commit, roll back or dump
"""

import asyncio
from dataclasses import replace

from bullpen import debts, handover
from bullpen.concurrency import settle
from bullpen.config import Settings
from bullpen.errors import ProvisionFailed
from bullpen.ports import Ports
from bullpen.provision.attempt import Attempt
from bullpen.provision.halts import halts
from bullpen.provision.outcome import Member, Origin, Outcome, Request, Tell
from bullpen.provision.presence import Presence

__all__ = ["Member", "Origin", "Outcome", "Request", "provision"]

TAKE_OVER = 20
"""Debts of others that a provision pays before its own work: enough to keep a pool tidy, few enough not to be felt."""


async def provision(
    ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell = lambda line: None
) -> Outcome:
    """Serve a request. A failure is an answer, with everything given back; an unexpected error dumps and is raised.

    Raise ConfigError, before any work, if the settings show that nothing can be launched.
    """
    began = asyncio.get_running_loop().time()
    ports.foundation.check()
    await debts.pay_due(ports, settings, TAKE_OVER, by="provision")
    presence = Presence(ports, settings, request, tell)
    outcome = await _serve(ports, settings, request, presence, stop, tell)
    return replace(
        outcome,
        members=(*presence.members, *outcome.members) if outcome.succeeded else (),
        held=tuple(presence.members),
        discarded=(*presence.discarded, *outcome.discarded),
        duration=asyncio.get_running_loop().time() - began,
    )


async def _serve(
    ports: Ports, settings: Settings, request: Request, presence: Presence, stop: asyncio.Event, tell: Tell
) -> Outcome:
    """Get what is missing; an attempt that withdrew in favour of another provision of the run is made again."""
    patience = settings.timings.provision
    overdue = ProvisionFailed(
        f"{request.run_id}: another provision of the run was not decided within {patience:g} s",
        remedy="wait for it, or release the run, then provision again",
    )
    arm = halts(stop, ports.clock, handover.later(ports.clock.now(), patience), overdue)
    while True:
        try:
            (missing,) = await settle([presence.missing()], arm=arm)
        except ProvisionFailed as failure:
            return Outcome(request.run_id, "", request.count).failed(failure)
        if missing <= 0:
            return Outcome(request.run_id, "", request.count)
        attempt = await Attempt.open(ports, settings, request, presence, missing, tell)
        if (outcome := await attempt.run(stop)) is not None:
            return outcome
