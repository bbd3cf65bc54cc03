"""The health of a pool's table, and what services noted there: `TYPE#Health` / `ID#<process>`, one item for each.

An item goes by its time to live some time after it is out of date; until then it is not shown.
"""

import json
from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.aws.dynamodb.items import Item, moment, name_of, number, parse_moment, raw_id, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.ports import FailingLoop, ServiceNote
from bullpen.structured_log import get_logger

KIND = "Health"
PROBES = "Probe"
PROBE_LASTS = 86400  # seconds

log = get_logger("bullpen.engines.aws")


class DynamoHealth:
    """`ports.StoreHealth` on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def probe(self, now: datetime) -> None:
        key = raw_key(PROBES, "store")
        said = {"at": text(moment(now)), "ttl": number(int(now.timestamp()) + PROBE_LASTS)}
        await self._table.put({**key, **said})
        await self._table.get(key)

    async def note(self, process: str, failing: Sequence[FailingLoop], until: datetime) -> None:
        key = raw_key(KIND, process)
        loops = [{"loop": one.loop, "since": moment(one.since), "error": one.error} for one in failing]
        said = {"loops": text(json.dumps(loops)), "until": text(moment(until)), "ttl": number(int(until.timestamp()))}
        await self._table.put({**key, **said})

    async def noted(self, now: datetime) -> list[FailingLoop]:
        found = [one for item in await self._notes() for one in _decoded(item, now)]
        return sorted(found, key=lambda one: (one.process, one.loop))

    async def services(self, now: datetime) -> list[ServiceNote]:
        notes = [ServiceNote(raw_id(item), until) for item in await self._notes() if (until := _until(item))]
        return sorted((one for one in notes if one.until > now), key=lambda one: one.process)

    async def _notes(self) -> list[Item]:
        return await self._table.walk(("PK", f"TYPE#{KIND}")).all()


def _until(item: Item) -> datetime | None:
    try:
        return parse_moment(item["until"]["S"])
    except (KeyError, TypeError, ValueError):
        return None


def _decoded(item: Item, now: datetime) -> list[FailingLoop]:
    try:
        if parse_moment(item["until"]["S"]) <= now:
            return []
        loops, process = json.loads(item["loops"]["S"]), raw_id(item)
        return [FailingLoop(one["loop"], parse_moment(one["since"]), str(one["error"]), process) for one in loops]
    except (KeyError, TypeError, ValueError) as exc:
        log.warning("item ignored: not written by Bullpen", item=name_of(item), error=repr(exc))
        return []
