"""What the ports on one home's database have in common: how they read rows and records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import R, Row, Table
from bullpen.engines.sqlite.writes import select_by_id
from bullpen.ports.store import Delta


class SqlitePort:
    """A subclass is the port of its name, on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _rows(self, statement: str, *parameters: Any) -> list[Row]:
        return await self._database.read(lambda snapshot: snapshot.execute(statement, parameters).fetchall())

    async def _select(self, table: Table[R], statement: str, *parameters: Any) -> list[R]:
        return [table.decode(row) for row in await self._rows(statement, *parameters)]

    async def _delta(
        self, table: Table[R], versions: Callable[[Snapshot], Mapping[str, int]], known: Mapping[str, int]
    ) -> Delta[R]:
        """Of the records whose ids and versions are found, those that are not known: only they are read."""

        def read(snapshot: Snapshot) -> tuple[list[Row], list[str]]:
            found = versions(snapshot)
            if found == known:
                return [], []
            statement = select_by_id(table)
            changed = [id for id, version in found.items() if known.get(id) != version]
            rows = [snapshot.execute(statement, (id,)).fetchone() for id in changed]
            return rows, [id for id in known if id not in found]

        rows, gone = await self._database.read(read)
        return Delta([table.decode(row) for row in rows], gone)

    async def _by_id(self, table: Table[R], ids: Sequence[str]) -> dict[str, R]:
        """Consistent; absent ids are missing from the answer."""

        def read(snapshot: Snapshot) -> list[Row | None]:
            return [snapshot.execute(select_by_id(table), (id_,)).fetchone() for id_ in dict.fromkeys(ids)]

        return {row[0]: table.decode(row) for row in await self._database.read(read) if row is not None}
