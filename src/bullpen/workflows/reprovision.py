"""Runners for a label, like those it had: what was asked for it last is asked once more.

A job that is run again gets the time that its run asked for. So runners of before, who have used up some of theirs, go
back to the pool first: GitHub gives a job to any runner of its label.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bullpen.concurrency import on_event
from bullpen.config import Settings
from bullpen.errors import ConfigError, Outdated, Unavailable
from bullpen.model import label as labels
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.provision import COMMITTED, Provision
from bullpen.pool import busy, lifecycle, offering
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision

BY = "rescue"
FRESH = 120.0  # seconds for which a runner counts as new: whoever looks beside us must not take ours away
TOLD = 20  # provisions that gave a label its runners and are looked through
PATIENCE = 240.0  # seconds: a machine that boots needs less, and whoever looks has more to do


@dataclass(frozen=True, slots=True)
class Refusal:
    """There will be no runners, and why."""

    reason: str


class Runners:
    """`stop` ends what is at work, with everything given back."""

    def __init__(self, ports: Ports, settings: Settings, stop: asyncio.Event) -> None:
        self._ports = ports
        self._settings = settings
        self._stop = stop

    async def wanted(self, label: str) -> int:
        """How many runners a label was to have at once; 0 once it was released, or if it never had any."""
        standing = [one for one in await self._ports.records.run_provisions(label) if one.state is COMMITTED]
        # Of a released one the members belong to others. A top-up asks for what was missing only: the largest counts.
        return max((one.want for one in standing if one.members and not one.is_over), default=0)

    async def asked(self, label: str) -> int:
        """How many runners anybody wanted for a label at once, released or not; 0 if nobody knows of any."""
        return max((one.want for one in await self._models(label)), default=0)

    async def give_back_used(self, labels: Iterable[str]) -> None:
        """Give back the runners of these labels that are not new, and wait until they are clean: they may be needed.

        The run is over, and who still has a job of it is about to say that it has ended.
        """
        ports, settings = self._ports, self._settings
        used = [one for label in labels for one in await self._used(label)]
        at_work = await busy.outlasting(ports, settings, [one.id for one in used])
        now = ports.clock.now()
        changes = [
            lifecycle.give_back(ports, settings, one, now, BY, "its run is over, and is run again on new runners")
            for one in used
            if one.id not in at_work
        ]
        landed = await ports.records.apply_each(changes) if changes else []
        cleaning = [one for one in landed if isinstance(one, Instance)]
        await offering.await_and_offer(ports, settings, cleaning, by=BY, stop=self._stop)

    async def _used(self, label: str) -> list[Instance]:
        told = await self._ports.records.told_provisions(label, TOLD, committed=True)
        lasts = {one.id: one.max_runtime for one in told}
        found = await self._ports.records.run_instances(label)
        now = self._ports.clock.now()
        return [
            one
            for one in found
            if one.state is RUNNING
            and (whole := lasts.get(one.provision_id)) is not None
            and one.threshold < lifecycle.later(now, whole - min(FRESH, whole / 2))
        ]

    async def provide(self, label: str, count: int) -> Refusal | None:
        """See that a label has at least `count` runners, of those it had or new ones. None: it has.

        Raise Unavailable where a later try may succeed. A silent runner of the label is not counted, and not ended: the
        CI may see it.
        """
        told = await self._models(label) or await self._ports.records.told_provisions(label, 1)
        if not told:
            return Refusal("nobody knows any more what its runners were like")
        try:
            outcome = await self._provision(self._like(told[0], label, count))
        except Outdated:
            raise
        except ConfigError as exc:
            return Refusal(str(exc))
        if outcome.unavailable or outcome.interrupted:
            raise Unavailable(f"label {label} has no runners yet: {outcome.reason}")
        if outcome.succeeded:
            return None
        decided = await self._ports.records.provision(outcome.provision_id) if outcome.provision_id else None
        if decided is not None and decided.reason != outcome.reason:
            # It was ended for another reason than ours: somebody released the label under our hands.
            raise Unavailable(f"label {label} has no runners yet: {outcome.reason}")
        return Refusal(outcome.reason)

    async def _models(self, label: str) -> list[Provision]:
        """What gave a label its runners, the newest first. Jobs that are run again may ask for the label of their own
        attempt, which nobody provided: those are like the runners of the attempt before."""
        asked = labels.parse(label)
        before = [replace(asked, attempt=asked.attempt - 1)] if asked is not None and asked.attempt > 1 else []
        for name in (label, *map(str, before)):
            if told := await self._ports.records.told_provisions(name, TOLD, committed=True):
                return told
        return []

    def _like(self, model: Provision, label: str, count: int) -> Request:
        """Raise ConfigError if the settings no longer allow what was asked for."""
        asked = model.needs
        needs = self._settings.requirements(
            asked.resource_class,
            asked.usage_class,
            asked.allowed_types,
            asked.cpu,
            asked.mem,
            asked.trust_domain,
            asked.repository,
            asked.fallback,
        )
        return Request(label, count, needs, model.max_runtime, spares_silent=True)

    async def _provision(self, request: Request) -> Outcome:
        stop = asyncio.Event()
        patience = asyncio.get_running_loop().call_later(PATIENCE, stop.set)
        call_off = on_event(self._stop, stop.set)
        try:
            return await provision(self._ports, self._settings, request, stop=stop)
        finally:
            patience.cancel()
            call_off()
