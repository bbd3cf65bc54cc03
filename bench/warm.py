"""Provision from a warm pool, in virtual time: requests and seconds, side by side with the plain way."""

import asyncio
from collections.abc import Iterator, Sequence

from bench.plain import Plain
from bench.stage import REGISTERS_IN, SETTINGS, Cost, Stage, perform
from bench.table import Measurement, Row, row
from bullpen.engines.memory import Faults
from bullpen.ports import Ports

SIZES = (10, 50, 200, 500)
BUDGETED = 50
"""The size that the budgets speak of."""

RUN = "measured"


def warm(sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    for registers_in, says, budget in ((0.0, "instant registration", "≤ 125"), (REGISTERS_IN, "5.5 s", "≤ 135")):
        for size in sizes:
            cost = perform(_ours(size, registers_in))
            subject = f"provision warm {size}, {says}"
            if size == BUDGETED:
                yield row(f"{subject}: requests", cost.requests, "requests", budget)
                yield from _side_by_side(subject, registers_in, budget)
            yield row(f"{subject}: requests each", cost.requests / size, "requests/instance")
            beyond = cost.seconds - registers_in
            yield row(f"{subject}: beyond registration", beyond, "s", "< 0.6" if size == BUDGETED else "")


def _side_by_side(subject: str, registers_in: float, budget: str) -> Iterator[Row]:
    """Both ways in requests as SQS and DynamoDB take them: the plain way has no batches to cut."""
    ours = perform(_ours(BUDGETED, registers_in, batched=True))
    plain = perform(_plain(BUDGETED, registers_in))
    yield row(f"{subject}: requests in batches of SQS and DynamoDB", ours.requests, "requests", budget)
    yield row(f"{subject}: plain, requests", plain.requests, "requests")
    yield row(f"{subject}: plain, beyond registration", plain.seconds - registers_in, "s")
    yield row(f"{subject}: plain/ours, requests", plain.requests / ours.requests, "x", "≥ 2")
    slower = (plain.seconds - registers_in) / (ours.seconds - registers_in)
    yield row(f"{subject}: plain/ours, beyond registration", slower, "x", "≥ 2")


def mute(wants: Sequence[int] = (10, 50)) -> Iterator[Row]:
    """Two fifths of those claimed first never answer; the pool has exactly enough others."""
    for want in wants:
        ours, plain = perform(_mute(want, with_plain=False)), perform(_mute(want, with_plain=True))
        subject = f"mute {_mutes(want)} of {want + _mutes(want)}, want {want}, 5.5 s"
        yield row(subject, ours.seconds, "s", "< 12" if want == 10 else "")
        yield row(f"{subject}: requests", ours.requests, "requests")
        yield row(f"{subject}: plain", plain.seconds, "s")
        yield row(f"{subject}: plain/ours", plain.seconds / ours.seconds, "x", "≥ 2" if want == 10 else "")


def behind(others: Sequence[int] = (50, 200, 400)) -> Iterator[Row]:
    """Ten that fit, behind tickets that fit other runs only."""
    for count in others:
        ours, plain = perform(_behind(count, with_plain=False)), perform(_behind(count, with_plain=True))
        subject, of_budget = f"10 behind {count} others", count == 200
        yield row(f"{subject}: requests", ours.requests, "requests", "≤ 60" if of_budget else "")
        yield row(f"{subject}: seconds", ours.seconds, "s")
        yield row(f"{subject}: plain", plain.requests, "requests")
        ratio = plain.requests / ours.requests
        yield row(f"{subject}: plain/ours", ratio, "x", "≥ 2" if of_budget else "")


def surplus(wants: Sequence[int] = (10, 50)) -> Iterator[Row]:
    """What hedging costs where nobody is mute and the pool has as many again to spare."""
    for want in wants:
        cost = perform(_ours(want, REGISTERS_IN, pool=2 * want))
        subject, of_budget = f"half of a pool of {2 * want}, 5.5 s", want == BUDGETED
        yield row(f"{subject}: requests", cost.requests, "requests", "≤ 135" if of_budget else "")
        beyond = cost.seconds - REGISTERS_IN
        yield row(f"{subject}: beyond registration", beyond, "s", "< 0.6" if of_budget else "")


async def _ours(size: int, registers_in: float, *, pool: int | None = None, batched: bool = False) -> Cost:
    stage = Stage.of(registers_in)
    await stage.fill(pool or size)
    return await stage.cost(lambda ports, _: _served_warm(stage, ports, size), batched=batched)


async def _plain(size: int, registers_in: float) -> Cost:
    stage = Stage.of(registers_in)
    await stage.fill(size)
    return await stage.cost(lambda ports, faults: _served_plainly(stage, ports, faults, size))


async def _mute(want: int, *, with_plain: bool) -> Cost:
    stage = Stage.of(REGISTERS_IN)
    pool = await stage.fill(want + _mutes(want))
    for id in pool[: _mutes(want)]:
        stage.world.agents[id].kill()  # its machine still runs; nobody on it answers
    return await stage.cost(
        lambda ports, faults: (
            _served_plainly(stage, ports, faults, want) if with_plain else _served_warm(stage, ports, want)
        )
    )


async def _behind(others: int, *, with_plain: bool) -> Cost:
    stage = Stage.of()
    fitting = await stage.fill(10)
    await stage.fill(others, trust_domain="others")
    await asyncio.sleep(SETTINGS.timings.put_back)  # the second filling put the ten back: now they come last
    queue = stage.world.memory.queues["small"].ready(asyncio.get_running_loop().time())
    assert len(queue) == others + 10
    assert all(any(id in body for id in fitting) for _, body in list(queue)[-10:])
    return await stage.cost(
        lambda ports, faults: (
            _served_plainly(stage, ports, faults, 10) if with_plain else _served_warm(stage, ports, 10)
        ),
        batched=not with_plain,
    )


def _mutes(want: int) -> int:
    return want * 2 // 5


async def _served_warm(stage: Stage, ports: Ports, count: int) -> None:
    outcome = await stage.provision(ports, RUN, count)
    assert (outcome.selected, stage.running(RUN)) == (count, count), outcome


async def _served_plainly(stage: Stage, ports: Ports, faults: Faults, count: int) -> None:
    plain = Plain(ports, faults, SETTINGS, SETTINGS.requirements("small"), RUN)
    await plain.provision(count)
    assert stage.running(RUN) == count, f"the plain way served {stage.running(RUN)} of {count}"


MEASUREMENTS = (
    Measurement("provision warm", warm),
    Measurement("mute", mute),
    Measurement("10 behind others", behind),
    Measurement("half of a pool", surplus),
)
