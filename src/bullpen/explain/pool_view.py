"""What the explanations of one question read of the pool, each thing at most once.

The cost grows with what lives now, never with what was: live instances, provisions that are open, and the reports of
the last day.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bullpen.config import ResourceClass, Settings
from bullpen.explain.candidates import Alike, Candidates, alike, judged_for
from bullpen.explain.read_once import read_once
from bullpen.history.latencies import boot_p90, reports_between
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.pause import Pause, paused_by
from bullpen.model.report import ProvisionReport
from bullpen.model.signal import Pulse
from bullpen.model.ticket import Requirements
from bullpen.model.transition import StoryLine
from bullpen.model.wait import ExplainedWait
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports, ServiceNote
from bullpen.provision.eviction import Headroom

BY = "why"
REPORTS_READ = 2000  # the newest: enough for percentiles, and bounded
REPORTS_OF = timedelta(hours=24)


class PoolView:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self.ports = replace(ports, records=read_once(ports.records))
        self.settings = settings
        self.now = ports.clock.now()
        self.headroom = Headroom(self.ports, settings, evicts=True, by=BY)
        self.headroom.trusts_clock = True
        self.explained: dict[str, ExplainedWait] = {}
        """Provisions that were explained: all jobs of a run wait as its provision does."""
        self._live: list[Instance] | None = None
        self._alike: Alike | None = None
        self._held: dict[str, list[Instance]] | None = None
        self._boots: dict[str, float | None] = {}
        self._judged: dict[Requirements, Candidates] = {}
        self._services: list[ServiceNote] | None = None
        self._reports: list[ProvisionReport] | None = None
        self._reports_of: dict[str, ProvisionReport | None] = {}
        self._pulses: dict[str, Pulse] = {}
        self._stories: dict[str, list[StoryLine]] = {}

    def resource_class(self, name: str) -> ResourceClass | None:
        """None for a class that the settings do not have any more."""
        return self.settings.classes.get(name)

    async def live(self) -> list[Instance]:
        """Every instance that lives."""
        if self._live is None:
            self._live = [one for one in await every_live(self.ports) if one.state is not TERMINATED]
        return self._live

    async def candidates(self, needs: Requirements, run_id: str = "") -> Candidates:
        """The instances of the class of `needs` and the rule that refuses each, without those of the run itself."""
        if needs not in self._judged:
            kind = self.resource_class(needs.resource_class)
            if self._alike is None:
                self._alike = alike(await self.live(), self.now)
            of_class = self._alike.get(needs.resource_class, ())
            self._judged[needs] = judged_for(of_class, needs, kind, self.now)
        return self._judged[needs].without(run_id)

    async def held_by(self, provision_id: str) -> Sequence[Instance]:
        """The live instances that a provision holds, or gave its run."""
        if self._held is None:
            self._held = {}
            for one in await self.live():
                self._held.setdefault(one.provision_id, []).append(one)
        return self._held.get(provision_id, ())

    async def services(self) -> list[ServiceNote]:
        """The servers that live."""
        if self._services is None:
            self._services = await self.ports.health.services(self.now)
        return self._services

    async def pulses(self, ids: Iterable[str]) -> Mapping[str, Pulse]:
        unread = [id for id in ids if id not in self._pulses]
        if unread:
            self._pulses |= await self.ports.signals.read(unread)
        return self._pulses

    async def story(self, id: str) -> Sequence[StoryLine]:
        """The last steps of a record, oldest first."""
        return (await self.stories([id])).get(id, [])

    async def stories(self, ids: Iterable[str]) -> Mapping[str, Sequence[StoryLine]]:
        unread = [id for id in ids if id not in self._stories]
        if unread:
            found = await self.ports.records.stories(unread)
            self._stories |= {id: found.get(id, []) for id in unread}
        return self._stories

    async def reports(self) -> list[ProvisionReport]:
        """Of the last day, the newest first; of a great many, some."""
        if self._reports is None:
            self._reports = await reports_between(self.ports, self.now - REPORTS_OF, self.now, REPORTS_READ)
        return self._reports

    async def report(self, provision_id: str) -> ProvisionReport | None:
        """Of a provision; None while it is open, and once it is forgotten."""
        if provision_id not in self._reports_of:
            self._reports_of[provision_id] = await self.ports.history.report(provision_id)
        return self._reports_of[provision_id]

    async def boot_seconds(self, resource_class: str) -> float | None:
        """Within how many seconds nine of ten machines of a class were registered; None where none is known."""
        if resource_class not in self._boots:
            self._boots[resource_class] = await boot_p90(self.ports, resource_class)
        return self._boots[resource_class]

    async def pause_of(self, resource_class: str) -> Pause | None:
        """The pause that stops what begins in a class."""
        return paused_by(await self.ports.records.pauses(), resource_class)

    def is_heard(self, pulse: Pulse | None) -> bool:
        """Whether an agent shows a sign of life."""
        return pulse is not None and pulse.is_recent(self.now, self.settings.timings.alive)


def age(now: datetime, at: datetime | None) -> float:
    return max((now - at).total_seconds(), 0.0) if at is not None else 0.0
