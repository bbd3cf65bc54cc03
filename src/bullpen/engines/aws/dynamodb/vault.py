"""Secrets in DynamoDB: `TYPE#Secret` / `ID#<name>`, a kind of its own so that policies can say who may read it.

Agents that use the table themselves read the same item (`agent.github.token_source`): `content`, `expiresAt`, and a
time to live, by which DynamoDB removes it once it has expired.
"""

import math

from bullpen.engines.aws.dynamodb.items import moment, name_of, number, parse_moment, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.ports import Clock, Secret
from bullpen.structured_log import get_logger

KIND = "Secret"

log = get_logger("bullpen.engines.aws")


class DynamoVault:
    """`ports.Vault` on the table of a pool."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def read(self, name: str) -> Secret | None:
        """An item that Bullpen did not write counts as none: the next secret replaces it."""
        item = await self._table.get(raw_key(KIND, name))
        if item is None:
            return None
        try:
            found = Secret(str(item["content"]["S"]), parse_moment(item["expiresAt"]["S"]))
        except (KeyError, TypeError, ValueError):
            # Never what it holds.
            log.warning("item ignored: not written by Bullpen", item=name_of(item))
            return None
        return found if found.expires > self._clock.now() else None

    async def write(self, name: str, secret: Secret) -> None:
        ttl = number(math.ceil(secret.expires.timestamp()))
        said = {"content": text(secret.content), "expiresAt": text(moment(secret.expires)), "ttl": ttl}
        await self._table.put({**raw_key(KIND, name), **said})
