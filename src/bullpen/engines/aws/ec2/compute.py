"""Compute on EC2: `ports.Compute` by CreateFleet, DescribeInstances and TerminateInstances.

What EC2 lists stays behind what it has done: a machine just launched may not be listed for some seconds, and a call
that names it may get the answer that there is no such machine. So "not found" proves an end only after a while, and a
machine that this process launched needs no look before it is ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from bullpen.config import Settings
from bullpen.engines.aws.dynamodb.schema import POOL_TAG
from bullpen.engines.aws.ec2 import fleet
from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.ec2.error_codes import TEMPLATE_MISSING
from bullpen.engines.aws.ec2.fleet import PROVISION_TAG, Size
from bullpen.engines.aws.ec2.template import Template, Templates, template
from bullpen.engines.aws.ec2.termination import terminate
from bullpen.engines.aws.errors import Declined, all_pages
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, ConfigError, Unavailable
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.ports import Clock, Sighting
from bullpen.structured_log import get_logger

FirstMissing = Callable[[str, datetime], Awaitable[datetime]]
"""Remembers when an id was first found missing, for all processes: (id, now) → the earliest of those times."""

LISTED_AFTER = timedelta(seconds=60)
"""By then EC2 lists what it has launched, with room to spare: what is still not found does not exist."""
UNPROTECT = "switch termination protection (DisableApiTermination) off"
UNTIL_VISIBLE = (0.5, 1.0, 2.0, 4.0)
"""Seconds to wait for a template that was just made to be seen by CreateFleet."""
PAGE = 1000
NAMED = 100
"""Ids or types that one request names: more are refused, or make EC2 slow."""
ALIVE = ("pending", "running")
ENDED = ("shutting-down", "terminated")

log = get_logger("bullpen.engines.aws")


class Ec2Compute:
    """Machines of one pool. `user_data` is asked when the first fleet is: a warm provision does not need it.
    `store_agent` puts the agent that it names where machines look for it."""

    def __init__(
        self,
        cloud: Cloud,
        settings: Settings,
        clock: Clock,
        user_data: Callable[[], str],
        store_agent: Callable[[], Awaitable[None]],
        first_missing: FirstMissing,
    ) -> None:
        self._cloud = cloud
        self._settings = settings
        self._clock = clock
        self._user_data = cache(user_data)
        self._store_agent = store_agent
        self._first_missing = first_missing
        self._templates = Templates(cloud)
        self._verified: dict[str, str] = {}  # the ids of templates whose content this process has compared, by name
        self._sizes: dict[str, Size] = {}
        self._launched: set[str] = set()  # by this process, and not known to have ended
        self._protected: dict[str, str] = {}  # would not end when this process asked for it, and why

    async def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        size = plan.allowed_types, plan.cpu, plan.mem
        wanted = template(self._settings, self._user_data(), plan.resource_class, *size)
        answer = await self._create(plan, wanted)
        machines = fleet.read(plan, answer, await self._sizes_of(fleet.types(answer)))
        self._launched.update(machine.id for machine in machines.machines)
        return machines

    async def terminate(self, ids: Sequence[str]) -> list[str]:
        ids = list(dict.fromkeys(ids))
        seen = await self._listed([id_ for id_ in ids if id_ not in self._launched])
        pool = self._settings.aws.pool
        foreign = {id_ for id_, one in seen.items() if _tags(one).get(POOL_TAG) != pool}
        certain = foreign | {id_ for id_, one in seen.items() if one["State"]["Name"] in ENDED}
        known = [id_ for id_ in ids if id_ not in certain and (id_ in seen or id_ in self._launched)]
        unseen = [id_ for id_ in ids if id_ not in seen and id_ not in self._launched]
        for part, is_seen in ((known, True), (unseen, False)):
            for chunk in _chunks(part):
                ending = await terminate(self._cloud, chunk, are_seen=is_seen)
                certain.update(id_ for id_, state in ending.states.items() if state in ENDED)
                certain.update(ending.malformed)
                certain.update([id_ for id_ in ending.missing if await self._is_gone(id_)])
                self._note(chunk, ending.protected)
        self._launched -= certain
        return [id_ for id_ in ids if id_ in certain]

    async def sightings(self) -> list[Sighting]:
        found = await self._describe({f"tag:{POOL_TAG}": [self._settings.aws.pool]})
        return [
            Sighting(
                id=one["InstanceId"],
                provision_id=_tags(one).get(PROVISION_TAG, ""),
                launched_at=one["LaunchTime"],
                alive=one["State"]["Name"] in ALIVE,
                stays=self._protected.get(one["InstanceId"], ""),
            )
            for one in found
        ]

    async def _create(self, plan: FleetPlan, wanted: Template) -> dict[str, Any]:
        """Ask once the template is known to be as it should be. If there is none, make it and try again, with the same
        token."""
        for wait in (*UNTIL_VISIBLE, None):
            is_missing = False
            try:
                if id_ := self._verified.get(wanted.name) or await self._templates.verified(wanted):
                    self._verified[wanted.name] = id_
                    request = fleet.request(plan, self._settings.aws, id_)
                    return await ask(self._cloud, "create_fleet", expecting=TEMPLATE_MISSING, **request)
                is_missing = True
            except Declined:
                # Deleted, or not seen yet; whatever has its name now is compared. Another fleet may have met it first.
                self._verified.pop(wanted.name, None)
            if is_missing and self._settings.aws.manage == "external":
                raise ConfigError(
                    f"EC2 CreateFleet: there is no launch template {wanted.name} for class {wanted.resource_class} with"
                    " these types, cpu and mem",
                    remedy='Apply your Terraform, or set aws.manage = "refresh" and run `bullpen refresh`.',
                )
            if wait is None:
                break
            if is_missing:
                # First what its machines will fetch: the table may never have seen an agent of this version.
                await self._store_agent()
                await self._templates.ensure(wanted)
            await asyncio.sleep(wait)
        raise Unavailable(f"EC2 CreateFleet: {wanted.name} was just created and EC2 does not show it yet")

    def _note(self, asked: Sequence[str], protected: dict[str, str]) -> None:
        """Warn once of each machine that stays: ending it is tried again and again."""
        known = {id_: self._protected.pop(id_, "") for id_ in asked}
        for id_, said in protected.items():
            self._protected[id_] = f"EC2 TerminateInstances: {said.rstrip('.')}; {UNPROTECT}"
            if known.get(id_) != self._protected[id_]:
                log.warning("machine cannot be ended", instance=id_, reason=self._protected[id_])

    async def _sizes_of(self, types: Sequence[str]) -> dict[str, Size]:
        """How large these types are, as far as EC2 says: a type never changes, so it is asked once."""
        for chunk in _chunks([kind for kind in types if kind not in self._sizes]):
            try:
                answer = await ask(self._cloud, "describe_instance_types", InstanceTypes=chunk)
            except BullpenError:
                break  # the machines run and must be registered: better with what was asked for than not at all
            for kind in answer.get("InstanceTypes", ()):
                size = kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"]
                self._sizes[kind["InstanceType"]] = size
        return self._sizes

    async def _listed(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Those that EC2 lists, whosever they are. A filter, unlike a name, does not mind ids that it does not know."""
        found = [one for chunk in _chunks(ids) for one in await self._describe({"instance-id": chunk})]
        return {one["InstanceId"]: one for one in found}

    async def _describe(self, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        asked = [{"Name": name, "Values": values} for name, values in filters.items()]
        describe = partial(ask, self._cloud, "describe_instances")
        groups = await all_pages(describe, "Reservations", Filters=asked, MaxResults=PAGE)
        return [one for group in groups for one in group.get("Instances", ())]

    async def _is_gone(self, id_: str) -> bool:
        """Whether an id has been missing for so long that there cannot be such a machine any more."""
        now = self._clock.now()
        return now - await self._first_missing(id_, now) >= LISTED_AFTER


def _tags(one: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}


def _chunks(items: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(items), NAMED):
        yield list(items[start : start + NAMED])
