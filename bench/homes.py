"""Homes of the embedded engine: temporary, filled with many records quickly, and left with nothing running."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bullpen.config import Settings
from bullpen.down import down
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.migrations import FILE
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.instance import Instance
from bullpen.model.transition import Change
from bullpen.wiring import embedded

LONGEST = 60.0
"""Seconds that one story with real processes may take."""


@contextmanager
def a_home() -> Iterator[Path]:
    """An empty directory on disk."""
    # Resolved and short: the home holds sockets, whose paths may not be long.
    home = Path(tempfile.mkdtemp(prefix="bullpen-bench-")).resolve()
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def a_home_with_instances(settings: Settings) -> Iterator[Path]:
    """A home whose instances are ended afterwards, on a loop of its own: also if the measuring one was interrupted."""
    with a_home() as home:
        try:
            yield home
        finally:
            if (home / FILE).exists():
                with _uninterrupted():
                    asyncio.run(_end_all(home, settings))


async def _end_all(home: Path, settings: Settings) -> None:
    async with asyncio.timeout(LONGEST), embedded(home, settings) as ports:
        await down(ports, settings)
        # A launch that was cut off in the middle counts as alive until it is certain that nothing comes of it.
        while any(seen.alive for seen in await ports.compute.sightings()):
            await asyncio.sleep(0.2)
            await down(ports, settings)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not leave processes behind; what runs here is bounded."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def fill(database: Database, steps: list[Change[Instance]], count: int) -> None:
    """Bring one record about by its steps, and make it `count` in all by copying its row, a thousand times faster."""
    for change in steps:
        await SqliteRecords(database).apply(change)
    await database.write(lambda transaction: _copy(transaction, steps[-1].after.id, count))


def _copy(transaction: Transaction, original: str, count: int) -> None:
    columns = [name for _, name, *_ in transaction.execute("SELECT * FROM pragma_table_info('instances')").fetchall()]
    copied = ", ".join(f"'{original}-' || printf('%06d', number)" if name == "id" else name for name in columns)
    transaction.execute(
        "WITH RECURSIVE numbers (number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)"
        f" INSERT INTO instances ({', '.join(columns)})"
        f" SELECT {copied} FROM numbers JOIN instances ON id = ? WHERE number <= ?",
        (count, original, count),
    )
