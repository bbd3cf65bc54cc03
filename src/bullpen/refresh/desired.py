"""Desired: every configured class has a queue, and no other class has one."""

from collections.abc import AsyncIterator
from functools import partial

from bullpen.config import Settings
from bullpen.ports import Ports
from bullpen.refresh.action import Action, Plan


async def plans(ports: Ports, settings: Settings) -> AsyncIterator[Plan]:
    if not settings.makes_queues:
        return
    present = await ports.queue.names()
    for name in settings.classes:
        if name not in present:
            action = Action("make queue", name, "the class is configured and has no queue")
            yield Plan((action,), partial(ports.queue.ensure, name))
    for name in present:
        if name not in settings.classes:
            # Its tickets are hints: the instances behind them are ended by `reconcile`, by their records.
            action = Action("retire queue", name, "the class is no longer configured")
            yield Plan((action,), partial(ports.queue.retire, name))
