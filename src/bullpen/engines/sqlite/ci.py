"""The embedded CI, as the control plane sees it: which runner serves which label. Agents write the rows."""

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.writer import Transaction
from bullpen.ports import Registration, Removal

REGISTRATIONS = "SELECT name, label, busy FROM registrations ORDER BY name"
REMOVE = "DELETE FROM registrations WHERE name = ? AND busy = 0"
IS_REGISTERED = "SELECT 1 FROM registrations WHERE name = ?"


class SqliteCI:
    """`ports.CI` on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def registrations(self) -> list[Registration]:
        rows = await self._database.read(lambda snapshot: snapshot.execute(REGISTRATIONS).fetchall())
        return [Registration(name, label, busy == 1) for name, label, busy in rows]

    async def remove(self, name: str) -> Removal:
        def write(transaction: Transaction) -> Removal:
            # One transaction: no agent can begin a job between the look and the removal.
            transaction.execute(REMOVE, (name,))
            is_left = transaction.execute(IS_REGISTERED, (name,)).fetchone() is not None
            return Removal.BUSY if is_left else Removal.REMOVED

        return await self._database.write(write)
