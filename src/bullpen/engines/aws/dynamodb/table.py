"""The one table of a pool: reads by key and by index, updates and transactions; bounded, and repeated where it helps.

All repeating is done here, and by one bound: of what was throttled, failed or got no answer, of keys that a batch did
not process, and of transactions that met another one. The client's own repeats would multiply with these, and are
rationed for all calls together: a crowd of claims that are each throttled once would use them up. A write may land and
its answer be lost, so every write knows itself when it is repeated: by its stamp, round, token or content.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.clock import DateClock
from bullpen.engines.aws.dynamodb.expressions import Expression, Request
from bullpen.engines.aws.dynamodb.items import Item, text
from bullpen.engines.aws.dynamodb.schema import SCHEMA_KEY
from bullpen.engines.aws.errors import RETRY_AFTER, THROTTLES, Declined, call
from bullpen.engines.aws.infrastructure import table_diff
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, ConfigError, Refused, Throttled, Unavailable
from bullpen.ports import Chance

BATCH_LIMIT = 100  # keys that one BatchGetItem takes

PATIENCE = 6.0
"""Seconds after its first failure for which a request is repeated, whatever the reasons: longer than any rival's
transaction. Where all fail at once these are about twenty attempts (measured: 19 in 5.8 s)."""

LEAST_ATTEMPTS = 3
"""Made however long they take: where a crowd stands in line for connections, time says little of what is wrong."""

FIRST_WAIT, LONGEST_WAIT = 0.025, 1.0  # seconds, before jitter

_UNMET = "ConditionalCheckFailedException"
_CANCELLED = "TransactionCanceledException"
_BUSY = ("TransactionConflictException", "TransactionInProgressException")
_WRONG_TABLE = ("ResourceNotFoundException", "ValidationException")
_ABOUT_AN_ITEM = ("size", "document path", "operand type")  # what a ValidationException says of an item, not the table
_OF_AN_ITEM = ("ValidationError", "ItemCollectionSizeLimitExceeded")  # why a transaction was cancelled


class Unmet(Exception):
    """The condition of a write does not hold. `item` is what stands there, if anything does."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition does not hold")
        self.item = item


class TransactionCancelled(Exception):
    """Conditions of a transaction do not hold: what stands there, by the place of the action. Nothing was written."""

    def __init__(self, unmet: dict[int, Item | None]) -> None:
        super().__init__(f"conditions {sorted(unmet)} do not hold")
        self.unmet = unmet


