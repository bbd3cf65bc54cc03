"""Release, in virtual time: requests and seconds, also beside a long history of terminated records."""

from collections.abc import Iterator, Sequence

from bench.records import buried
from bench.stage import Cost, Stage, perform
from bench.table import Measurement, Row, row
from bullpen.engines.memory import Faults
from bullpen.ports import Ports

BUDGETED = 50
RUN = "measured"


def release(sizes: Sequence[int] = (10, 50, 200, 500)) -> Iterator[Row]:
    for size in sizes:
        cost, _ = perform(_release(size, dead=0))
        batched, _ = perform(_release(size, dead=0, batched=True))
        subject, of_budget = f"release {size}, instant deregistration", size == BUDGETED
        if of_budget:
            yield row(f"{subject}: requests", cost.requests, "requests", "≤ 115")
            yield row(
                f"{subject}: requests with the batch sizes of SQS and DynamoDB", batched.requests, "requests", "≤ 115"
            )
        yield row(f"{subject}: requests per instance", cost.requests / size, "requests/instance")
        yield row(f"{subject}: time", cost.seconds, "s", "< 1" if of_budget else "")


def release_beside_history(dead: Sequence[int] = (1000, 8000)) -> Iterator[Row]:
    without, _ = perform(_release(10, dead=0))
    for count in dead:
        cost, found = perform(_release(10, dead=count))
        subject, of_budget = f"release 10 beside {count:,} terminated", count == 8000
        yield row(f"{subject}: found", found, "of 10", "= 10")
        ratio = cost.seconds / without.seconds
        yield row(f"{subject}: time compared with none", ratio, "x", "≤ 2" if of_budget else "")
        yield row(f"{subject}: requests", cost.requests, "requests")


async def _release(size: int, dead: int, *, batched: bool = False) -> tuple[Cost, int]:
    stage = Stage.of()
    ports = stage.world.ports()
    await stage.provision(ports, RUN, size)
    for number in range(dead):
        for change in buried(f"i-dead-{number}", RUN, ports.clock.now()):
            stage.world.memory.tables.land([change])
    offered: list[str] = []

    async def work(ports: Ports, _: Faults) -> None:
        offered.extend((await stage.release(ports, RUN)).offered)

    return await stage.cost(work, batched=batched), len(offered)


MEASUREMENTS = (
    Measurement("release", release),
    Measurement("release beside terminated records", release_beside_history),
)
