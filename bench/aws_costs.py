"""The cost of Bullpen's own requests on AWS, in USD: units and requests counted by the proxy, times list prices.

DynamoDB Local reports the units that a request consumes, indexes included. EC2, traffic and storage are not included:
the table of a pool has a few megabytes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.aws import On, warmed_up
from bench.aws_stage import Stage, perform
from bench.aws_world import ACCOUNT, Count
from bench.table import Measurement, Row, row
from bullpen.agent.aws.dynamodb import DynamoDB
from bullpen.agent.config import Config
from bullpen.agent.store.dynamodb import RUNNING_EVERY, WAITING_EVERY, DynamoStore
from bullpen.config import Timings
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.pool.offering import send_tickets
from bullpen.ports import Ports
from bullpen.refresh import refresh

WRITE_UNIT, READ_UNIT, SQS_REQUEST = 0.625e-6, 0.125e-6, 0.40e-6
"""USD in us-east-1, on demand, as listed in November 2024. To be checked against the current price list."""

DAY, MONTH = 86_400, 30 * 86_400
TIMINGS = Timings()
REFRESH_EVERY = 60.0
RUNNERS = 100
SOME = 10  # runners of a provision, and of whatever else is measured
LONGEST = 10.0  # seconds that an agent waits for an answer


@dataclass(frozen=True, slots=True)
class Prices:
    """Of one of each, in USD."""

    provision: float  # of SOME warm runners
    release: float
    beat: float  # that an agent writes itself
    served_beat: float  # that it sends to `serve`
    timer: float  # of a lease, moved by a sweeper
    look: float  # at its own record, by an agent without `serve`
    refresh: float  # an idle instance's share
    keep: float  # of an instance for the idle target, with its new ticket


def costs(idle: int = 100, on: On = warmed_up) -> Iterator[Row]:
    prices = perform(on(), lambda stage: _prices(stage, idle))
    yield row(f"aws cost: 1,000 provisions of {SOME} warm runners", 1000 * prices.provision, "USD")
    yield row(f"aws cost: 1,000 releases of {SOME} runners", 1000 * prices.release, "USD")
    beats = RUNNERS * DAY / TIMINGS.heartbeat
    subject = f"aws cost: a day of heartbeats of {RUNNERS} runners"
    yield row(f"{subject}, written by the agents", beats * prices.beat, "USD")
    yield row(f"{subject}, through serve", beats * prices.served_beat, "USD")
    timers = RUNNERS * DAY / TIMINGS.lease
    yield row(f"{subject}: moving their timers, if a sweeper runs", timers * prices.timer, "USD")
    running = MONTH / TIMINGS.heartbeat * prices.beat + MONTH / REFRESH_EVERY * prices.refresh
    kept = MONTH / (TIMINGS.idle / 2) * prices.keep
    looks = MONTH / WAITING_EVERY * prices.look
    yield row(
        "aws cost: one idle instance for a month, agent without serve, kept on offer", running + kept + looks, "USD"
    )
    yield row("aws cost: of that the agent's reads, two per second", looks, "USD")
    looks = MONTH / RUNNING_EVERY * prices.look
    yield row("aws cost: one running instance for a month, agent without serve", running + looks, "USD")


async def _prices(stage: Stage, idle: int) -> Prices:
    with ExitStack() as stack:
        pool = await stage.fill(idle)
        stores = [stack.enter_context(closing(_store(stage, one.id))) for one in pool]
        return await _measured(stage, pool, stores)


async def _measured(stage: Stage, pool: Sequence[Instance], stores: Sequence[DynamoStore]) -> Prices:
    idle = len(pool)
    _beat_all(stores)
    refreshed = await stage.cost(lambda ports: refresh(ports, stage.settings), metered=True, latency=0.0)
    kept = await stage.cost(lambda ports: _keep(ports, pool[:SOME]), metered=True, latency=0.0)
    async with stage.crowd() as crowd:
        await crowd.join(pool[SOME:])  # the tickets of the others have just become stale
        provisioned = await stage.cost(lambda ports: stage.provision(ports, "run", SOME), metered=True)
        released = await stage.cost(lambda ports: stage.release(ports, "run"), metered=True)
    await stage.ports.workers.rearm(stage.ports.clock.now(), idle)  # the first one finds more to write
    return Prices(
        provision=price(provisioned.count),
        release=price(released.count),
        beat=price(_metered(stage, lambda: _beat_all(stores))) / idle,
        served_beat=price(await _served_beats(stage)) / SOME,
        timer=price(await _timers(stage, idle)) / idle,
        look=price(_metered(stage, lambda: stores[0].read_record())),
        refresh=price(refreshed.count) / idle,
        keep=price(kept.count) / SOME,
    )


def price(count: Count) -> float:
    units = count.units.get("write", 0.0) * WRITE_UNIT + count.units.get("read", 0.0) * READ_UNIT
    return units + count.of("sqs") * SQS_REQUEST


def _store(stage: Stage, instance_id: str) -> DynamoStore:
    """The way of a real agent to the table."""
    aws, nowhere = stage.settings.aws, Path()
    config = Config(
        instance_id, nowhere, nowhere, TIMINGS.heartbeat, 0.0, 0.0, "", 0.0, (), table=aws.pool, domain="bench"
    )
    keys = (ACCOUNT["AWS_ACCESS_KEY_ID"], ACCOUNT["AWS_SECRET_ACCESS_KEY"], "")
    return DynamoStore(config, DynamoDB(aws.region, lambda: keys, aws.endpoints["dynamodb"], LONGEST), lambda: None)


def _beat_all(stores: Sequence[DynamoStore]) -> None:
    for store in stores:
        store.beat(None)


def _metered(stage: Stage, deed: Callable[[], object]) -> Count:
    stage.world.count(metered=True)
    deed()
    return stage.world.count()


async def _served_beats(stage: Stage) -> Count:
    """Of a worker that is known already, as `serve` records them."""
    token = await _beat(stage, stage.ports, 0)

    async def work(ports: Ports) -> None:
        last = token
        for _ in range(SOME):
            last = await _beat(stage, ports, last)

    return (await stage.cost(work, metered=True, latency=0.0)).count


async def _beat(stage: Stage, ports: Ports, token: int) -> int:
    beat = HeartbeatRequest(key="i-served/worker", token=token, lease=int(TIMINGS.lease), request_id=str(token))
    answer = await record_heartbeat(ports, stage.settings, beat, instance_id="i-served")
    assert isinstance(answer, HeartbeatAnswer), answer
    return answer.token


async def _timers(stage: Stage, count: int) -> Count:
    """Leases renewed since their timers were set, one lease later."""

    async def work(ports: Ports) -> None:
        moved = await ports.workers.rearm(ports.clock.now() + timedelta(seconds=TIMINGS.lease), 2 * count)
        assert moved >= count, f"{moved} of {count} timers were moved"

    return (await stage.cost(work, metered=True, latency=0.0)).count


async def _keep(ports: Ports, some: Sequence[Instance]) -> None:
    """As refresh keeps the youngest for the idle target."""
    now = ports.clock.now()
    kept = instances.Kept(at=now, by="refresh", why="kept for the idle target", until=now + timedelta(days=1))
    landed = await ports.records.apply_each([instances.keep(one, kept) for one in some])
    await send_tickets(ports, [one for one in landed if isinstance(one, Instance)])


MEASUREMENTS = (Measurement("aws: costs", costs),)
