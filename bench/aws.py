"""The same budgets on the AWS engines, in real time: DynamoDB Local, ElasticMQ and a simulator of EC2. A proxy counts
every request and adds 25 ms to it. Where the baseline can do the same, it is measured as well.

The counts are valid anywhere. The seconds include the time of DynamoDB Local on this machine, which the rows without
added latency show. Two rows beside each time say what is left of it on a real cloud: the processor time of the control
plane itself, and its sequential hops, the requests that had to wait for each other.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cache, partial
from typing import Any

from bench.aws_crowd import Crowd, heartbeat, write
from bench.aws_stage import CLASS, Cost, Stage, perform
from bench.aws_world import World, shared
from bench.stage import REGISTERS_IN, REQUEST_LASTS
from bench.table import Measurement, Row, row
from bullpen.ports import Ports
from bullpen.refresh import refresh

SIZES = (10, 50, 200, 500)
BUDGETED = 50
"""The size to which the budgets apply."""

TIMES = 3
"""Repetitions of a row that measures time; the median counts."""

SLOW = "25 ms added per request"
BARE = "no latency added"
BOOT, WAITED = 60.0, 3.0
"""Seconds of a boot, and how many of them are measured; the others are added."""

RUN = "measured"
On = Callable[[], World]


@cache
def warmed_up() -> World:
    """The shared world after a first round: freshly started engines answer three times slower."""
    world = shared()
    perform(world, _first_round)
    return world


def warm(sizes: Sequence[int] = SIZES, times: int = TIMES, on: On = warmed_up) -> Iterator[Row]:
    world = on()
    each: dict[int, float] = {}
    for size in sizes:
        subject = f"aws: provision warm {size}, instant registration"
        many = times if size == BUDGETED else 1
        cost = _median(world, many, partial(_warm, size=size))
        each[size] = cost.requests / size
        if size == BUDGETED:
            yield row(f"{subject}: requests", cost.requests, "requests", "≤ 75")
            yield row(f"{subject}: requests to EC2", cost.count.of("ec2"), "requests", "= 0")
            yield from _side_by_side(world, subject, size, cost)
        yield row(f"{subject}: requests per instance", each[size], "requests/instance")
        yield row(
            f"{subject}, {SLOW}: time without registration", cost.seconds, "s", "< 0.6" if size == BUDGETED else ""
        )
        yield from _own(subject, cost)
        if size == BUDGETED:
            bare = _median(world, times, partial(_warm, size=size, latency=0.0))
            yield row(f"{subject}, {BARE}: time without registration", bare.seconds, "s")
    if len(each) > 1:
        small, large = min(sizes, key=lambda size: abs(size - BUDGETED)), max(sizes)
        grown = each[large] / each[small]
        yield row(f"aws: provision warm {large} compared with {small}: requests per instance", grown, "x", "≤ 1.1")


def slowly_registered(size: int = BUDGETED, registers_in: float = REGISTERS_IN, on: On = warmed_up) -> Iterator[Row]:
    world, subject = on(), f"aws: provision warm {size}, registration of {registers_in:g} s"
    cost = perform(world, lambda stage: _warm(stage, RUN, size=size, registers_in=registers_in))
    baseline = perform(world, lambda stage: _baseline(stage, size, registers_in))
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 135")
    yield row(f"{subject}, {SLOW}: time without registration", cost.seconds - registers_in, "s", "< 0.6")
    yield from _own(subject, cost)
    yield row(f"{subject}: baseline, requests", baseline.requests, "requests")
    yield row(f"{subject}, {SLOW}: baseline, time without registration", baseline.seconds - registers_in, "s")
    yield from _own(f"{subject}: baseline", baseline, ", ")
    yield row(f"{subject}: baseline/Bullpen, requests", baseline.requests / cost.requests, "x", "≥ 2")


def mute(want: int = 10, registers_in: float = REGISTERS_IN, on: On = warmed_up) -> Iterator[Row]:
    """Two fifths of the agents claimed first never answer; the pool has exactly enough others."""
    mutes = want * 2 // 5
    cost = perform(on(), lambda stage: _mute(stage, want, mutes, registers_in))
    subject = (
        f"aws: mute agents, {mutes} of {want + mutes}, {want} requested, registration of {registers_in:g} s, {SLOW}"
    )
    yield row(subject, cost.seconds, "s", "< 12")
    yield row(f"{subject}: requests", cost.requests, "requests")
    yield from _own(subject, cost)


def behind(others: int = 200, on: On = warmed_up) -> Iterator[Row]:
    """Ten tickets that fit, behind tickets that fit only other runs."""
    world, subject = on(), f"aws: 10 tickets behind {others} that do not fit"
    ours = perform(world, lambda stage: _behind(stage, others, with_baseline=False))
    baseline = perform(world, lambda stage: _behind(stage, others, with_baseline=True))
    yield row(f"{subject}: requests", ours.requests, "requests", "≤ 60")
    yield row(f"{subject}, {SLOW}: time", ours.seconds, "s")
    yield from _own(subject, ours)
    yield row(f"{subject}: baseline, requests", baseline.requests, "requests")
    yield row(f"{subject}, {BARE}: baseline, time", baseline.seconds, "s")
    yield row(f"{subject}: baseline/Bullpen, requests", baseline.requests / ours.requests, "x", "≥ 2")


def release(size: int = BUDGETED, times: int = TIMES, on: On = warmed_up) -> Iterator[Row]:
    world, subject = on(), f"aws: release {size}, instant deregistration"
    cost = _median(world, times, partial(_release, size=size))
    bare = _median(world, times, partial(_release, size=size, latency=0.0))
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 115")
    yield row(f"{subject}, {SLOW}: time", cost.seconds, "s", "< 1")
    yield from _own(subject, cost)
    yield row(f"{subject}, {BARE}: time", bare.seconds, "s")


def release_beside_history(dead: int = 8000, on: On = warmed_up) -> Iterator[Row]:
    without, cost, found = perform(on(), lambda stage: _release_beside(stage, dead))
    subject = f"aws: release 10 beside {dead:,} terminated"
    yield row(f"{subject}: found", found, "of 10", "= 10")
    yield row(f"{subject}: time compared with none", cost.seconds / without.seconds, "x", "≤ 2")
    yield row(f"{subject}: requests", cost.requests, "requests")


def idle(size: int = 1000, on: On = warmed_up) -> Iterator[Row]:
    cost = perform(on(), lambda stage: _refresh(stage, size))
    subject = f"aws: refresh over {size:,} idle, nothing to do"
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 30")
    yield row(f"{subject}, {SLOW}: time", cost.seconds, "s")
    yield from _own(subject, cost)


def cold(count: int = 10, waited: float = WAITED, on: On = warmed_up) -> Iterator[Row]:
    """Agents answer at once in both cases: with some seconds of registration in both, the difference is smaller."""
    world = on()
    fresh = perform(world, lambda stage: _cold(stage, count, waited))
    reused = perform(world, lambda stage: _warm(stage, RUN, size=count))
    subject = f"aws: {count} runners, boot of {BOOT:g} s ({waited:g} s measured, the rest added)"
    whole = fresh.seconds - waited + BOOT
    yield row(f"{subject}: cold", whole, "s")
    yield row(f"{subject}: cold/warm, instant registration", whole / reused.seconds, "x", "≥ 20")
    slowly = (whole + REGISTERS_IN) / (reused.seconds + REGISTERS_IN)
    yield row(f"{subject}: cold/warm, with a registration of {REGISTERS_IN} s in both", slowly, "x")


def _own(subject: str, cost: Cost, mark: str = ": ") -> Iterator[Row]:
    yield row(f"{subject}{mark}processor time of the control plane", cost.processor * 1000, "ms")
    yield row(f"{subject}{mark}sequential hops", cost.count.hops, "hops")


def _median(world: World, times: int, story: Callable[[Stage, str], Coroutine[Any, Any, Cost]]) -> Cost:
    """The cost with the median time, of several runs on one stage."""

    async def repeat(stage: Stage) -> list[Cost]:
        return [await story(stage, f"{RUN}-{number}") for number in range(times)]

    return sorted(perform(world, repeat), key=lambda cost: cost.seconds)[times // 2]


# ---- stories


async def _first_round(stage: Stage) -> None:
    async with stage.crowd() as crowd:
        await crowd.join(await stage.fill(20))
        await stage.cost(lambda ports: stage.provision(ports, "first", 20), latency=0.0)
        await stage.cost(lambda ports: stage.release(ports, "first"), latency=0.0)


async def _warm(
    stage: Stage, run_id: str, *, size: int, registers_in: float = 0.0, latency: float = REQUEST_LASTS
) -> Cost:
    async with stage.crowd(registers_in) as crowd:
        await crowd.join(await stage.fill(size))
        return await stage.cost(lambda ports: _served_warm(stage, ports, run_id, size), latency=latency)


async def _baseline(stage: Stage, size: int, registers_in: float = 0.0) -> Cost:
    async with stage.crowd(registers_in) as crowd:
        await crowd.join(await stage.fill(size))
        return await stage.baseline_cost(RUN, size)


async def _mute(stage: Stage, want: int, mutes: int, registers_in: float) -> Cost:
    async with stage.crowd(registers_in) as crowd:
        silent = await stage.fill(mutes)  # first into the queue, so first out of it
        await crowd.join([*silent, *await stage.fill(want)])
        await crowd.silence(silent)
        return await stage.cost(lambda ports: _served_warm(stage, ports, RUN, want))


async def _behind(stage: Stage, others: int, *, with_baseline: bool) -> Cost:
    async with stage.crowd() as crowd:
        await stage.fill(others, trust_domain="others")
        await crowd.join(await stage.fill(10))
        if with_baseline:
            return await stage.baseline_cost(RUN, 10, latency=0.0)
        return await stage.cost(lambda ports: _served_warm(stage, ports, RUN, 10))


async def _release(stage: Stage, run_id: str, *, size: int, latency: float = REQUEST_LASTS) -> Cost:
    async with stage.crowd() as crowd:
        await _running(stage, crowd, run_id, size)
        found = await stage.cost(lambda ports: _released(stage, ports, run_id, size), latency=latency)
        await stage.ports.queue.take(CLASS, 2 * size)  # the next run takes its own
        return found


async def _release_beside(stage: Stage, dead: int) -> tuple[Cost, Cost, int]:
    async with stage.crowd() as crowd:
        for run_id in ("without", "beside"):
            await _running(stage, crowd, run_id, 10)
        without = await stage.cost(lambda ports: _released(stage, ports, "without", 10))
        await stage.bury(dead, "beside")
        found: list[str] = []

        async def work(ports: Ports) -> None:
            found.extend((await stage.release(ports, "beside")).offered)

        return without, await stage.cost(work), len(found)


async def _refresh(stage: Stage, size: int) -> Cost:
    filled = await stage.fill(size)
    await write(stage.table, [heartbeat(one.id, seq=1) for one in filled])

    async def work(ports: Ports) -> None:
        actions = await refresh(ports, stage.settings)
        assert not actions, actions

    return await stage.cost(work)


async def _cold(stage: Stage, count: int, boots_in: float) -> Cost:
    async with stage.crowd(boots_in=boots_in, run_id=RUN):
        return await stage.cost(lambda ports: stage.provision(ports, RUN, count))


async def _running(stage: Stage, crowd: Crowd, run_id: str, count: int) -> None:
    await crowd.join(await stage.fill(count))
    await stage.provision(stage.ports, run_id, count)


async def _served_warm(stage: Stage, ports: Ports, run_id: str, count: int) -> None:
    outcome = await stage.provision(ports, run_id, count)
    assert outcome.selected == count, outcome


async def _released(stage: Stage, ports: Ports, run_id: str, count: int) -> None:
    released = await stage.release(ports, run_id)
    assert len(released.offered) == count, released


def _side_by_side(world: World, subject: str, size: int, ours: Cost) -> Iterator[Row]:
    baseline = perform(world, lambda stage: _baseline(stage, size))
    yield row(f"{subject}: baseline, requests", baseline.requests, "requests")
    yield row(f"{subject}, {SLOW}: baseline, time without registration", baseline.seconds, "s")
    yield from _own(f"{subject}: baseline", baseline, ", ")
    yield row(f"{subject}: baseline/Bullpen, requests", baseline.requests / ours.requests, "x", "≥ 2")
    yield row(
        f"{subject}, {SLOW}: baseline/Bullpen, time without registration", baseline.seconds / ours.seconds, "x", "≥ 2"
    )


MEASUREMENTS = (
    Measurement("aws: provision warm", warm),
    Measurement("aws: provision warm, slow registration", slowly_registered),
    Measurement("aws: mute agents", mute),
    Measurement("aws: 10 behind others", behind),
    Measurement("aws: release", release),
    Measurement("aws: release beside terminated records", release_beside_history),
    Measurement("aws: refresh over idle instances", idle),
    Measurement("aws: warm against cold", cold),
)
