"""The engines under test. A new one adds a word to `ENGINES`, and how it is opened."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bullpen.engines.memory import Memory, Yard
from bullpen.engines.memory.ci import MemoryCI
from bullpen.engines.sqlite.ci import SqliteCI
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.jobs import SqliteJobs
from bullpen.engines.sqlite.logs import FileLogs
from bullpen.engines.sqlite.queue import SqliteQueue
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.signals import SqliteSignals
from bullpen.engines.sqlite.workers import SqliteWorkers
from bullpen.engines.system import SystemChance, SystemClock
from bullpen.ports import Ports
from bullpen.sim.loop import VirtualLoop
from engines.sqlite.plans import plans_checked
from real_machines import a_pool, with_room

CAPACITY = 8
"""Machines that the compute engine under test has room for."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine, ready and empty. `hire(name, label, busy)` makes a runner known to the CI, as an agent does."""

    ports: Ports
    hire: Callable[[str, str, bool], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Engine:
    """How to open an engine in an empty directory, on which loop, and which ports it keeps."""

    open: Callable[[Path], AbstractAsyncContextManager[Opened]]
    loop: Callable[[], asyncio.AbstractEventLoop]
    keeps: tuple[str, ...]


@asynccontextmanager
async def memory(_directory: Path) -> AsyncIterator[Opened]:
    services = Memory(yard=Yard(capacity=CAPACITY))
    ports = services.ports()

    async def hire(name: str, label: str, busy: bool) -> None:
        assert isinstance(ports.ci, MemoryCI)
        await ports.ci.register(name, label)
        await ports.ci.set_busy(name, busy)

    yield Opened(ports, hire)


@asynccontextmanager
async def sqlite(directory: Path) -> AsyncIterator[Opened]:
    async with Database.open(directory) as database:
        clock = SystemClock()
        ports = replace(
            Memory().ports(),
            clock=clock,
            records=SqliteRecords(database),
            signals=SqliteSignals(database),
            queue=SqliteQueue(database, clock),
            ci=SqliteCI(database),
            workers=SqliteWorkers(database),
            jobs=SqliteJobs(database, clock, SystemChance()),
            logs=FileLogs(directory),
        )

        async def hire(name: str, label: str, busy: bool) -> None:
            row = (name, label, "round", int(busy))
            await database.write(lambda tx: tx.execute("INSERT INTO registrations VALUES (?, ?, ?, ?)", row).rowcount)

        with plans_checked(database.path):
            yield Opened(ports, hire)


@asynccontextmanager
async def local(directory: Path) -> AsyncIterator[Opened]:
    async with a_pool(directory, with_room(CAPACITY)) as pool:

        async def hire(name: str, label: str, busy: bool) -> None:
            raise NotImplementedError("the local engine is no CI")

        yield Opened(replace(Memory().ports(), clock=pool.clock, compute=pool.compute), hire)


ENGINES = {
    "memory": Engine(
        memory,
        VirtualLoop,
        keeps=("records", "signals", "queue", "compute", "ci", "observations", "workers", "jobs", "logs"),
    ),
    "sqlite": Engine(
        sqlite, asyncio.new_event_loop, keeps=("records", "signals", "queue", "ci", "workers", "jobs", "logs")
    ),
    "local": Engine(local, asyncio.new_event_loop, keeps=("compute",)),
}
