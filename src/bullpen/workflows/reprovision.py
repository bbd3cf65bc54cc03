"""Reprovision: runners for a label, like those it had, with the same request as its last provision.

A job that is run again gets the whole maximum runtime that its run asked for. So the old runners, which have used up a
part of theirs, go back to the pool first: GitHub gives a job to any runner of its label.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from bullpen.concurrency import on_event
from bullpen.config import Settings
from bullpen.errors import ConfigError, FailureCause, Outdated, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import label as labels
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.pause import paused_by, words_of
from bullpen.model.provision import COMMITTED, Provision
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.times import later
from bullpen.pool import busy, lifecycle, offering
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision

BY = "rescue"
FRESH = 120.0  # seconds for which a runner counts as new: another controller must not give back what this one provided
LATEST = 20  # provisions of a label that are read
PATIENCE = 240.0  # seconds for one provision: a machine boots in less, and other runs wait for the controller


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a label gets no runners. With `is_paused` it gets them after the resume: no job is given up for it."""

    reason: str
    is_paused: bool = False


@dataclass(slots=True)
class RunnerProvider:
    """Provides runners for labels. `stop` ends provisions at work, with everything given back."""

    _ports: Ports
    _settings: Settings
    _stop: asyncio.Event

    async def wanted(self, label: str) -> int:
        """How many runners a label should have at once; 0 once it was released, or if it never had any."""
        standing = [one for one in await self._ports.records.run_provisions(label) if one.state is COMMITTED]
        # The members of a released one belong to others. A top-up asks only for what was missing: the largest counts.
        return max((one.want for one in standing if one.members and not one.is_over), default=0)

    async def asked(self, label: str) -> int:
        """How many runners were requested for a label at once, released or not; 0 if no record of it is left."""
        return max((one.want for one in await self._models(label)), default=0)

    async def give_back_used(self, labels: Iterable[str]) -> None:
        """Give back the runners of these labels that are not new, and wait until they are clean: they may be needed.

        The run has completed: an agent that still reports a job of it is about to report its end.
        """
        ports, settings = self._ports, self._settings
        used = [one for label in labels for one in await self._used(label)]
        at_work = await busy.outlasting(ports, settings, [one.id for one in used])
        now = ports.clock.now()
        changes = [
            lifecycle.give_back(ports, settings, one, now, BY, "its run has completed, and is run again on new runners")
            for one in used
            if one.id not in at_work
        ]
        landed = await ports.records.apply_each(changes) if changes else []
        cleaning = [one for one in landed if isinstance(one, Instance)]
        await offering.await_and_offer(ports, settings, cleaning, by=BY, stop=self._stop)

    async def _used(self, label: str) -> list[Instance]:
        latest = await self._ports.records.told_provisions(label, LATEST, committed=True)
        lasts = {one.id: one.max_runtime for one in latest}
        found = await self._ports.records.run_instances(label)
        now = self._ports.clock.now()
        return [
            one
            for one in found
            if one.state is RUNNING
            and (whole := lasts.get(one.provision_id)) is not None
            and one.threshold < later(now, whole - min(FRESH, whole / 2))
        ]

    async def provide(self, label: str, count: int) -> Refusal | None:
        """Make sure that a label has at least `count` runners. None if it has.

        Raise Unavailable where a later try may succeed. A silent runner of the label is not counted, and not ended:
        GitHub may see it online. A scale set is not provided for: the process that listens to it supplies its runners.
        """
        if set_of_run_id(label) is not None:
            return None
        models = await self._models(label) or await self._ports.records.told_provisions(label, 1)
        if not models:
            return Refusal("the records of its provisions are purged, so its runners cannot be provisioned again")
        pauses = await self._ports.records.pauses()
        if (pause := paused_by(pauses, models[0].needs.resource_class)) is not None:
            return Refusal(words_of(pause), is_paused=True)  # without the record that a provision leaves
        try:
            outcome = await self._provision(self._like(models[0], label, count))
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
            # Another process ended it, for another reason: it released the label.
            raise Unavailable(f"label {label} has no runners yet: {outcome.reason}")
        return Refusal(outcome.reason, is_paused=outcome.cause is FailureCause.PAUSED)

    async def _models(self, label: str) -> list[Provision]:
        """The provisions that gave a label its runners, the newest first. Jobs that are run again may wait for the
        label of their own attempt, which was never provisioned: they get runners like those of the attempt before."""
        asked = labels.parse(label)
        before = [replace(asked, attempt=asked.attempt - 1)] if asked is not None and asked.attempt > 1 else []
        for name in (label, *map(str, before)):
            if found := await self._ports.records.told_provisions(name, LATEST, committed=True):
                return found
        return []

    def _like(self, model: Provision, label: str, count: int) -> Request:
        """The request again. Raise ConfigError if the settings no longer allow it."""
        asked = model.needs
        machine = (asked.resource_class, asked.usage_class, asked.allowed_types, asked.cpu, asked.mem)
        needs = self._settings.requirements(*machine, asked.trust_domain, asked.repository, asked.fallback)
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
