"""Who owned the seconds of machines, in DynamoDB. A booking lands in one transaction with its meter.

    TYPE#Meter        ID#<instance>     a meter that is not over; every write names the revision that it replaces
    TYPE#MeterOver    ID#<instance>     the machine is booked to its end: nothing is booked after it
    TYPE#Usage#<day>  ID#<hour>#<rest>  time of one owner in one hour; `micros` is only ever added to

An instance that has ended is in the index `todo`, under ENDED#Instance, until its last booking has landed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msgspec import json

from bullpen.engines.aws.dynamodb.days import partition, partitions
from bullpen.engines.aws.dynamodb.entries import ENDED
from bullpen.engines.aws.dynamodb.expressions import Expression, Request
from bullpen.engines.aws.dynamodb.items import (
    Item,
    Value,
    id_of,
    key_of,
    moment,
    name_of,
    number,
    parse_moment,
    raw_id,
    raw_key,
    text,
)
from bullpen.engines.aws.dynamodb.table import TableClient, TransactionCancelled
from bullpen.model.instance import Instance
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from bullpen.ports import TOGETHER_LIMIT, HistoryPage
from bullpen.structured_log import get_logger

METER, METER_OVER, USAGE = "Meter", "MeterOver", "Usage"
MANY = 200
"""Meters from which the open ones are read in order: a megabyte of them is one request, and a hundred keys are one."""

log = get_logger("bullpen.engines.aws")


class DynamoUsage:
    """The part of `ports.History` that is exact. `keep` is how long everything stays."""

    def __init__(self, table: TableClient, keep: timedelta) -> None:
        self._table = table
        self._keep = keep

    async def meters(self, ids: Sequence[str]) -> dict[str, Meter]:
        if len(ids) > MANY:
            items = await self._table.walk(("PK", f"TYPE#{METER}")).all()
        else:
            items = await self._table.get_many([raw_key(METER, id) for id in ids])
        found = {meter.instance_id: meter for item in items if (meter := _meter(item)) is not None}
        return {id: found[id] for id in ids if id in found}

    async def open_meters(self, limit: int, after: str = "") -> list[Meter]:
        walk = self._table.walk(("PK", f"TYPE#{METER}"), ("SK", ">", f"ID#{after}"), page=limit)
        return [meter for item in await walk.first(limit) if (meter := _meter(item)) is not None]

    async def over(self, ids: Sequence[str]) -> list[str]:
        keys = [raw_key(METER_OVER, id) for id in dict.fromkeys(ids)]
        return [raw_id(item) for item in await self._table.get_many(keys)] if keys else []

    async def unbooked(self, limit: int) -> list[str]:
        walk = self._table.walk(("todoKey", ENDED), index="todo", page=limit)
        return [id_of(Instance, item) for item in await walk.first(limit)]

    async def book(self, bookings: Sequence[Booking]) -> list[bool]:
        landed: dict[str, bool] = {}
        for portion in _portions(bookings):  # one after the other: they add to the same hours
            landed |= await self._book(portion)
        over = [one.after.instance_id for one in bookings if one.after.over]
        lost = [id for id in over if not landed[id]]
        await self._take_off([*(id for id in over if landed[id]), *await self.over(lost)])
        return [landed[one.after.instance_id] for one in bookings]

    async def usage(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[UsageRow]:
        found: list[UsageRow] = []
        place = after or _hour(since)
        for day in partitions(since, until):
            if day < place[: len(day)]:
                continue
            walk = self._table.walk(("PK", f"TYPE#{USAGE}#{day}"), ("SK", ">", f"ID#{place}"), page=limit)
            while not walk.over:
                for item in await walk.page():
                    place = raw_id(item)
                    if place >= _hour(until):
                        return HistoryPage(tuple(found))
                    if (row := _row(item)) is not None:
                        found.append(row)
                    if len(found) == limit:
                        return HistoryPage(tuple(found), place)
        return HistoryPage(tuple(found))

    async def forget(self, before: datetime, limit: int) -> int:
        """Nothing: every item carries its time to live, and DynamoDB removes it."""
        return 0

    def _ttl(self, at: datetime) -> Value:
        return number(math.ceil((at + self._keep).timestamp()))

    async def _book(self, portion: list[Booking]) -> dict[str, bool]:
        """Which of these landed, by instance. Those that lost are taken out, and the others are sent again."""
        landed: dict[str, bool] = {}
        while portion:
            actions, whose = list[Request](), list[str]()
            for booking in portion:
                own = self._meter_actions(booking)
                actions += own
                whose += [booking.after.instance_id] * len(own)
            rows = [{"Update": self._addition(row)} for row in _added_up(portion)]
            try:
                await self._table.transact([*actions, *rows], self._table.chance.token())
            except TransactionCancelled as cancelled:
                lost = {whose[at] for at in cancelled.unmet}
                landed |= dict.fromkeys(lost, False)
                portion = [one for one in portion if one.after.instance_id not in lost]
            else:
                return landed | {one.after.instance_id: True for one in portion}
        return landed

    def _meter_actions(self, booking: Booking) -> list[Request]:
        """Two for the first and for the last booking of a machine, one for all others."""
        before, after = booking.before, booking.after
        open_, over = raw_key(METER, after.instance_id), raw_key(METER_OVER, after.instance_id)
        said = {
            "revision": number(after.revision),
            "until": text(moment(after.until)),
            "owner": text(after.owner.value),
        }
        said |= {"version": number(after.version), "runId": text(after.run_id), "repository": text(after.repository)}
        last = {**over, **said, "ttl": self._ttl(after.until)}
        if before is None:
            # Neither kind may be there: one is written, the other only looked at.
            kept, other = (last, open_) if after.over else ({**open_, **said}, over)
            return [{"Put": {"Item": kept, **_absent()}}, {"ConditionCheck": {"Key": other, **_absent()}}]
        expression = Expression()
        unchanged = f"{expression.name('revision')} = {expression.value(number(before.revision))}"
        condition = expression.request({}, ConditionExpression=unchanged)
        del condition["Key"]
        if after.over:
            return [{"Delete": {"Key": open_, **condition}}, {"Put": {"Item": last}}]
        return [{"Put": {"Item": {**open_, **said}, **condition}}]

    def _addition(self, row: UsageRow) -> Request:
        names = (row.owner.value, row.run_id, row.repository, row.resource_class, row.instance_type)
        rest = json.encode([*names, row.usage_class.value]).decode()
        expression = Expression()
        said = {name: text(value) for name, value in zip(NAMES, (*names, row.usage_class.value), strict=True)}
        writes = expression.update({**said, "hour": text(moment(row.hour)), "ttl": self._ttl(row.hour)})
        writes += f" ADD {expression.name('micros')} {expression.value(number(row.microseconds))}"
        key = raw_key(f"{USAGE}#{partition(row.hour)}", f"{_hour(row.hour)}#{rest}")
        return expression.request(key, UpdateExpression=writes)

    async def _take_off(self, ids: Sequence[str]) -> None:
        """Take instances off the list of those that are not booked. A record that is gone is not made again."""
        for at in range(0, len(ids), TOGETHER_LIMIT):
            left = list(ids[at : at + TOGETHER_LIMIT])
            while left:
                try:
                    updates = [{"Update": _taking_off(id)} for id in left]
                    await self._table.transact(updates, self._table.chance.token())
                    break
                except TransactionCancelled as cancelled:
                    left = [id for place, id in enumerate(left) if place not in cancelled.unmet]


NAMES = ("owner", "runId", "repository", "resourceClass", "instanceType", "usageClass")


def _portions(bookings: Sequence[Booking]) -> Iterator[list[Booking]]:
    """As many bookings at a time as a transaction takes, with the hours that they add to."""
    portion, rows, actions = list[Booking](), set[UsageRow](), 0
    for booking in bookings:
        more = rows | {replace(row, microseconds=0) for row in booking.rows}
        if portion and actions + 2 + len(more) > TOGETHER_LIMIT:
            yield portion
            portion, actions = [], 0
            more = {replace(row, microseconds=0) for row in booking.rows}
        portion.append(booking)
        rows, actions = more, actions + 2
    if portion:
        yield portion


def _added_up(portion: Sequence[Booking]) -> list[UsageRow]:
    """A transaction may not change an item twice: equal rows are added up."""
    sums: dict[UsageRow, int] = {}
    for booking in portion:
        for row in booking.rows:
            key = replace(row, microseconds=0)
            sums[key] = sums.get(key, 0) + row.microseconds
    return [replace(row, microseconds=micros) for row, micros in sums.items()]


def _absent() -> Request:
    return {"ConditionExpression": "attribute_not_exists(PK)"}


def _taking_off(id: str) -> Request:
    expression = Expression()
    condition = f"{expression.name('todoKey')} = {expression.value(text(ENDED))}"
    writes = expression.update({"todoKey": None, "todoSort": None})
    return expression.request(key_of(Instance, id), UpdateExpression=writes, ConditionExpression=condition)


def _hour(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H")


def _meter(item: Item) -> Meter | None:
    try:
        run_id, repository, owner = _texts(item, ("runId", "repository", "owner"))
        revision, version = int(item["revision"]["N"]), int(item["version"]["N"])
        until = parse_moment(item["until"]["S"])
        return Meter(raw_id(item), revision, until, Owner(owner), version, run_id, repository)
    except (KeyError, TypeError, ValueError) as exc:
        _warn_of(item, exc)
        return None


def _row(item: Item) -> UsageRow | None:
    try:
        owner, run_id, repository, resource_class, instance_type, usage_class = _texts(item, NAMES)
        names = (run_id, repository, resource_class, instance_type, UsageClass(usage_class))
        return UsageRow(parse_moment(item["hour"]["S"]), Owner(owner), *names, int(item["micros"]["N"]))
    except (KeyError, TypeError, ValueError) as exc:
        _warn_of(item, exc)
        return None


def _texts(item: Mapping[str, Value], names: Sequence[str]) -> list[str]:
    return [item[name]["S"] for name in names]


def _warn_of(item: Item, exc: Exception) -> None:
    log.warning("item ignored: not written by Bullpen", item=name_of(item), error=repr(exc))
