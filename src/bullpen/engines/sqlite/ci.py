"""The embedded CI, as the control plane sees it: which runner serves which label. Agents write the rows."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.writer import Transaction
from bullpen.ports import Registration, RegistrationCredentials, Removal

# Busy is who says so, and who holds a running job: agents that reach us over HTTP have their jobs assigned for them.
IS_BUSY = """(busy = 1 OR EXISTS (
    SELECT 1 FROM jobs WHERE run_id = label AND state = 'running' AND instance_id = name
))"""
REGISTRATIONS = f"SELECT name, label, {IS_BUSY} FROM registrations ORDER BY name"
REMOVE = f"DELETE FROM registrations WHERE name = ? AND NOT {IS_BUSY}"
REGISTER = """
    INSERT OR REPLACE INTO registrations (name, label, round, busy)
    SELECT id, run_id, round, 0 FROM instances
    WHERE id = ? AND run_id = ? AND round = ? AND state IN ('created', 'claimed', 'running')
"""
IS_REGISTERED = "SELECT 1 FROM registrations WHERE name = ?"


class SqliteCI:
    """`ports.CI` on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def registrations(self) -> list[Registration]:
        rows = await self._database.read(lambda snapshot: snapshot.execute(REGISTRATIONS).fetchall())
        return [Registration(name, label, busy == 1) for name, label, busy in rows]

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        def write(transaction: Transaction) -> RegistrationCredentials | None:
            stands = transaction.execute(REGISTER, (name, label, round)).rowcount == 1
            return RegistrationCredentials(name, label) if stands else None

        return await self._database.write(write)

    async def remove(self, handle: str) -> Removal:
        def write(transaction: Transaction) -> Removal:
            # One transaction: no agent can begin a job between the look and the removal.
            transaction.execute(REMOVE, (handle,))
            is_left = transaction.execute(IS_REGISTERED, (handle,)).fetchone() is not None
            return Removal.BUSY if is_left else Removal.REMOVED

        return await self._database.write(write)

    def instance_of(self, handle: str) -> str | None:
        return handle  # runners have the names of their instances

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return {}  # its runners are agents of ours: what they run is what we gave them
