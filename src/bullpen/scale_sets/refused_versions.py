"""Refused versions: GitHub stops a runner whose version is too old, and so every idle machine that has it is retired.

    an agent reports that its version is refused ──▶ idle machines of that version are ended
                                                └──▶ a young one has it, too: nothing is claimed or launched for the set

A young machine shows which version a new one would have. It is left on offer, because the pool would replace it with
one of the same version; once it is old it is ended like the others, so that the set tries again every hour.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.model.signal import Pulse
from bullpen.model.signal_text import refused_version
from bullpen.model.times import later
from bullpen.pool import lifecycle
from bullpen.pool.live_instances import every_live
from bullpen.pool.runner_versions import YOUNG, advice, is_young, version_of
from bullpen.ports import Ports
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.structured_log import get_logger

AGAIN = 60.0  # seconds between two looks for machines of a refused version: those that are cleaned come on offer later

log = get_logger("bullpen.scale_sets")


class RefusedVersions:
    def __init__(
        self, ports: Ports, settings: Settings, set_name: str, *, by: str, note: NoteActions = unnoted
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._set_name = set_name
        self._by = by
        self._note = note
        self._seen_at: dict[str, float] = {}  # by version: when a machine last had it, by the event loop
        self._young_until: dict[str, datetime] = {}  # by version: as long, new machines are known to have it
        self._news: dict[str, str] = {}  # versions of machines that failed since the last look, by instance
        self._look_at = 0.0
        self.hindrance = ""
        """Why no machine can help at the moment; empty if one can."""

    def note(self, instance_id: str, version: str) -> None:
        """An agent reports that the CI refuses its version."""
        if version not in self._seen_at:
            log.error("GitHub refuses a runner version", set=self._set_name, version=version, instance=instance_id)
        self._seen_at[version] = asyncio.get_running_loop().time()
        self._news[instance_id] = version

    async def retire(self, members: Iterable[Instance], pulses: Mapping[str, Pulse]) -> None:
        """End the members whose version was refused, and now and then idle machines of such versions."""
        failed = []
        for one in members:
            signal = pulses[one.id].signal
            if signal is not None and signal.fails(one.round) and (version := refused_version(signal.text)):
                failed.append(one)
                self.note(one.id, version)
        time = asyncio.get_running_loop().time()
        self._seen_at = {version: at for version, at in self._seen_at.items() if time - at < YOUNG}
        if not self._seen_at:
            self.hindrance = ""
        elif self._news or time >= self._look_at:
            self._look_at = time + AGAIN
            await self._look(failed)

    async def _look(self, failed: Sequence[Instance]) -> None:
        news, self._news = self._news, {}
        live = await every_live(self._ports)
        idle = await self._ports.signals.read([one.id for one in live if one.is_claimable])
        versions = {id: version for id, pulse in idle.items() if (version := version_of(pulse))}
        refused = {id: version for id, version in versions.items() if version in self._seen_at}
        self._seen_at |= dict.fromkeys(refused.values(), asyncio.get_running_loop().time())
        sightings = {seen.id: seen for seen in await self._ports.compute.sightings()}
        now = self._ports.clock.now()
        young = {id: version for id, version in (news | refused).items() if is_young(sightings.get(id), now)}
        for id, version in young.items():
            until = later(sightings[id].launched_at, YOUNG)
            self._young_until[version] = max(until, self._young_until.get(version, until))
        self._hinder(now, has_others=len(refused) < len(versions))
        condemned = [one for one in live if one.id in refused and one.id not in young]
        why = {one.id: f"GitHub refuses its runner {(news | refused)[one.id]}" for one in (*condemned, *failed)}
        for id, reason in why.items():
            log.warning("instance retired", set=self._set_name, instance=id, why=reason)
        if why:
            await lifecycle.expire_and_terminate(self._ports, self._settings, [*condemned, *failed], why, by=self._by)
            self._note([SetAction("terminate", id, f"set {self._set_name}: {reason}") for id, reason in why.items()])

    def _hinder(self, now: datetime, *, has_others: bool) -> None:
        """Nothing helps while new machines have a refused version, unless some on offer have another one."""
        self._young_until = {version: until for version, until in self._young_until.items() if until > now}
        version = next(iter(self._young_until), "")
        is_hindered = version and not has_others
        self.hindrance = f"GitHub refuses runner {version}, and {advice(self._settings)}" if is_hindered else ""
