"""What the ports on one home's database have in common: how they read rows and records."""

from collections.abc import Sequence
from typing import Any

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import R, Row, Table
from bullpen.engines.sqlite.writes import select_by_id


class SqlitePort:
    """A subclass is the port of its name, on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _rows(self, statement: str, *parameters: Any) -> list[Row]:
        return await self._database.read(lambda snapshot: snapshot.execute(statement, parameters).fetchall())

    async def _select(self, table: Table[R], statement: str, *parameters: Any) -> list[R]:
        return [table.decode(row) for row in await self._rows(statement, *parameters)]

    async def _by_id(self, table: Table[R], ids: Sequence[str]) -> dict[str, R]:
        """Consistent; absent ids are missing from the answer."""

        def read(snapshot: Snapshot) -> list[Row | None]:
            return [snapshot.execute(select_by_id(table), (id_,)).fetchone() for id_ in dict.fromkeys(ids)]

        return {row[0]: table.decode(row) for row in await self._database.read(read) if row is not None}
