"""Provision: a run asks for N instances and gets N verified ones, reused where one fits, created where none does.

count what the run has → open the record → select, create → validate → settle: commit, roll back or dump → count
"""

import asyncio
from dataclasses import replace

from bullpen.config import Settings
from bullpen.model.progress import Tell
from bullpen.pool import debts
from bullpen.ports import Ports
from bullpen.provision.call import Call
from bullpen.provision.existing_members import Presence
from bullpen.provision.outcome import Member, Origin, Outcome, Request

__all__ = ["Member", "Origin", "Outcome", "Request", "provision"]

TAKE_OVER = 20
"""Debts of others that a provision pays before its own work: enough to keep a pool tidy, few enough not to be felt."""


async def provision(
    ports: Ports, settings: Settings, request: Request, *, stop: asyncio.Event, tell: Tell = lambda report: None
) -> Outcome:
    """Serve a request. A failure is an answer, with everything given back; an unexpected error dumps and is raised.

    Raise ConfigError, before any work, if the settings show that nothing can be launched.
    """
    began = asyncio.get_running_loop().time()
    ports.infrastructure.check()
    await debts.pay_due(ports, settings, TAKE_OVER, by="provision")
    presence = Presence(ports, settings, request, tell)
    outcome = await Call(ports, settings, request, stop, tell, presence).serve()
    return replace(outcome, duration=asyncio.get_running_loop().time() - began)
