"""Why machines of a served pool have no agent, as they say themselves. See `bullpen.model.boot`.

A machine that boots knows neither its record nor the record's round, and may read neither. So its word counts only
while its record is still `created`, and as a signal of that round.
"""

from collections.abc import Sequence

from bullpen.engines.aws.dynamodb.items import Item, key_of, raw_key
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.boot import ITEM, failure_kind, machine_arn
from bullpen.model.instance import CREATED, Instance
from bullpen.model.signal import TEXT_LIMIT, Kind, Signal


class BootFailures:
    """Of the machines with one role, whose ARN names the account."""

    def __init__(self, table: TableClient, role: str) -> None:
        self._table = table
        self._account = role.partition(":iam::")[2].partition(":")[0]

    async def read(self, ids: Sequence[str]) -> dict[str, Signal]:
        """The failures among these machines, by id: one read, and a second one only if there are any."""
        region = await self._table.region()
        keys = {id: raw_key(failure_kind(machine_arn(region, self._account, id)), ITEM) for id in ids}
        items = {item["PK"]["S"]: item for item in await self._table.get_many([*keys.values()], ("text",))}
        said = {id: _text(items[key["PK"]["S"]]) for id, key in keys.items() if key["PK"]["S"] in items}
        if not said:
            return {}
        records = await self._table.get_many([key_of(Instance, id) for id in said], ("round", "runId", "state"))
        found = {record["SK"]["S"].removeprefix("ID#"): record for record in records}
        return {
            id: Signal(id, Kind.FAILED, record["runId"]["S"], record["round"]["S"], 1, said[id])
            for id, record in found.items()
            if record["state"]["S"] == CREATED.value
        }


def _text(item: Item) -> str:
    """A machine may write anything."""
    said = item.get("text", {}).get("S", "")
    return said[:TEXT_LIMIT] or "the boot failed and gave no reason"
