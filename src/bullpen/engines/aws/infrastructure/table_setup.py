"""Creates the table, and adds what is missing, as `schema.py` says; waits for each step."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bullpen.engines.aws.boot.archive import archive
from bullpen.engines.aws.dynamodb import schema
from bullpen.engines.aws.dynamodb.items import Item, moment, raw_key
from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.infrastructure import table_diff
from bullpen.engines.aws.session import Cloud
from bullpen.errors import Refused, Unavailable
from bullpen.ports import Clock, Gap

STORE_AGENT = "store agent"
NO_TABLE = "ResourceNotFoundException"
IN_USE = "ResourceInUseException"  # another process makes it too
INVALID = "ValidationException"
STANDS_THERE = "ConditionalCheckFailedException"
UNKNOWN = "UnknownOperationException"  # says an emulator
NOT_TOLD = (UNKNOWN, "AccessDeniedException")
"""Of backups: a policy of an earlier version does not allow the look, which is no reason to refuse everything else."""
NOT_NOW = "ContinuousBackupsUnavailableException"  # while the table, or its backups, are being made
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between looks at what is being made; the last one again and again
TRIES = 30  # to add an index while others change the table
LONGEST = 600.0  # seconds; an index of a large table takes longer, and the next refresh goes on waiting


class TableSetup:
    """The table of a pool, and in it the items that belong to no record: the agent's archive, the schema's mark."""

    def __init__(self, cloud: Cloud, clock: Clock) -> None:
        self._cloud = cloud
        self._pool = cloud.settings.pool
        self._clock = clock

    async def gaps(self) -> list[Gap]:
        """Those of the table and of its items that belong to no record. Raise ConfigError for another schema."""
        agent = Gap(STORE_AGENT, archive().sha256[:16], f"the table has no agent of version {archive().version}")
        table = await self._described()
        if table is None:
            return [*table_diff.missing_table(self._pool), agent]
        found = table_diff.table_gaps(self._pool, table, await self._expiry())
        if any(gap.what == table_diff.MAKE_TABLE for gap in found):
            return [*found, agent]
        if self._cloud.settings.manage == "refresh":  # else the owner of the table decides what a backup is worth
            backups = await self._describe("describe_continuous_backups", "ContinuousBackupsDescription", *NOT_TOLD)
            found += table_diff.recovery_gaps(self._pool, backups)
        found += table_diff.mark_gaps(self._pool, await self._item(schema.SCHEMA_KEY))
        return found if await self._item(_agent_key(), ProjectionExpression="PK") else [*found, agent]

    async def make_table(self) -> None:
        with suppress(Declined):  # two refreshes at once wait for one table
            await self._ask("create_table", expecting=(IN_USE,), **schema.table_definition(self._pool))
        await self._until_active()

    async def make_index(self, name: str) -> None:
        """DynamoDB makes one index at a time, and none while another one goes away."""
        (index,) = (one for one in schema.indexes() if one["IndexName"] == name)
        for _ in range(TRIES):
            # Refused while the table is changed otherwise: then it is asked for again, once that is over.
            table = await self._until(lambda table: name in _index_states(table) or _is_at_rest(table))
            if name in _index_states(table):
                break
            request = {
                "TableName": self._pool,
                "AttributeDefinitions": schema.attribute_definitions(table["KeySchema"], index["KeySchema"]),
                "GlobalSecondaryIndexUpdates": [{"Create": index}],
            }
            try:
                await self._ask("update_table", expecting=(IN_USE,), **request)
            except Declined:
                await asyncio.sleep(PAUSES[-1])
        await self._until(lambda table: _index_states(table).get(name) == "ACTIVE")
        await self._until_active()

    async def switch_billing(self) -> None:
        await self._ask("update_table", TableName=self._pool, BillingMode="PAY_PER_REQUEST")
        await self._until_active()

    async def let_expire(self) -> None:
        try:
            await self._ask("update_time_to_live", expecting=(INVALID,), **schema.ttl_specification(self._pool))
        except Declined as declined:  # on already, says DynamoDB with the same code as for what it cannot do
            if table_diff.expiry_gaps(self._pool, await self._expiry()):
                raise Refused(f"DynamoDB UpdateTimeToLive: {declined.message}") from declined

    async def enable_recovery(self) -> None:
        """The next refresh tries again what cannot be done now; an emulator never can."""
        request = schema.recovery_specification(self._pool)
        with suppress(Declined):
            await self._ask("update_continuous_backups", expecting=(UNKNOWN, NOT_NOW), **request)

    async def mark(self) -> None:
        """Never over what a newer program wrote."""
        item = {**schema.SCHEMA_KEY, "schema": {"N": str(schema.SCHEMA)}}
        request = {"TableName": self._pool, "Item": item, "ConditionExpression": "attribute_not_exists(PK)"}
        try:
            await self._ask("put_item", expecting=(STANDS_THERE,), **request)
        except Declined:
            table_diff.mark_gaps(self._pool, await self._item(schema.SCHEMA_KEY))

    async def store_agent(self) -> None:
        """Its key is its checksum: every writer writes the same."""
        item = {
            **_agent_key(),
            "archive": {"B": archive().content},
            "version": {"S": archive().version},
            "updatedAt": {"S": moment(self._clock.now())},
        }
        await self._ask("put_item", TableName=self._pool, Item=item)

    async def _item(self, key: dict[str, Any], **projected: str) -> dict[str, Any] | None:
        answer = await self._ask("get_item", TableName=self._pool, Key=key, ConsistentRead=True, **projected)
        return answer.get("Item")

    async def _expiry(self) -> dict[str, Any]:
        return await self._describe("describe_time_to_live", "TimeToLiveDescription") or {}

    async def _described(self) -> dict[str, Any] | None:
        return await self._describe("describe_table", "Table", NO_TABLE)

    async def _describe(self, method: str, part: str, *unknown: str) -> dict[str, Any] | None:
        """This part of the answer; None for an answer with one of these codes."""
        try:
            answer = await self._ask(method, expecting=unknown, TableName=self._pool)
        except Declined:
            return None
        described: dict[str, Any] = answer[part]
        return described

    async def _until_active(self) -> None:
        await self._until(lambda table: table["TableStatus"] == "ACTIVE")

    async def _until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Look at the table until it is so. Raise Unavailable if it takes too long."""
        loop = asyncio.get_running_loop()
        until, looks = loop.time() + LONGEST, 0
        while True:
            # A table that was just made may not be seen at once.
            if (table := await self._described()) is not None and holds(table):
                return table
            if loop.time() >= until:
                state = "not visible" if table is None else table["TableStatus"].lower()
                raise Unavailable(
                    f"DynamoDB table {self._pool}: not ready after {LONGEST:g} s, it is {state}",
                    remedy="Run `bullpen refresh` again: it continues to wait, and nothing is lost.",
                )
            await asyncio.sleep(PAUSES[min(looks, len(PAUSES) - 1)])
            looks += 1

    async def _ask(self, method: str, /, **request: Any) -> dict[str, Any]:
        return await call(await self._cloud.client("dynamodb"), method, **request)


def _agent_key() -> Item:
    return raw_key("Agent", archive().sha256)


def _is_at_rest(table: dict[str, Any]) -> bool:
    return table["TableStatus"] == "ACTIVE" and all(state == "ACTIVE" for state in _index_states(table).values())


def _index_states(table: dict[str, Any]) -> dict[str, str]:
    return {index["IndexName"]: index["IndexStatus"] for index in table.get("GlobalSecondaryIndexes", ())}
