"""The embedded CI, as the control plane sees it: which runner serves which label. Agents write the rows."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.writer import Transaction
from bullpen.ports import Registration, RegistrationCredentials, Removal

# A runner is busy if its agent says so, or if it holds a running job: the server assigns jobs to agents over HTTP.
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


class SqliteCI(SqlitePort):
    async def registrations(self) -> list[Registration]:
        return [Registration(name, label, busy == 1) for name, label, busy in await self._rows(REGISTRATIONS)]

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        def write(transaction: Transaction) -> RegistrationCredentials | None:
            stands = transaction.execute(REGISTER, (name, label, round)).rowcount == 1
            return RegistrationCredentials(name, label) if stands else None

        return await self._database.write(write)

    def prepare(self, name: str, label: str, round: str) -> None:
        return  # nothing takes time here

    def failing(self, label: str) -> None:
        return

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
        return {}  # its runners are Bullpen's agents, which run what Bullpen gave them
