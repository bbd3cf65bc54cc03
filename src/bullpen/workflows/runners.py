"""Runners for a label, like those it had: what was asked for it last is asked once more."""

import asyncio
from dataclasses import dataclass

from bullpen.concurrency import on_event
from bullpen.config import Settings
from bullpen.errors import ConfigError, Outdated, Unavailable
from bullpen.model.provision import COMMITTED, Provision
from bullpen.ports import Ports
from bullpen.provision import Outcome, Request, provision

TOLD = 20  # provisions of a label that are looked through
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
        told = await self._ports.records.told_provisions(label, TOLD)
        # Of a released one the members belong to others. A top-up asks for what was missing only: the largest counts.
        return max((one.want for one in told if one.state is COMMITTED and one.members and not one.is_over), default=0)

    async def provide(self, label: str, count: int) -> Refusal | None:
        """See that a label has at least `count` runners, of those it had or new ones. None: it has.

        Raise Unavailable where a later try may succeed. A silent runner of the label is not counted, and not ended: the
        CI may see it.
        """
        told = await self._ports.records.told_provisions(label, TOLD)
        if not told:
            return Refusal("nobody knows any more what its runners were like")
        model = next((one for one in told if one.state is COMMITTED), told[0])
        try:
            outcome = await self._provision(self._like(model, count))
        except Outdated:
            raise
        except ConfigError as exc:
            return Refusal(str(exc))
        if outcome.unavailable or outcome.interrupted:
            raise Unavailable(f"label {label} has no runners yet: {outcome.reason}")
        return None if outcome.succeeded else Refusal(outcome.reason)

    def _like(self, model: Provision, count: int) -> Request:
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
        )
        return Request(model.run_id, count, needs, model.max_runtime, spares_silent=True)

    async def _provision(self, request: Request) -> Outcome:
        stop = asyncio.Event()
        patience = asyncio.get_running_loop().call_later(PATIENCE, stop.set)
        call_off = on_event(self._stop, stop.set)
        try:
            return await provision(self._ports, self._settings, request, stop=stop)
        finally:
            patience.cancel()
            call_off()
