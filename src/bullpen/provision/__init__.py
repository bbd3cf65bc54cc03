"""Provision: a run requests N instances and gets N verified ones, reused where one fits, created where none does.

complete what the run inherits → count what it has → open the record → select, create → validate → settle: commit, roll
back or dump → count → note the report
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from bullpen.config import Settings
from bullpen.model.progress import Tell
from bullpen.pool import debts, repositories
from bullpen.ports import Ports
from bullpen.provision.call import ProvisionCall
from bullpen.provision.call_report import note_call
from bullpen.provision.existing_members import ExistingMembers
from bullpen.provision.outcome import Member, Outcome, Request

__all__ = ["Member", "Outcome", "Request", "provision"]

TAKE_OVER = 20
"""Debts of other processes that a provision pays first: enough to keep a pool tidy, few enough not to slow it down."""


async def provision(
    ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell = lambda report: None
) -> Outcome:
    """Serve a request. A failure is an outcome, with everything given back. An unexpected error ends what is held and
    is raised.

    Raise ConfigError, before any work, if the settings show that nothing can be launched.
    """
    began, asked_at = asyncio.get_running_loop().time(), ports.clock.now()
    ports.infrastructure.check()
    await debts.pay_due(ports, settings, TAKE_OVER, by="provision")
    needs = await repositories.with_inherited(ports, settings, request.needs, by="provision")
    request = replace(request, needs=needs)
    existing = ExistingMembers(ports, settings, request, tell)
    call = ProvisionCall(ports, settings, request, stop, tell, existing, began)
    try:
        outcome = await call.serve()
    except Exception as error:
        with suppress(Exception):  # the error that ended the call is the one to raise
            await note_call(ports, request, call.broken(error), asked_at)
        raise
    outcome = replace(outcome, duration=asyncio.get_running_loop().time() - began)
    await note_call(ports, request, outcome, asked_at)
    return outcome
