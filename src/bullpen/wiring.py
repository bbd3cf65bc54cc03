"""Settings → engines → ports. The only place that picks engines, and it imports them only when one is opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.config import Settings
from bullpen.ports import Ports

if TYPE_CHECKING:
    from bullpen.engines.sqlite.jobs import SqliteJobs


def is_unused(home: Path) -> bool:
    """Whether no pool has ever lived here and nothing is in the way: a question about such a pool must not make one."""
    try:
        return not (home / "bullpen.db").exists() and (home.is_dir() or not home.exists())
    except OSError:  # a name too long, a folder that is closed to us: opening it says so in full
        return False


@asynccontextmanager
async def embedded(home: Path, settings: Settings) -> AsyncIterator[Ports]:
    """Everything on this machine: SQLite for records, signals, leases, queues and the CI; processes as instances.

    The home is created and migrated as needed. Raise ConfigError if it cannot be used, Unavailable if it is locked.
    """
    from bullpen.engines.local import LocalCompute
    from bullpen.engines.sqlite.ci import SqliteCI
    from bullpen.engines.sqlite.database import Database
    from bullpen.engines.sqlite.jobs import SqliteJobs
    from bullpen.engines.sqlite.logs import FileLogs
    from bullpen.engines.sqlite.observations import SqliteObservations
    from bullpen.engines.sqlite.queue import SqliteQueue
    from bullpen.engines.sqlite.records import SqliteRecords
    from bullpen.engines.sqlite.signals import SqliteSignals
    from bullpen.engines.sqlite.workers import SqliteWorkers
    from bullpen.engines.system import SystemChance, SystemClock

    clock, chance = SystemClock(), SystemChance()
    async with Database.open(home) as database:
        compute = LocalCompute(database, home, settings, clock, chance)
        try:
            yield Ports(
                clock=clock,
                chance=chance,
                records=SqliteRecords(database),
                signals=SqliteSignals(database),
                queue=SqliteQueue(database, clock),
                compute=compute,
                ci=SqliteCI(database),
                observations=SqliteObservations(database),
                workers=SqliteWorkers(database),
                jobs=SqliteJobs(database, clock, chance),
                logs=FileLogs(home),
            )
        finally:
            await compute.close()


@asynccontextmanager
async def embedded_jobs(home: Path) -> AsyncIterator["SqliteJobs"]:
    """The job queue of the embedded CI: what a run's runners execute."""
    from bullpen.engines.sqlite.database import Database
    from bullpen.engines.sqlite.jobs import SqliteJobs
    from bullpen.engines.system import SystemChance, SystemClock

    async with Database.open(home) as database:
        yield SqliteJobs(database, SystemClock(), SystemChance())


def create_token(home: Path, scope: str, expires: datetime | None) -> str:
    """A new token for an operator of `serve`; the home keeps its hash only."""
    from bullpen.engines.keys import Keys, Scope

    return Keys(home).create(Scope(scope), expires)
