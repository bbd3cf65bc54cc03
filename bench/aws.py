"""The same budgets on the AWS engines, in real time: DynamoDB Local, ElasticMQ and an EC2 of our own, every request
counted by a proxy that adds 25 ms to it. Side by side with the plain way, where that has a way.

Counts hold anywhere. Seconds include what DynamoDB Local takes of this machine, which the rows without added time show.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cache, partial
from typing import Any

from bench.aws_crowd import Crowd
from bench.aws_stage import CLASS, Cost, Stage, perform
from bench.aws_world import World, shared
from bench.stage import REGISTERS_IN, REQUEST_LASTS
from bench.table import Measurement, Row, row
from bullpen.ports import Ports
from bullpen.refresh import refresh

SIZES = (10, 50, 200, 500)
BUDGETED = 50
"""The size that the budgets speak of."""

TIMES = 3
"""Repetitions of a row about seconds; the median counts."""

SLOW = "25 ms added per request"
BARE = "nothing added: the engines and this machine"
BOOT, WAITED = 60.0, 3.0
"""Seconds of a boot, and how many of them are really waited for; the others are added."""

RUN = "measured"
On = Callable[[], World]


@cache
def warmed_up() -> World:
    """The shared world after a first round: engines just started answer three times slower."""
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
            yield row(f"{subject}: of these to EC2", cost.count.of("ec2"), "requests", "= 0")
            yield from _side_by_side(world, subject, size, cost)
        yield row(f"{subject}: requests each", each[size], "requests/instance")
        yield row(f"{subject}, {SLOW}: beyond registration", cost.seconds, "s", "< 0.6" if size == BUDGETED else "")
        if size == BUDGETED:
            bare = _median(world, times, partial(_warm, size=size, latency=0.0))
            yield row(f"{subject}, {BARE}: beyond registration", bare.seconds, "s")
    if len(each) > 1:
        small, large = min(sizes, key=lambda size: abs(size - BUDGETED)), max(sizes)
        grown = each[large] / each[small]
        yield row(f"aws: provision warm {large} against {small}: requests each", grown, "x", "≤ 1.1")


def slowly_registered(size: int = BUDGETED, registers_in: float = REGISTERS_IN, on: On = warmed_up) -> Iterator[Row]:
    world, subject = on(), f"aws: provision warm {size}, {registers_in:g} s"
    cost = perform(world, lambda stage: _warm(stage, RUN, size=size, registers_in=registers_in))
    plain = perform(world, lambda stage: _plain(stage, size, registers_in))
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 135")
    yield row(f"{subject}, {SLOW}: beyond registration", cost.seconds - registers_in, "s", "< 0.6")
    yield row(f"{subject}: plain, requests", plain.requests, "requests")
    yield row(f"{subject}, {SLOW}: plain, beyond registration", plain.seconds - registers_in, "s")
    yield row(f"{subject}: plain/ours, requests", plain.requests / cost.requests, "x", "≥ 2")


def mute(want: int = 10, registers_in: float = REGISTERS_IN, on: On = warmed_up) -> Iterator[Row]:
    """Two fifths of those claimed first never answer; the pool has exactly enough others."""
    mutes = want * 2 // 5
    cost = perform(on(), lambda stage: _mute(stage, want, mutes, registers_in))
    subject = f"aws: mute {mutes} of {want + mutes}, want {want}, {registers_in:g} s, {SLOW}"
    yield row(subject, cost.seconds, "s", "< 12")
    yield row(f"{subject}: requests", cost.requests, "requests")


def behind(others: int = 200, on: On = warmed_up) -> Iterator[Row]:
    """Ten that fit, behind tickets that fit other runs only."""
    world, subject = on(), f"aws: 10 behind {others} others"
    ours = perform(world, lambda stage: _behind(stage, others, with_plain=False))
    plain = perform(world, lambda stage: _behind(stage, others, with_plain=True))
    yield row(f"{subject}: requests", ours.requests, "requests", "≤ 60")
    yield row(f"{subject}, {SLOW}: seconds", ours.seconds, "s")
    yield row(f"{subject}: plain, requests", plain.requests, "requests")
    yield row(f"{subject}, {BARE}: plain, seconds", plain.seconds, "s")
    yield row(f"{subject}: plain/ours, requests", plain.requests / ours.requests, "x", "≥ 2")


def release(size: int = BUDGETED, times: int = TIMES, on: On = warmed_up) -> Iterator[Row]:
    world, subject = on(), f"aws: release {size}, instant deregistration"
    cost = _median(world, times, partial(_release, size=size))
    bare = _median(world, times, partial(_release, size=size, latency=0.0))
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 115")
    yield row(f"{subject}, {SLOW}: seconds", cost.seconds, "s", "< 1")
    yield row(f"{subject}, {BARE}: seconds", bare.seconds, "s")


def release_beside_history(dead: int = 8000, on: On = warmed_up) -> Iterator[Row]:
    without, cost, found = perform(on(), lambda stage: _release_beside(stage, dead))
    subject = f"aws: release 10 beside {dead:,} terminated"
    yield row(f"{subject}: found", found, "of 10", "= 10")
    yield row(f"{subject}: time against none terminated", cost.seconds / without.seconds, "x", "≤ 2")
    yield row(f"{subject}: requests", cost.requests, "requests")


def idle(size: int = 1000, on: On = warmed_up) -> Iterator[Row]:
    cost = perform(on(), lambda stage: _refresh(stage, size))
    subject = f"aws: refresh over {size:,} idle, nothing to do"
    yield row(f"{subject}: requests", cost.requests, "requests", "≤ 30")
    yield row(f"{subject}, {SLOW}: seconds", cost.seconds, "s")


def cold(count: int = 10, waited: float = WAITED, on: On = warmed_up) -> Iterator[Row]:
    """Agents answer at once in both: with a registration of some seconds in both, less is left of the difference."""
    world = on()
    fresh = perform(world, lambda stage: _cold(stage, count, waited))
    reused = perform(world, lambda stage: _warm(stage, RUN, size=count))
    subject = f"aws: {count} runners, a boot of {BOOT:g} s ({waited:g} waited for, the rest added)"
    whole = fresh.seconds - waited + BOOT
    yield row(f"{subject}: cold", whole, "s")
    yield row(f"{subject}: cold/warm, instant registration", whole / reused.seconds, "x", "≥ 20")
    slowly = (whole + REGISTERS_IN) / (reused.seconds + REGISTERS_IN)
    yield row(f"{subject}: cold/warm, {REGISTERS_IN} s of registration added to both", slowly, "x")


def _median(world: World, times: int, story: Callable[[Stage, str], Coroutine[Any, Any, Cost]]) -> Cost:
    """The one in the middle by its seconds, of as many runs on one stage."""

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


async def _plain(stage: Stage, size: int, registers_in: float = 0.0) -> Cost:
    async with stage.crowd(registers_in) as crowd:
        await crowd.join(await stage.fill(size))
        return await stage.plain_cost(RUN, size)


async def _mute(stage: Stage, want: int, mutes: int, registers_in: float) -> Cost:
    async with stage.crowd(registers_in) as crowd:
        silent = await stage.fill(mutes)  # first into the queue, so first out of it
        await crowd.join([*silent, *await stage.fill(want)])
        for one in silent:
            del crowd.members[one.id]  # its machine still runs; nobody on it answers
        return await stage.cost(lambda ports: _served_warm(stage, ports, RUN, want))


async def _behind(stage: Stage, others: int, *, with_plain: bool) -> Cost:
    async with stage.crowd() as crowd:
        await stage.fill(others, trust_domain="others")
        await crowd.join(await stage.fill(10))
        if with_plain:
            return await stage.plain_cost(RUN, 10, latency=0.0)
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
    await stage.crowd().join(await stage.fill(size))

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
    plain = perform(world, lambda stage: _plain(stage, size))
    yield row(f"{subject}: plain, requests", plain.requests, "requests")
    yield row(f"{subject}, {SLOW}: plain, beyond registration", plain.seconds, "s")
    yield row(f"{subject}: plain/ours, requests", plain.requests / ours.requests, "x", "≥ 2")
    yield row(f"{subject}, {SLOW}: plain/ours, beyond registration", plain.seconds / ours.seconds, "x", "≥ 2")


MEASUREMENTS = (
    Measurement("aws: provision warm", warm),
    Measurement("aws: provision warm, slow registration", slowly_registered),
    Measurement("aws: mute", mute),
    Measurement("aws: 10 behind others", behind),
    Measurement("aws: release", release),
    Measurement("aws: release beside terminated records", release_beside_history),
    Measurement("aws: refresh over idle instances", idle),
    Measurement("aws: warm against cold", cold),
)
