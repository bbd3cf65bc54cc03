"""Settings that refresh has published in the pool's table, for whoever works on the pool and is told nothing else.

One item, TYPE#Meta/ID#settings: tables and keys as in bullpen.toml, as JSON. Never a secret: workflows read it.
"""

import json
from collections.abc import Mapping
from typing import Any

from bullpen.engines.aws.dynamodb.items import moment, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.errors import Refused
from bullpen.ports import Clock

KEY = raw_key("Meta", "settings")


class Published:
    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def read(self) -> dict[str, Any]:
        """Empty if nothing was published. Raise ConfigError if there is no such table, Refused for what is not ours."""
        item = await self._table.get(KEY)
        if item is None:
            return {}
        try:
            found = json.loads(item["content"]["S"])
        except (KeyError, TypeError, ValueError) as exc:
            raise Refused("TYPE#Meta/ID#settings: content is no JSON", remedy="run `bullpen refresh` again") from exc
        if not isinstance(found, dict):
            raise Refused("TYPE#Meta/ID#settings: content is no table", remedy="run `bullpen refresh` again")
        return found

    async def write(self, document: Mapping[str, Any]) -> None:
        content = json.dumps(document, sort_keys=True)
        await self._table.put({**KEY, "content": text(content), "updatedAt": text(moment(self._clock.now()))})
