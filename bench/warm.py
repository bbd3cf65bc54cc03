"""Provision from a warm pool, in virtual time: requests and seconds, compared with the baseline."""

import asyncio
from collections.abc import Iterator, Sequence

from bench.baseline import Baseline
from bench.stage import REGISTERS_IN, SETTINGS, Cost, Stage, perform
from bench.table import Measurement, Row, row
from bullpen.engines.memory import Faults
from bullpen.ports import Ports

SIZES = (10, 50, 200, 500)
BUDGETED = 50
"""The size to which the budgets apply."""

RUN = "measured"


def warm(sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    for registers_in, says, budget in (
        (0.0, "instant registration", "≤ 125"),
        (REGISTERS_IN, "registration of 5.5 s", "≤ 135"),
    ):
        for size in sizes:
            cost = perform(_ours(size, registers_in))
            subject = f"provision warm {size}, {says}"
            if size == BUDGETED:
                yield row(f"{subject}: requests", cost.requests, "requests", budget)
                yield from _side_by_side(subject, registers_in, budget)
            yield row(f"{subject}: requests per instance", cost.requests / size, "requests/instance")
            beyond = cost.seconds - registers_in
            yield row(f"{subject}: time without registration", beyond, "s", "< 0.6" if size == BUDGETED else "")


def _side_by_side(subject: str, registers_in: float, budget: str) -> Iterator[Row]:
    """Both with requests of the batch sizes that SQS and DynamoDB allow; the baseline has no batches."""
    ours = perform(_ours(BUDGETED, registers_in, batched=True))
    baseline = perform(_baseline(BUDGETED, registers_in))
    yield row(f"{subject}: requests with the batch sizes of SQS and DynamoDB", ours.requests, "requests", budget)
    yield row(f"{subject}: baseline, requests", baseline.requests, "requests")
    yield row(f"{subject}: baseline, time without registration", baseline.seconds - registers_in, "s")
    yield row(f"{subject}: baseline/Bullpen, requests", baseline.requests / ours.requests, "x", "≥ 2")
    slower = (baseline.seconds - registers_in) / (ours.seconds - registers_in)
    yield row(f"{subject}: baseline/Bullpen, time without registration", slower, "x", "≥ 2")


def mute(wants: Sequence[int] = (10, 50)) -> Iterator[Row]:
    """Two fifths of the agents claimed first never answer; the pool has exactly enough others."""
    for want in wants:
        ours, baseline = perform(_mute(want, with_baseline=False)), perform(_mute(want, with_baseline=True))
        subject = f"mute agents, {_mutes(want)} of {want + _mutes(want)}, {want} requested, registration of 5.5 s"
        yield row(subject, ours.seconds, "s", "< 12" if want == 10 else "")
        yield row(f"{subject}: requests", ours.requests, "requests")
        yield row(f"{subject}: baseline", baseline.seconds, "s")
        yield row(f"{subject}: baseline/Bullpen", baseline.seconds / ours.seconds, "x", "≥ 2" if want == 10 else "")


def behind(others: Sequence[int] = (50, 200, 400)) -> Iterator[Row]:
    """Ten tickets that fit, behind tickets that fit only other runs."""
    for count in others:
        ours, baseline = perform(_behind(count, with_baseline=False)), perform(_behind(count, with_baseline=True))
        subject, of_budget = f"10 tickets behind {count} that do not fit", count == 200
        yield row(f"{subject}: requests", ours.requests, "requests", "≤ 60" if of_budget else "")
        yield row(f"{subject}: time", ours.seconds, "s")
        yield row(f"{subject}: baseline", baseline.requests, "requests")
        ratio = baseline.requests / ours.requests
        yield row(f"{subject}: baseline/Bullpen", ratio, "x", "≥ 2" if of_budget else "")


def surplus(wants: Sequence[int] = (10, 50)) -> Iterator[Row]:
    """The cost of hedging if no agent is mute and the pool has twice as many as requested."""
    for want in wants:
        cost = perform(_ours(want, REGISTERS_IN, pool=2 * want))
        subject, of_budget = f"half of a pool of {2 * want}, registration of 5.5 s", want == BUDGETED
        yield row(f"{subject}: requests", cost.requests, "requests", "≤ 135" if of_budget else "")
        beyond = cost.seconds - REGISTERS_IN
        yield row(f"{subject}: time without registration", beyond, "s", "< 0.6" if of_budget else "")


async def _ours(size: int, registers_in: float, *, pool: int | None = None, batched: bool = False) -> Cost:
    stage = Stage.of(registers_in)
    await stage.fill(pool or size)
    return await stage.cost(lambda ports, _: _served_warm(stage, ports, size), batched=batched)


async def _baseline(size: int, registers_in: float) -> Cost:
    stage = Stage.of(registers_in)
    await stage.fill(size)
    return await stage.cost(lambda ports, faults: _served_by_baseline(stage, ports, faults, size))


async def _mute(want: int, *, with_baseline: bool) -> Cost:
    stage = Stage.of(REGISTERS_IN)
    pool = await stage.fill(want + _mutes(want))
    for id in pool[: _mutes(want)]:
        stage.world.agents[id].kill()  # its machine still runs, but no agent answers
    return await stage.cost(
        lambda ports, faults: (
            _served_by_baseline(stage, ports, faults, want) if with_baseline else _served_warm(stage, ports, want)
        )
    )


async def _behind(others: int, *, with_baseline: bool) -> Cost:
    stage = Stage.of()
    fitting = await stage.fill(10)
    await stage.fill(others, trust_domain="others")
    await asyncio.sleep(SETTINGS.timings.put_back)  # the second filling put the ten back: now they come last
    queue = stage.world.memory.queues["small"].ready(asyncio.get_running_loop().time())
    assert len(queue) == others + 10
    assert all(any(id in body for id in fitting) for _, body in list(queue)[-10:])
    return await stage.cost(
        lambda ports, faults: (
            _served_by_baseline(stage, ports, faults, 10) if with_baseline else _served_warm(stage, ports, 10)
        ),
        batched=not with_baseline,
    )


def _mutes(want: int) -> int:
    return want * 2 // 5


async def _served_warm(stage: Stage, ports: Ports, count: int) -> None:
    outcome = await stage.provision(ports, RUN, count)
    assert (outcome.selected, stage.running(RUN)) == (count, count), outcome


async def _served_by_baseline(stage: Stage, ports: Ports, faults: Faults, count: int) -> None:
    baseline = Baseline(ports, faults, SETTINGS, SETTINGS.requirements("small"), RUN)
    await baseline.provision(count)
    assert stage.running(RUN) == count, f"the baseline served {stage.running(RUN)} of {count}"


MEASUREMENTS = (
    Measurement("provision warm", warm),
    Measurement("mute agents", mute),
    Measurement("10 behind others", behind),
    Measurement("half of a pool", surplus),
)
