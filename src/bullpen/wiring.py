"""Settings → engines → ports. The only module that picks engines; it imports an engine when it opens it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.config import Settings
from bullpen.extras import missing_extra
from bullpen.pool.change_log import with_change_log
from bullpen.ports import NoTraces, Ports, Tokens, Traces, Traffic

if TYPE_CHECKING:
    from bullpen.ports.callers import Verifiers


@asynccontextmanager
async def opened(home: Path, settings: Settings) -> AsyncIterator[Ports]:
    """The pool that the settings name; every change that lands is logged."""
    async with _traced(settings) as traces, _pool(home, settings) as bare:
        ports = replace(bare, records=with_change_log(bare.records), traces=traces)
        if not settings.on_github:
            yield ports
            return
        async with on_github(settings, ports) as joined:
            yield joined


def _pool(home: Path, settings: Settings) -> AbstractAsyncContextManager[Ports]:
    return on_aws(settings) if settings.engines.pool == "aws" else embedded(home, settings)


@asynccontextmanager
async def _traced(settings: Settings) -> AsyncIterator[Traces]:
    """Where traces go; nothing of OpenTelemetry is imported unless the settings name a receiver."""
    if not settings.traces.endpoint:
        yield NoTraces()
        return
    try:
        from bullpen.engines.traces import OtlpTraces
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise missing_extra("traces.endpoint", exc, "traces") from exc
    async with aclosing(OtlpTraces(settings.traces.endpoint)) as traces:
        yield traces


def is_unused(home: Path, settings: Settings) -> bool:
    """Whether no pool has ever lived here and nothing is in the way: a question about such a pool must not make one.

    False on AWS, where no question makes anything: asking a pool that is not there says so.
    """
    if settings.engines.pool == "aws":
        return False
    try:
        (home / "bullpen.db").stat()  # not `exists`, which from Python 3.14 on is also False where it cannot be known
    except FileNotFoundError:
        return True
    except OSError:  # a file, a name too long, a folder without permission: opening it says so in full
        return False
    return False


@asynccontextmanager
async def embedded(home: Path, settings: Settings) -> AsyncIterator[Ports]:
    """Everything on this machine: SQLite for records, signals, leases, queues and the CI; processes as instances.

    The home is created and migrated as needed. Raise ConfigError if it cannot be used, Unavailable if it is locked.
    """
    from bullpen.engines.local import LocalCompute
    from bullpen.engines.local.machine_logs import LocalMachineLogs
    from bullpen.engines.sqlite.artifacts import FileArtifacts
    from bullpen.engines.sqlite.ci import SqliteCI
    from bullpen.engines.sqlite.database import Database
    from bullpen.engines.sqlite.health import SqliteHealth
    from bullpen.engines.sqlite.history import SqliteHistory
    from bullpen.engines.sqlite.jobs import SqliteJobs
    from bullpen.engines.sqlite.logs import FileLogs
    from bullpen.engines.sqlite.observations import SqliteObservations
    from bullpen.engines.sqlite.queue import SqliteQueue
    from bullpen.engines.sqlite.records import SqliteRecords
    from bullpen.engines.sqlite.room import StoreRoom
    from bullpen.engines.sqlite.signals import SqliteSignals
    from bullpen.engines.sqlite.sources import FileSources
    from bullpen.engines.sqlite.tokens import SqliteTokens
    from bullpen.engines.sqlite.vault import FileVault
    from bullpen.engines.sqlite.workers import SqliteWorkers
    from bullpen.engines.system import SystemChance, SystemClock

    clock, chance, traffic = SystemClock(), SystemChance(), Traffic()
    async with Database.open(home, traffic=traffic) as database:
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
                jobs=SqliteJobs(database),
                logs=FileLogs(home),
                health=SqliteHealth(database),
                vault=FileVault(home, clock),
                tokens=SqliteTokens(database),
                sources=FileSources(home, store := StoreRoom(home)),
                artifacts=FileArtifacts(home, store),
                traffic=traffic,
                history=SqliteHistory(database),
                machine_logs=LocalMachineLogs(home),
            )
        finally:
            await compute.close()


@asynccontextmanager
async def on_aws(settings: Settings) -> AsyncIterator[Ports]:
    """The pool on DynamoDB, SQS and EC2. Opening it makes no call; `refresh` makes what it stands on.

    Raise ConfigError if the AWS client is not installed, or cannot be set up.
    """
    with needing_aws():
        from bullpen.engines.aws import session
    from bullpen.engines.aws.boot.userdata import own_user_data
    from bullpen.engines.aws.clock import DateClock
    from bullpen.engines.aws.dynamodb.ci import DynamoCI
    from bullpen.engines.aws.dynamodb.health import DynamoHealth
    from bullpen.engines.aws.dynamodb.history import DynamoHistory
    from bullpen.engines.aws.dynamodb.jobs import DynamoJobs
    from bullpen.engines.aws.dynamodb.logs import DynamoLogs
    from bullpen.engines.aws.dynamodb.observations import DynamoObservations
    from bullpen.engines.aws.dynamodb.records import DynamoRecords
    from bullpen.engines.aws.dynamodb.signals import BootFailures, DynamoSignals
    from bullpen.engines.aws.dynamodb.table import TableClient
    from bullpen.engines.aws.dynamodb.tokens import DynamoTokens
    from bullpen.engines.aws.dynamodb.vault import DynamoVault
    from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
    from bullpen.engines.aws.ec2.compute import Ec2Compute
    from bullpen.engines.aws.ec2.console import ConsoleLogs
    from bullpen.engines.aws.infrastructure.setup import AwsInfrastructure
    from bullpen.engines.aws.infrastructure.table_setup import TableSetup
    from bullpen.engines.aws.sqs.queue import SqsQueue
    from bullpen.engines.system import SystemChance, SystemClock

    clock, chance, traffic = DateClock(SystemClock()), SystemChance(), Traffic()
    async with session.opened(settings.aws, traffic) as cloud:
        table, queue = TableClient(cloud, chance, clock), SqsQueue(cloud, clock, chance)
        failures = BootFailures(table, settings.aws.instance_role) if settings.agent.serve_url else None
        script, store_agent = partial(own_user_data, settings), TableSetup(cloud, clock).store_agent
        observations = DynamoObservations(table)
        yield Ports(
            clock=clock,
            chance=chance,
            records=DynamoRecords(table),
            signals=DynamoSignals(table, clock, failures),
            queue=queue,
            compute=Ec2Compute(cloud, settings, clock, script, store_agent, observations.first_missing),
            ci=DynamoCI(table),
            observations=observations,
            workers=DynamoWorkers(table),
            jobs=DynamoJobs(table),
            logs=DynamoLogs(table, clock),
            health=DynamoHealth(table),
            infrastructure=AwsInfrastructure(cloud, settings, queue, clock),
            vault=DynamoVault(table, clock),
            tokens=DynamoTokens(table),
            history=DynamoHistory(table, timedelta(days=settings.history.keep)),
            machine_logs=ConsoleLogs(cloud),
            store_clock=clock,
            traffic=traffic,
        )


@asynccontextmanager
async def on_github(settings: Settings, ports: Ports) -> AsyncIterator[Ports]:
    """The same pool with GitHub as its CI. Opening it makes no call and reads no secret: a provision needs neither."""
    from bullpen.engines.github.client import GithubClient
    from bullpen.engines.github.infrastructure import GithubInfrastructure
    from bullpen.engines.github.releases import Releases
    from bullpen.engines.github.runners import GithubCI
    from bullpen.engines.github.scale_sets.port import GithubScaleSets
    from bullpen.engines.github.workflows import GithubWorkflows

    async with aclosing(GithubClient(settings.github, ports.clock, traffic=ports.traffic)) as client:
        releases, scale_sets = Releases(client, ports.clock), GithubScaleSets(client, ports.clock)
        yield replace(
            ports,
            ci=GithubCI(client, settings, ports.records, ports.clock, releases, scale_sets),
            workflows=GithubWorkflows(client),
            scale_sets=scale_sets,
            infrastructure=GithubInfrastructure(
                ports.infrastructure, client, settings, ports.vault, ports.clock, releases
            ),
        )


def verifiers(settings: Settings) -> "Verifiers":
    """How callers without a token of this pool prove who they are. Raise ConfigError if the webhooks' secret cannot be
    read."""
    from bullpen.ports.callers import Verifiers

    found = Verifiers()
    if settings.engines.pool == "aws":
        from bullpen.engines.aws.boot.identity import attestor

        found = replace(found, instances=attestor(settings))
    if settings.on_github:
        from bullpen.engines.github.oidc import identities
        from bullpen.engines.github.webhooks import webhooks

        found = replace(found, jobs=identities(settings), webhooks=webhooks(settings))
    return found


@contextmanager
def needing_aws() -> Iterator[None]:
    """Where the AWS client is imported: ConfigError if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in ("aiobotocore", "botocore"):
            raise
        raise missing_extra("AWS", exc, "aws") from exc


@asynccontextmanager
async def opened_tokens(home: Path, settings: Settings, *, new: bool = False) -> AsyncIterator[Tokens | None]:
    """Where the pool keeps its operators' tokens; what earlier versions kept in files of the home is imported. None if
    the home is not used yet: only a new token takes it into use. A token file of an earlier version counts as use."""
    if not new and is_unused(home, settings) and not (home / "tokens").exists():
        yield None
        return
    from bullpen.auth.token_files import import_files

    async with _pool(home, settings) as ports:
        await import_files(home, ports.tokens)
        yield ports.tokens
