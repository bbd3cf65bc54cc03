"""The engines under test. A new one adds a word to `ENGINES`, and how it is opened."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import stored_contents
from bullpen.config import Aws, Settings
from bullpen.engines.aws import session
from bullpen.engines.aws.dynamodb.ci import DynamoCI
from bullpen.engines.aws.dynamodb.health import DynamoHealth
from bullpen.engines.aws.dynamodb.history import DynamoHistory
from bullpen.engines.aws.dynamodb.items import raw_key, text
from bullpen.engines.aws.dynamodb.jobs import DynamoJobs
from bullpen.engines.aws.dynamodb.logs import DynamoLogs
from bullpen.engines.aws.dynamodb.observations import DynamoObservations
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.signals import DynamoSignals
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.dynamodb.tokens import DynamoTokens
from bullpen.engines.aws.dynamodb.vault import DynamoVault
from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
from bullpen.engines.aws.ec2.compute import LISTED_AFTER, Ec2Compute
from bullpen.engines.aws.sqs.queue import SqsQueue
from bullpen.engines.github.naming import runner_name
from bullpen.engines.memory import Memory, Yard
from bullpen.engines.memory.ci import MemoryCI
from bullpen.engines.sqlite.artifacts import FileArtifacts
from bullpen.engines.sqlite.ci import SqliteCI
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.health import SqliteHealth
from bullpen.engines.sqlite.history import SqliteHistory
from bullpen.engines.sqlite.jobs import SqliteJobs
from bullpen.engines.sqlite.logs import FileLogs
from bullpen.engines.sqlite.queue import SqliteQueue
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.room import StoreRoom
from bullpen.engines.sqlite.signals import SqliteSignals
from bullpen.engines.sqlite.sources import FileSources
from bullpen.engines.sqlite.tokens import SqliteTokens
from bullpen.engines.sqlite.vault import FileVault
from bullpen.engines.sqlite.workers import SqliteWorkers
from bullpen.engines.system import SystemChance, SystemClock
from bullpen.ports import Ports
from bullpen.sim.loop import VirtualLoop
from conformance.set_services import SetWorld, emulated_world, github_world, memory_world
from engines.aws.tables import a_cloud_with_a_table
from engines.github.places import a_ci
from engines.sqlite.plans import plans_checked
from fakes.aws_fixtures import MakeSettings
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, REGION, SUBNETS
from fakes.github.hub import FakeGithub, JobSpec
from fakes.scale_sets.emulator import Emulator
from made_homes import with_database
from real_machines import a_pool, with_room

CAPACITY = 8
"""Machines that the compute engine under test has room for."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine, ready and empty. `hire(name, label, busy)` makes a runner known to the CI, as an agent does.
    `contents` is everything that its store has."""

    ports: Ports
    hire: Callable[[str, str, bool], Awaitable[None]]
    set_world: SetWorld | None = None  # the service behind the port of scale sets
    contents: Callable[[], Awaitable[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """How to open an engine, on which loop, and which ports it keeps. `open` gets the fixture named `given`.

    One that does not purge gives old records a time to live: its store removes them some day, by itself.
    """

    open: Callable[[Any], AbstractAsyncContextManager[Opened]]
    loop: Callable[[], asyncio.AbstractEventLoop]
    keeps: tuple[str, ...]
    given: str = "tmp_path"
    purges: bool = True
    wakes: bool = True  # its `Signals.wait` ends with a change; otherwise a waiter looks again after a while
    crowd: int = 8000  # records that are many, and are written within seconds


@asynccontextmanager
async def memory(_directory: Path) -> AsyncIterator[Opened]:
    services = Memory(yard=Yard(capacity=CAPACITY))
    ports = services.ports()

    async def hire(name: str, label: str, busy: bool) -> None:
        assert isinstance(ports.ci, MemoryCI)
        await ports.ci.register(name, label)
        await ports.ci.set_busy(name, busy)

    async def contents() -> Any:
        return stored_contents.of_memory(services)

    yield Opened(ports, hire, contents=contents)


@asynccontextmanager
async def sqlite(directory: Path) -> AsyncIterator[Opened]:
    async with Database.open(with_database(directory)) as database:
        clock = SystemClock()
        ports = replace(
            Memory().ports(),
            clock=clock,
            records=SqliteRecords(database),
            signals=SqliteSignals(database),
            queue=SqliteQueue(database, clock),
            ci=SqliteCI(database),
            workers=SqliteWorkers(database),
            jobs=SqliteJobs(database),
            logs=FileLogs(directory),
            health=SqliteHealth(database),
            vault=FileVault(directory, clock),
            tokens=SqliteTokens(database),
            sources=FileSources(directory, store := StoreRoom(directory)),
            artifacts=FileArtifacts(directory, store),
            history=SqliteHistory(database),
        )

        async def hire(name: str, label: str, busy: bool) -> None:
            row = (name, label, "round", int(busy))
            await database.write(lambda tx: tx.execute("INSERT INTO registrations VALUES (?, ?, ?, ?)", row).rowcount)

        async def contents() -> Any:
            return stored_contents.of_home(directory)

        with plans_checked(database.path):
            yield Opened(ports, hire, contents=contents)


@asynccontextmanager
async def local(directory: Path) -> AsyncIterator[Opened]:
    async with a_pool(directory, with_room(CAPACITY)) as pool:

        async def hire(name: str, label: str, busy: bool) -> None:
            raise NotImplementedError("the local engine is no CI")

        yield Opened(replace(Memory().ports(), clock=pool.clock, compute=pool.compute), hire)


@asynccontextmanager
async def aws(make_settings: MakeSettings) -> AsyncIterator[Opened]:
    async with a_cloud_with_a_table(own := make_settings().aws) as cloud:
        table = TableClient(cloud, SystemChance())
        clock = SystemClock()
        ports = replace(
            Memory().ports(),
            clock=clock,
            records=DynamoRecords(table),
            signals=DynamoSignals(table, clock),
            ci=DynamoCI(table),
            observations=DynamoObservations(table),
            workers=DynamoWorkers(table, census_lasts=0),
            jobs=DynamoJobs(table),
            logs=DynamoLogs(table, clock),
            health=DynamoHealth(table),
            queue=SqsQueue(cloud, clock, SystemChance()),
            vault=DynamoVault(table, clock),
            tokens=DynamoTokens(table),
            history=DynamoHistory(table, timedelta(days=30)),
        )

        async def hire(name: str, label: str, busy: bool) -> None:
            said = {"label": text(label), "round": text("round"), "busy": {"BOOL": busy}}
            await table.put({**raw_key("Registration", name), **said})

        async def contents() -> Any:
            return await stored_contents.of_table(cloud, own)

        yield Opened(ports, hire, contents=contents)


@asynccontextmanager
async def ec2(cloud: Control) -> AsyncIterator[Opened]:
    for market in ("on-demand", "spot"):
        cloud.quota(market, 2 * CAPACITY)  # vCPUs: the types that the tests ask for have two
    settings = Settings(
        aws=Aws(
            region=REGION,
            endpoints={"ec2": cloud.url},
            image=AMAZON_LINUX.id,
            subnets=tuple(subnet.id for subnet in SUBNETS),
        )
    )

    async def first_missing(_id: str, now: datetime) -> datetime:
        return now - LISTED_AFTER  # otherwise an unknown id is not sure to be gone for a minute

    async def no_agent() -> None:
        """No machine of these tests fetches one."""

    async def hire(name: str, label: str, busy: bool) -> None:
        raise NotImplementedError("EC2 is no CI")

    async with session.opened(settings.aws) as clients:
        clock = SystemClock()
        compute = Ec2Compute(clients, settings, clock, lambda: "#!/bin/sh", no_agent, first_missing)
        yield Opened(replace(Memory().ports(), clock=clock, compute=compute), hire)


@asynccontextmanager
async def on_github(github: FakeGithub) -> AsyncIterator[Opened]:
    async def hire(name: str, label: str, busy: bool) -> None:
        runner = runner_name("bullpen", name, "0123456789abcdef")
        github.add_runner("acme/widgets", runner, [label])
        if busy:
            run = github.start_run("acme/widgets", [JobSpec("build", (label,))])
            github.begin(run, "build", runner)

    async with a_ci(github) as (ci, ports):
        yield Opened(replace(ports, ci=ci), hire)


async def no_hire(name: str, label: str, busy: bool) -> None:
    raise NotImplementedError("this engine is asked for its scale sets only")


@asynccontextmanager
async def memory_github(_directory: Path) -> AsyncIterator[Opened]:
    async with memory_world() as world:
        yield Opened(Memory().ports(), no_hire, world)


@asynccontextmanager
async def github_sets(github: FakeGithub) -> AsyncIterator[Opened]:
    async with github_world(github) as world:
        yield Opened(Memory().ports(), no_hire, world)


@asynccontextmanager
async def enterprise_sets(github: FakeGithub) -> AsyncIterator[Opened]:
    async with github_world(github, enterprise=True) as world:
        yield Opened(Memory().ports(), no_hire, world)


@asynccontextmanager
async def emulated_sets(emulator: Emulator) -> AsyncIterator[Opened]:
    async with emulated_world(emulator) as world:
        yield Opened(Memory().ports(), no_hire, world)


SETS = ("scale_sets", "set_world")
STORE = ("records", "signals", "queue", "ci", "workers", "jobs", "logs", "vault", "health", "tokens", "history")
ENGINES = {
    "memory": Engine(
        memory,
        VirtualLoop,
        keeps=(
            *("records", "signals", "queue", "compute", "ci", "observations", "workers", "jobs", "logs", "vault"),
            *("health", "tokens", "history", "sources", "artifacts"),
        ),
    ),
    "sqlite": Engine(
        sqlite,
        asyncio.new_event_loop,
        keeps=(*STORE, "sources", "artifacts"),
    ),
    "aws": Engine(
        aws,
        asyncio.new_event_loop,
        keeps=("observations", *STORE),
        given="aws_settings",
        purges=False,
        wakes=False,
        crowd=300,  # the crowd of 8,000 is met in tests/engines/aws/test_crowd.py
    ),
    "local": Engine(local, asyncio.new_event_loop, keeps=("compute",)),
    "ec2": Engine(ec2, asyncio.new_event_loop, keeps=("compute",), given="cloud"),
    "github": Engine(on_github, asyncio.new_event_loop, keeps=("ci",), given="github"),
    "memory-github": Engine(memory_github, VirtualLoop, keeps=(*SETS, "github_sets")),
    "github-sets": Engine(github_sets, asyncio.new_event_loop, keeps=(*SETS, "github_sets"), given="github"),
    "enterprise-sets": Engine(enterprise_sets, asyncio.new_event_loop, keeps=SETS, given="github"),
    "emulator": Engine(emulated_sets, asyncio.new_event_loop, keeps=SETS, given="emulator"),
}
