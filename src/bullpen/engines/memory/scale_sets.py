"""Runner scale sets in memory, as one process reaches them."""

import asyncio
from collections.abc import Sequence
from functools import partial

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.github import MemoryGithub
from bullpen.engines.memory.set_service import GROUPS, HOLD
from bullpen.errors import NotFound
from bullpen.ports import (
    JitConfiguration,
    MessageSession,
    RegisteredSet,
    Removal,
    ScaleSetSpec,
    SetMessage,
    SetRunner,
)


class MemoryScaleSets:
    def __init__(self, hub: MemoryGithub, faults: Faults) -> None:
        self._service = hub.sets
        self._runners = hub.set_runners
        self._faults = faults

    @request("scale_sets.find")
    def find(self, id: int) -> RegisteredSet | None:
        try:
            return self._service.shown(self._service.of(id))
        except NotFound:
            return None

    @request("scale_sets.find_named")
    def find_named(self, name: str, group: str = "") -> RegisteredSet | None:
        found = self._service.named(name, group)
        return self._service.shown(found) if found is not None else None

    @request("scale_sets.find_everywhere")
    def find_everywhere(self, name: str) -> dict[str, RegisteredSet]:
        found = {group: self._service.named(name, group) for group in GROUPS if group}
        return {group: self._service.shown(one) for group, one in found.items() if one is not None}

    @request("scale_sets.create")
    def create(self, spec: ScaleSetSpec) -> RegisteredSet:
        return self._service.shown(self._service.create(spec))

    @request("scale_sets.correct")
    def correct(self, id: int, spec: ScaleSetSpec) -> RegisteredSet:
        return self._service.shown(self._service.correct(id, spec))

    @request("scale_sets.delete")
    def delete(self, id: int) -> None:
        self._service.delete(id)

    @request("scale_sets.open")
    def open(self, set_id: int, owner: str) -> MessageSession:
        return self._session(set_id, self._service.open(set_id, owner).id)

    @request("scale_sets.renew")
    def renew(self, session: MessageSession) -> MessageSession:
        self._service.session(session.set_id, session.id)
        return self._session(session.set_id, session.id)

    @request("scale_sets.close")
    def close(self, set_id: int, session_id: str) -> None:
        self._service.close(set_id, session_id)

    async def poll(self, session: MessageSession, last: int, capacity: int) -> SetMessage | None:
        loop, service, kind = asyncio.get_running_loop(), self._service, "scale_sets.poll"
        until, place = loop.time() + HOLD, (session.set_id, session.id)
        message = await self._faults.call(kind, partial(service.begin_poll, *place, last, capacity))
        is_held = message is None and not service.happens(service.troubles.empty)
        while is_held and (message := service.next_message(*place, last)) is None and loop.time() < until:
            await service.session(*place).bell.next_ring(until - loop.time())
        service.end_poll(*place)
        return await self._faults.answer(kind, message) if is_held else message

    @request("scale_sets.acquire")
    def acquire(self, session: MessageSession, requests: Sequence[int]) -> list[int]:
        """Jobs come assigned here: none is on offer."""
        self._service.session(session.set_id, session.id)
        return []

    @request("scale_sets.acknowledge")
    def acknowledge(self, session: MessageSession, message: int) -> None:
        self._service.acknowledge(session.set_id, session.id, message)

    @request("scale_sets.configure")
    def configure(self, set_id: int, runner: str, work_folder: str) -> JitConfiguration:
        return self._runners.configure(set_id, runner)

    @request("scale_sets.runner")
    def runner(self, id: int) -> SetRunner | None:
        return next((one for one in self._runners.all() if one.id == id), None)

    @request("scale_sets.runner_named")
    def runner_named(self, name: str) -> SetRunner | None:
        return next((one for one in self._runners.all() if one.name == name), None)

    @request("scale_sets.remove_runner")
    def remove_runner(self, id: int) -> Removal:
        found = next((one for one in self._runners.all() if one.id == id), None)
        return self._runners.remove(found.name) if found is not None else Removal.REMOVED

    def _session(self, set_id: int, session_id: str) -> MessageSession:
        statistics = self._service.statistics(self._service.of(set_id))
        return MessageSession(session_id, set_id, statistics, queue="memory", token="memory")
