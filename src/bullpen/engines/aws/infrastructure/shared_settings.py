"""Settings that refresh has published in the pool's table, for processes that know only the pool's name.

One item, TYPE#Meta/ID#settings: tables and keys as in bullpen.toml, as JSON. Never a secret: workflows read it.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bullpen import __version__
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.items import moment, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.errors import Refused
from bullpen.settings import Publication

KEY = raw_key("Meta", "settings")


class Published:
    def __init__(self, table: TableClient) -> None:
        self._table = table

    async def read(self) -> Publication:
        """Raise ConfigError if there is no such table, Refused for what another program wrote."""
        item = await self._table.get(KEY)
        if item is None:
            return Publication()
        try:
            found = json.loads(item["content"]["S"])
        except (KeyError, TypeError, ValueError) as exc:
            raise Refused("TYPE#Meta/ID#settings: content is not JSON", remedy="Run `bullpen refresh` again.") from exc
        if not isinstance(found, dict):
            raise Refused("TYPE#Meta/ID#settings: content is not a table", remedy="Run `bullpen refresh` again.")
        return Publication(found, item.get("version", {}).get("S", ""))

    async def write(self, document: Mapping[str, Any], as_of: datetime) -> bool:
        """Publish what was set at that time; False if something later was published already, and stays."""
        expression = Expression()
        at = text(moment(as_of))
        updated = expression.name("updatedAt")
        writes = {"content": text(json.dumps(document, sort_keys=True)), "version": text(__version__), "updatedAt": at}
        request = expression.request(
            KEY,
            UpdateExpression=expression.update(writes),
            ConditionExpression=f"attribute_not_exists({updated}) OR {updated} <= {expression.value(at)}",
        )
        try:
            await self._table.update(request)
        except Unmet:
            return False
        return True