class Patience:
    """How long one request is repeated: after longer and longer waits, with full jitter, so that rivals that met once
    do not meet again in step."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._until: float | None = None
        self._attempts = 0

    async def wait(self, failure: Exception) -> None:
        """Until the next attempt. Raise the failure of this one if there is no time for another."""
        pause = self._chance.uniform(0, min(LONGEST_WAIT, FIRST_WAIT * 2**self._attempts))
        self._attempts += 1
        now = asyncio.get_running_loop().time()
        self._until = self._until or now + PATIENCE
        if now + pause >= self._until and self._attempts >= LEAST_ATTEMPTS:
            raise failure
        await asyncio.sleep(pause)


class Unwritable(Refused):
    """An item as asked for cannot be: it would be too large, or what stands there has another shape."""


class TableClient:
    """What every port of this engine uses. `chance` draws stamps, tokens and jitter; `clock` learns from answers."""

    def __init__(self, cloud: Cloud, chance: Chance, clock: DateClock | None = None) -> None:
        self.name = cloud.settings.pool
        self.chance = chance
        self._cloud = cloud
        self._clock = clock
        self._is_ours = False
        self._looking = asyncio.Lock()

    async def region(self) -> str:
        """Where the table is, and so the pool."""
        return str((await self._cloud.client("dynamodb", repeats=False)).meta.region_name)

    async def get(self, key: Item) -> Item | None:
        """Consistent."""
        return next(iter(await self.get_many([key])), None)

    async def get_many(self, keys: Sequence[Item], only: Collection[str] = ()) -> list[Item]:
        """Consistent, in no order; absent ones are missing. With `only`, the keys and just these attributes."""
        asked = list({(key["PK"]["S"], key["SK"]["S"]): key for key in keys}.values())  # a batch refuses doubles
        portions = [asked[at : at + BATCH_LIMIT] for at in range(0, len(asked), BATCH_LIMIT)]
        answers = await gather_or_cancel([self._get_batch(portion, only) for portion in portions])
        return [item for answer in answers for item in answer]

    def walk(
        self,
        hash_key: tuple[str, str],
        where: tuple[str, str, str] | None = None,
        *,
        index: str = "",
        newest_first: bool = False,
        page: int = 0,
        then: int = 0,
        only: Sequence[str] = (),
    ) -> "Walk":
        """Items by key, in order. `hash_key` is (attribute, value); `where` narrows the range: (attribute, operator,
        value). `page` is how many to read at a time, or only at first: `then` is how many after that. With `only`, no
        other attributes are sent. Consistent without an index."""
        expression = Expression()
        condition = f"{expression.name(hash_key[0])} = {expression.value(text(hash_key[1]))}"
        if where is not None:
            attribute, operator, value = where
            condition += f" AND {expression.name(attribute)} {operator} {expression.value(text(value))}"
        sent = {"ProjectionExpression": ", ".join(map(expression.name, only))} if only else {}
        request = {
            "KeyConditionExpression": condition,
            "ExpressionAttributeNames": expression.names,
            "ExpressionAttributeValues": expression.values,
            "ScanIndexForward": not newest_first,
            **({"IndexName": index} if index else {"ConsistentRead": True}),
            **({"Limit": page} if page else {}),
            **sent,
        }
        return Walk(self, request, then)

    async def update(self, request: Request) -> Item:
        """One UpdateItem: the item as it then is. Raise Unmet if its condition does not hold."""
        answer = await self._write("update_item", ReturnValues="ALL_NEW", **request)
        new: Item = part_of(answer, "UpdateItem", "Attributes")
        return new

    async def put(self, item: Item) -> None:
        await self._write("put_item", Item=item)

    async def delete(self, key: Item) -> None:
        """Gone already is success."""
        await self._write("delete_item", Key=key)

    async def transact(self, actions: Sequence[Request], token: str) -> None:
        """All actions or none: each `{"Update" | "ConditionCheck" | "Put" | "Delete": request}`, at most 100.

        Raise TransactionCancelled if conditions do not hold. The same token within ten minutes writes nothing twice.
        """
        await self.heed_mark()
        items = [{verb: {"TableName": self.name, **one}} for action in actions for verb, one in action.items()]
        patience = Patience(self.chance)
        while True:
            try:
                await self.call(
                    "transact_write_items",
                    expecting=(_CANCELLED,),
                    patience=patience,
                    TransactItems=items,
                    ClientRequestToken=token,
                )
                return
            except Declined as declined:
                _judge_reasons(declined.response.get("CancellationReasons", []))
            await patience.wait(self._worn_out("TransactWriteItems"))

    async def call(
        self, method: str, *, expecting: Collection[str] = (), patience: Patience | None = None, **request: Any
    ) -> dict[str, Any]:
        """Any call of DynamoDB, repeated while that may help; a table that is missing or foreign is a ConfigError.

        A caller that repeats for its own reason passes its `patience`, which then bounds both.
        """
        client = await self._cloud.client("dynamodb", repeats=False)
        patience = patience or Patience(self.chance)
        while True:
            try:
                return await self._timed(client, method, (*expecting, *_BUSY, *_WRONG_TABLE), request)
            except Declined as declined:
                if declined.code in expecting:
                    raise
                if declined.code not in _BUSY:
                    raise self._wrong_table(client, method, declined) from declined
                failure: BullpenError = self._worn_out(client.meta.method_to_api_mapping[method])
            except (Throttled, Unavailable) as exc:
                failure = exc
            await patience.wait(failure)

    async def _timed(self, client: Any, method: str, expecting: Collection[str], request: Request) -> dict[str, Any]:
        """One call, whose answer carries the time as well."""
        if self._clock is None:
            return await call(client, method, expecting=expecting, **request)
        sent = self._clock.local.now()
        try:
            answer = await call(client, method, expecting=expecting, **request)
        except Declined as declined:
            self._clock.learn(declined.response, sent, self._clock.local.now())
            raise
        self._clock.learn(answer, sent, self._clock.local.now())
        return answer

    async def _get_batch(self, keys: list[Item], only: Collection[str]) -> list[Item]:
        request: Request = {"Keys": keys, "ConsistentRead": True}
        if only:
            expression = Expression()
            request["ProjectionExpression"] = ", ".join(expression.name(each) for each in ("PK", "SK", *only))
            request["ExpressionAttributeNames"] = expression.names
        left, found = {self.name: request}, list[Item]()
        patience = Patience(self.chance)
        while True:
            answer = await self.call("batch_get_item", patience=patience, RequestItems=left)
            found += part_of(answer, "BatchGetItem", "Responses").get(self.name, [])
            left = answer.get("UnprocessedKeys") or {}
            if not left:
                return found
            await patience.wait(self._worn_out("BatchGetItem"))

    async def heed_mark(self) -> None:
        """Before the first write of this process: a table that a newer Bullpen has marked is left as it is."""
        async with self._looking:
            if not self._is_ours:
                table_diff.heed_mark(self.name, await self.get(SCHEMA_KEY))
                self._is_ours = True

    async def _write(self, method: str, **request: Any) -> dict[str, Any]:
        await self.heed_mark()
        try:
            return await self.call(method, expecting=(_UNMET,), TableName=self.name, **request)
        except Declined as declined:
            raise Unmet(declined.response.get("Item")) from declined

    def _worn_out(self, call: str) -> Throttled:
        met = f"every attempt on table {self.name} conflicted with other writers or was throttled"
        return Throttled(f"DynamoDB {call}: for {PATIENCE:g} s, {met}", retry_after=RETRY_AFTER)

    def _wrong_table(self, client: Any, method: str, declined: Declined) -> BullpenError:
        call = f"DynamoDB {client.meta.method_to_api_mapping[method]}"
        where = f"table {self.name} in region {client.meta.region_name}"
        if declined.code == "ResourceNotFoundException" and "index" not in declined.message.lower():
            return ConfigError(f"{call}: {where} does not exist", remedy="Run `bullpen refresh`, or see aws.pool.")
        if any(sign in declined.message for sign in _ABOUT_AN_ITEM):
            return Unwritable(f"{call}: an item of {where} cannot be written: {declined.message}")
        return ConfigError(
            f"{call}: {where} is not a table of Bullpen ({declined.message})",
            remedy="Run `bullpen refresh`, or name another pool in aws.pool.",
        )


class Walk:
    """A query that follows its pages. A page may be empty and yet not the last: `over` says whether it is."""

    def __init__(self, table: TableClient, request: Request, then: int = 0) -> None:
        self.table = table
        self._request = request
        self._later = {"Limit": then} if then else {}
        self.over = False

    async def page(self) -> list[Item]:
        answer = await self.table.call("query", TableName=self.table.name, **self._request)
        items: list[Item] = part_of(answer, "Query", "Items")
        last = answer.get("LastEvaluatedKey")
        self.over = not last
        self._request = {**self._request, **self._later, "ExclusiveStartKey": last}
        return items

    async def all(self) -> list[Item]:
        return await self.first(None)

    async def first(self, limit: int | None) -> list[Item]:
        found: list[Item] = []
        while not self.over and (limit is None or len(found) < limit):
            found += await self.page()
        return found[:limit]


def part_of(answer: Mapping[str, Any], call: str, name: str) -> Any:
    """What every answer to a call has. One without it comes from a proxy, and does not mean `none`."""
    if name not in answer:
        raise Unavailable(f"DynamoDB {call}: an answer without {name}", remedy="See aws.endpoints and any proxy.")
    return answer[name]


def _judge_reasons(reasons: Sequence[dict[str, Any]]) -> None:
    """Raise for what a repeat does not mend; return if one may."""
    failed = {at: one.get("Item") for at, one in enumerate(reasons) if one.get("Code") == "ConditionalCheckFailed"}
    if failed:
        raise TransactionCancelled(failed)
    passing = {"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded", *THROTTLES}
    if final := [reason for reason in reasons if reason.get("Code", "None") not in passing]:
        text = f"DynamoDB TransactWriteItems: {final[0].get('Message') or final[0]['Code']}"
        raise Unwritable(text) if final[0]["Code"] in _OF_AN_ITEM else Refused(text)
