"""The one table of a pool: reads by key and by index, updates and transactions; bounded, and repeated where it helps.

The client itself repeats what was throttled or got no answer. What it leaves to us: keys that a batch did not process,
transactions that met another one, and answers that come in pages.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from bullpen.concurrency import settle
from bullpen.engines.aws.errors import RETRY_AFTER, THROTTLES, Declined, call
from bullpen.engines.aws.expressions import Expression, Request
from bullpen.engines.aws.items import Item, text
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, ConfigError, Refused, Throttled, Unavailable
from bullpen.ports import Chance

BATCH_LIMIT = 100
"""Keys that one BatchGetItem takes."""

ATTEMPTS = 10
FIRST_WAIT, LONGEST_WAIT = 0.025, 1.0
"""Seconds, of a wait before jitter. Ten attempts take about three seconds: longer than any rival's transaction."""

_UNMET = "ConditionalCheckFailedException"
_CANCELLED = "TransactionCanceledException"
_BUSY = ("TransactionConflictException", "TransactionInProgressException")
_WRONG_TABLE = ("ResourceNotFoundException", "ValidationException")
_ABOUT_AN_ITEM = (
    "size",
    "document path",
    "operand type",
)  # what a ValidationException says of an item, not of the table


class Unmet(Exception):
    """The condition of a write does not hold. `item` is what stands there; None: nothing."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class Cancelled(Exception):
    """Conditions of a transaction do not hold: what stands there, by the place of the action. Nothing was written."""

    def __init__(self, unmet: dict[int, Item | None]) -> None:
        super().__init__(f"conditions {sorted(unmet)} do not hold")
        self.unmet = unmet


class TableClient:
    """What every port of this engine speaks to. `chance` draws stamps, tokens and jitter."""

    def __init__(self, cloud: Cloud, chance: Chance) -> None:
        self.name = cloud.settings.pool
        self.chance = chance
        self._cloud = cloud

    async def get(self, key: Item) -> Item | None:
        """Consistent."""
        found = await self.get_many([key])
        return found[0] if found else None

    async def get_many(self, keys: Sequence[Item], only: Collection[str] = ()) -> list[Item]:
        """Consistent, in no order; absent ones are missing. With `only`, the keys and just these attributes."""
        asked = list({(key["PK"]["S"], key["SK"]["S"]): key for key in keys}.values())  # a batch refuses doubles
        portions = [asked[at : at + BATCH_LIMIT] for at in range(0, len(asked), BATCH_LIMIT)]
        answers = await settle([self._get_batch(portion, only) for portion in portions])
        return [item for answer in answers for item in answer]

    def walk(
        self,
        hash_key: tuple[str, str],
        where: tuple[str, str, str] | None = None,
        *,
        index: str = "",
        newest_first: bool = False,
        page: int = 0,
    ) -> "Walk":
        """Items by key, in order. `hash_key` is (attribute, value); `where` narrows the range: (attribute, operator,
        value) with <, <=, >, >= or begins_with. `page` is how many to read at a time. Consistent without an index."""
        expression = Expression()
        condition = f"{expression.name(hash_key[0])} = {expression.value(text(hash_key[1]))}"
        if where is not None:
            attribute, operator, value = where
            name, bound = expression.name(attribute), expression.value(text(value))
            narrowed = f"begins_with({name}, {bound})" if operator == "begins_with" else f"{name} {operator} {bound}"
            condition += f" AND {narrowed}"
        request = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": expression.names,
            "ExpressionAttributeValues": expression.values,
            "ScanIndexForward": not newest_first,
            **({"IndexName": index} if index else {"ConsistentRead": True}),
            **({"Limit": page} if page else {}),
        }
        return Walk(self, request)

    async def update(self, request: Request) -> Item:
        """One UpdateItem: the item as it then is. Raise Unmet if its condition does not hold."""
        answer = await self._write(
            "update_item", ReturnValues="ALL_NEW", ReturnValuesOnConditionCheckFailure="ALL_OLD", **request
        )
        new: Item = part_of(answer, "UpdateItem", "Attributes")
        return new

    async def put(self, item: Item) -> None:
        """Without a condition."""
        await self._write("put_item", Item=item)

    async def delete(self, key: Item) -> None:
        """Gone already is success."""
        await self._write("delete_item", Key=key)

    async def transact(self, actions: Sequence[Request], token: str) -> None:
        """All actions or none: each `{"Update" | "ConditionCheck" | "Put" | "Delete": request}`, at most 100.

        Raise Cancelled if conditions do not hold. A repeat with the same token within ten minutes writes nothing twice.
        """
        items = [{verb: self._action(verb, request)} for action in actions for verb, request in action.items()]
        for wait in self._waits():
            try:
                await self.call(
                    "transact_write_items",
                    expecting=(_CANCELLED, *_BUSY),
                    TransactItems=items,
                    ClientRequestToken=token,
                )
                return
            except Declined as declined:
                if declined.code == _CANCELLED:
                    _judge_reasons(declined.response.get("CancellationReasons", []))
            await asyncio.sleep(wait)
        raise self._worn_out("TransactWriteItems")

    async def call(self, method: str, *, expecting: Collection[str] = (), **request: Any) -> dict[str, Any]:
        """Any call of DynamoDB; a table that is missing or not ours is a ConfigError."""
        client = await self._cloud.client("dynamodb")
        try:
            return await call(client, method, expecting=(*expecting, *_WRONG_TABLE), **request)
        except Declined as declined:
            if declined.code in expecting or declined.code not in _WRONG_TABLE:
                raise
            raise self._wrong_table(client, method, declined) from declined

    async def _get_batch(self, keys: list[Item], only: Collection[str]) -> list[Item]:
        request: Request = {"Keys": keys, "ConsistentRead": True}
        if only:
            expression = Expression()
            request["ProjectionExpression"] = ", ".join(expression.name(each) for each in ("PK", "SK", *only))
            request["ExpressionAttributeNames"] = expression.names
        left, found = {self.name: request}, list[Item]()
        for wait in self._waits():
            answer = await self.call("batch_get_item", RequestItems=left)
            found += part_of(answer, "BatchGetItem", "Responses").get(self.name, [])
            left = answer.get("UnprocessedKeys") or {}
            if not left:
                return found
            await asyncio.sleep(wait)
        raise self._worn_out("BatchGetItem")

    async def _write(self, method: str, **request: Any) -> dict[str, Any]:
        for wait in self._waits():
            try:
                return await self.call(method, expecting=(_UNMET, *_BUSY), TableName=self.name, **request)
            except Declined as declined:
                if declined.code == _UNMET:
                    raise Unmet(declined.response.get("Item")) from declined
            await asyncio.sleep(wait)
        raise self._worn_out(method)

    def _action(self, verb: str, request: Request) -> Request:
        conditional = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"} if "ConditionExpression" in request else {}
        return {"TableName": self.name, **request, **conditional}

    def _waits(self) -> Iterator[float]:
        """Full jitter: rivals that met once do not meet again in step."""
        for attempt in range(ATTEMPTS):
            yield self.chance.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**attempt))

    def _worn_out(self, call: str) -> Throttled:
        return Throttled(
            f"DynamoDB {call}: {ATTEMPTS} attempts on table {self.name} met others or were throttled",
            retry_after=RETRY_AFTER,
        )

    def _wrong_table(self, client: Any, method: str, declined: Declined) -> BullpenError:
        call = f"DynamoDB {client.meta.method_to_api_mapping[method]}"
        where = f"table {self.name} in region {client.meta.region_name}"
        if declined.code == "ResourceNotFoundException" and "index" not in declined.message.lower():
            return ConfigError(f"{call}: {where} does not exist", remedy="run `bullpen refresh`, or see aws.pool")
        if any(sign in declined.message for sign in _ABOUT_AN_ITEM):
            return Refused(f"{call}: an item of {where} cannot be written: {declined.message}")
        return ConfigError(
            f"{call}: {where} is not one of ours ({declined.message})",
            remedy="run `bullpen refresh`, or name another pool in aws.pool",
        )


class Walk:
    """A query that follows its pages. A page may be empty and yet not the last: `over` says whether it is."""

    def __init__(self, table: TableClient, request: Request) -> None:
        self._table = table
        self._request = request
        self.over = False

    async def page(self) -> list[Item]:
        answer = await self._table.call("query", TableName=self._table.name, **self._request)
        items: list[Item] = part_of(answer, "Query", "Items")
        last = answer.get("LastEvaluatedKey")
        self.over = not last
        self._request = {**self._request, "ExclusiveStartKey": last}
        return items

    async def all(self) -> list[Item]:
        found = []
        while not self.over:
            found += await self.page()
        return found

    async def first(self, limit: int) -> list[Item]:
        found: list[Item] = []
        while not self.over and len(found) < limit:
            found += await self.page()
        return list(islice(found, limit))


def part_of(answer: Mapping[str, Any], call: str, name: str) -> Any:
    """What every answer to a call has. One without it comes from somebody in between, and does not mean `none`."""
    if name not in answer:
        raise Unavailable(f"DynamoDB {call}: an answer without {name}", remedy="see aws.endpoints and any proxy")
    return answer[name]


def _judge_reasons(reasons: Sequence[dict[str, Any]]) -> None:
    """Raise for what a repeat does not mend; return if one may."""
    codes = [reason.get("Code", "None") for reason in reasons]
    if "ConditionalCheckFailed" in codes:
        raise Cancelled(
            {at: reason.get("Item") for at, reason in enumerate(reasons) if codes[at] == "ConditionalCheckFailed"}
        )
    passing = {"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", *THROTTLES}
    if final := [reason for reason, code in zip(reasons, codes, strict=True) if code not in passing]:
        raise Refused(f"DynamoDB TransactWriteItems: {final[0].get('Message') or final[0]['Code']}")
