"""Tokens and the agents' secret in SQLite: in the file of a home's database, which is its owner's alone."""

from datetime import datetime

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import from_micros_or_null, to_micros_or_null
from bullpen.engines.sqlite.writer import Transaction
from bullpen.errors import Conflict
from bullpen.model.times import to_micros
from bullpen.ports.tokens import KEPT, StoredToken, TokenBook

COLUMNS = "name, id, scope, sha256, created, expires, revoked"
ALL = f"SELECT {COLUMNS} FROM tokens ORDER BY name"
ADD = f"INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING"
STANDING = "SELECT 1 FROM tokens WHERE id = ?"
REVOKE = "UPDATE tokens SET revoked = coalesce(revoked, ?) WHERE name = ?"
FORGET = """
    DELETE FROM tokens WHERE coalesce(expires, revoked) IS NOT NULL
    AND min(coalesce(expires, revoked), coalesce(revoked, expires)) < ?
"""
KEEP = "INSERT INTO keys (name, content) VALUES (?, ?) ON CONFLICT DO NOTHING"
KEY = "SELECT content FROM keys WHERE name = ?"
REQUIRED, AGENTS = "required", "agents"
# A session that was ended is a key without content: its name has the second until which it would have lasted, and its
# id, so that those that are over come first.
ENDED = "ended-session:"
ALL_ENDED = "SELECT name FROM keys WHERE name > ? AND name < ? ORDER BY name"
FORGET_ENDED = "DELETE FROM keys WHERE name > ? AND name < ?"
AFTER_ENDED = "ended-session;"  # the first text after all that begin so


class SqliteTokens(SqlitePort):
    async def read(self) -> TokenBook:
        def read(snapshot: Snapshot) -> TokenBook:
            required = snapshot.execute(KEY, (REQUIRED,)).fetchone() is not None
            rows = snapshot.execute(ALL).fetchall()
            tokens = tuple(StoredToken(*row[:4], *map(from_micros_or_null, row[4:])) for row in rows)
            ended = [name.rpartition(":")[2] for (name,) in snapshot.execute(ALL_ENDED, (ENDED, AFTER_ENDED))]
            return TokenBook(required, tokens, tuple(sorted(ended)))

        return await self._database.read(read)

    async def require(self) -> None:
        await self._database.write(lambda transaction: transaction.execute(KEEP, (REQUIRED, b"")).rowcount)

    async def add(self, token: StoredToken) -> None:
        def write(transaction: Transaction) -> bool:
            transaction.execute(KEEP, (REQUIRED, b""))
            transaction.execute(FORGET, (to_micros(token.created - KEPT),))
            times = (to_micros(token.created), to_micros_or_null(token.expires))
            transaction.execute(ADD, (token.name, token.id, token.scope, token.sha256, *times))
            return transaction.execute(STANDING, (token.id,)).fetchone() is not None

        if not await self._database.write(write):
            raise Conflict(f"token {token.name} already exists")

    async def revoke(self, name: str, now: datetime) -> bool:
        row = (to_micros(now), name)
        return await self._database.write(lambda transaction: transaction.execute(REVOKE, row).rowcount) == 1

    async def end_session(self, session: str, until: datetime, now: datetime) -> None:
        def write(transaction: Transaction) -> None:
            transaction.execute(FORGET_ENDED, (ENDED, f"{ENDED}{_second(now)}"))
            transaction.execute(KEEP, (f"{ENDED}{_second(until)}:{session}", b""))

        await self._database.write(write)

    async def secret(self, draft: bytes) -> bytes:
        def write(transaction: Transaction) -> bytes:
            transaction.execute(KEEP, (AGENTS, draft))
            return bytes(transaction.execute(KEY, (AGENTS,)).fetchone()[0])

        found = await self._database.read(lambda snapshot: snapshot.execute(KEY, (AGENTS,)).fetchone())
        return bytes(found[0]) if found else await self._database.write(write)


def _second(at: datetime) -> str:
    """In texts of one length, which sort as the times do."""
    return f"{int(at.timestamp()):012}"
