"""`ports.ScaleSets` on GitHub: sets and the registrations of their runners. `sessions` has the messages."""

import asyncio
from typing import Any

from bullpen.engines.github.answers import understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.jit import DEFAULT_GROUP
from bullpen.engines.github.naming import LONGEST
from bullpen.engines.github.scale_sets import parsing
from bullpen.engines.github.scale_sets.service import ActionsService, ServiceCall
from bullpen.engines.github.scale_sets.sessions import GONE, SETS, MessageSessions
from bullpen.errors import Conflict, NotFound, Refused
from bullpen.ports import Clock, JitConfiguration, RegisteredSet, Removal, ScaleSetSpec, SetRunner

AGENTS = "_apis/distributedtask/pools/0/agents"
GROUPS = "_apis/runtime/runnergroups/"
STILL_RUNNING = "JobStillRunning"  # in the type of an error


class GithubScaleSets(MessageSessions):
    """The sets of one scope of GitHub. Nothing is asked before the first call."""

    def __init__(self, client: GithubClient, clock: Clock) -> None:
        super().__init__(ActionsService(client, clock), clock)
        self._scope = client.settings.scope

    async def find(self, id: int) -> RegisteredSet | None:
        call = ServiceCall("GET", f"{SETS}/{id}")
        answer = await self._service.ask(call, expecting=GONE)
        if not answer.is_success:
            return None
        with understood(call.named()):
            return parsing.scale_set(answer.content)

    async def find_named(self, name: str, group: str = "") -> RegisteredSet | None:
        return await self._named(name, await self._group(group))

    async def find_everywhere(self, name: str) -> dict[str, RegisteredSet]:
        groups = {"Default": DEFAULT_GROUP, **await self.groups()}
        places = {id: group for group, id in groups.items()}  # the default one may have another name
        found = await asyncio.gather(*(self._named(name, id) for id in places))
        return {group: one for group, one in zip(places.values(), found, strict=True) if one is not None}

    async def _named(self, name: str, group_id: int) -> RegisteredSet | None:
        call = ServiceCall("GET", SETS, {"runnerGroupId": str(group_id), "name": name})
        answer = await self._service.ask(call)
        with understood(call.named()):
            found = parsing.scale_sets(answer.content)
        named = [one for one in found if one.group in (group_id, 0) and one.name.casefold() == name.casefold()]
        return named[0] if named else None

    async def create(self, spec: ScaleSetSpec) -> RegisteredSet:
        return await self._written(ServiceCall("POST", SETS), spec)

    async def correct(self, id: int, spec: ScaleSetSpec) -> RegisteredSet:
        return await self._written(ServiceCall("PATCH", f"{SETS}/{id}"), spec)

    async def delete(self, id: int) -> None:
        await self._service.ask(ServiceCall("DELETE", f"{SETS}/{id}"), expecting=GONE)

    async def configure(self, set_id: int, runner: str, work_folder: str) -> JitConfiguration:
        if not 0 < len(runner) <= LONGEST:
            raise Refused(
                f"the name of a runner must have 1 to {LONGEST} characters: {runner[:80]!r} has {len(runner)}"
            )
        call = ServiceCall("POST", f"{SETS}/{set_id}/generatejitconfig")
        answer = await self._service.ask(call, {"name": runner, "workFolder": work_folder}, expecting=(404, 409))
        if answer.status == 409:
            raise Conflict(f"a runner named {runner} exists ({parsing.said(answer.content)})")
        if answer.status == 404:
            raise _missing(str(set_id), answer.content)
        with understood(call.named()):
            return parsing.configuration(answer.content)

    async def runner(self, id: int) -> SetRunner | None:
        call = ServiceCall("GET", f"{AGENTS}/{id}")
        answer = await self._service.ask(call, expecting=GONE)
        if not answer.is_success:
            return None
        with understood(call.named()):
            return parsing.runner(answer.content)

    async def runner_named(self, name: str) -> SetRunner | None:
        call = ServiceCall("GET", AGENTS, {"agentName": name})
        answer = await self._service.ask(call)
        with understood(call.named()):
            return next((one for one in parsing.runners(answer.content) if one.name == name), None)

    async def remove_runner(self, id: int) -> Removal:
        call = ServiceCall("DELETE", f"{AGENTS}/{id}")
        answer = await self._service.ask(call, expecting=(400, 422, *GONE))
        if answer.is_success or answer.status in GONE:
            return Removal.REMOVED
        if answer.status == 422 or STILL_RUNNING in parsing.problem(answer.content)[0]:
            return Removal.BUSY
        raise self._service.failure(call.named(), answer)

    async def groups(self, name: str = "") -> dict[str, int]:
        """The ids of the runner groups by name: all of them, or the one of this name."""
        call = ServiceCall("GET", GROUPS, {"groupName": name} if name else {})
        answer = await self._service.ask(call)
        with understood(call.named()):
            return parsing.groups(answer.content)

    async def _written(self, call: ServiceCall, spec: ScaleSetSpec) -> RegisteredSet:
        body: dict[str, Any] = {
            "name": spec.name,
            "runnerGroupId": await self._group(spec.group),
            "labels": [{"name": label, "type": "System"} for label in spec.labels or (spec.name,)],
            "RunnerSetting": {"disableUpdate": spec.disable_update},
        }
        answer = await self._service.ask(call, body, expecting=(409, 404) if call.method == "PATCH" else (409,))
        if answer.status == 409:
            group = spec.group or "the default group"
            raise Conflict(f"{group} has a scale set named {spec.name} already ({parsing.said(answer.content)})")
        if answer.status == 404:
            raise _missing(call.path.rpartition("/")[2], answer.content)
        with understood(call.named()):
            return parsing.scale_set(answer.content)

    async def _group(self, name: str) -> int:
        """The id of a runner group. Asked each time: an administrator may have made it again."""
        if not name:
            return DEFAULT_GROUP
        found = {one.casefold(): id for one, id in (await self.groups(name)).items()}
        if name.casefold() not in found:
            remedy = "Create it, or correct github.scale-sets.NAME.runner-group or github.runner-group."
            raise Refused(f"{self._scope} has no runner group {name!r}", remedy=remedy)
        return found[name.casefold()]


def _missing(set_id: str, content: bytes) -> NotFound:
    return NotFound(f"scale set {set_id} does not exist ({parsing.said(content)})")
