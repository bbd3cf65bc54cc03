"""Since when machines are missing, in DynamoDB: an item for each id that EC2 did not know when it was to be ended."""

from datetime import datetime

from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.model.ticket import parse_time

KIND = "Gone"
NOTES_LAST = 86400
"""Seconds: ids are not used again, and a process that owes the end of a machine asks within minutes."""


class GoneNotes:
    """Shared by all processes of a pool: a later one learns that another one missed the machine before."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def first_missing(self, instance_id: str, now: datetime) -> datetime:
        """Note that a machine is missing; since when it is."""
        expression = Expression()
        since, ttl = expression.name("since"), expression.name("ttl")
        first, last = expression.value(text(moment(now))), expression.value(number(int(now.timestamp()) + NOTES_LAST))
        writes = f"SET {since} = if_not_exists({since}, {first}), {ttl} = {last}"
        item = await self._table.update(expression.request(raw_key(KIND, instance_id), UpdateExpression=writes))
        return parse_time(item["since"]["S"])
