"""A day of a pool in virtual time, with processes killed all day: the books have each second of each machine once.

A machine's time begins when its record is registered and ends when its end is confirmed. The yard, which stands in for
the compute engine, knows when each machine was really launched and really gone; the two differ by the way of an answer.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import pytest

from bullpen.config import HistorySettings, ResourceClass, Settings
from bullpen.down import down
from bullpen.engines.memory import Rates
from bullpen.errors import BullpenError
from bullpen.history import spans
from bullpen.history.amounts import Amount
from bullpen.history.bookkeeper import LANDING, Bookkeeper, book_ended
from bullpen.history.cost import Cost, CostKey, cost
from bullpen.model.usage import Owner
from bullpen.ports import Ports
from bullpen.refresh import refresh
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from histories import SETTINGS, provisions, releases
from history.machine_time import TimeWitness, booked

DAY = Settings(
    # Fewer beats than usual: nothing here is about leases, and a day of them is most of the work.
    timings=SETTINGS.timings.__class__(
        **{name: getattr(SETTINGS.timings, name) for name in SETTINGS.timings.__struct_fields__}
        | {"heartbeat": 60.0, "lease": 300.0, "alive": 180.0, "idle": 1800.0}
    ),
    classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=1)},
    history=HistorySettings(prices={"sim.small": 0.0816}),
)
HOURS = 24
RATES = Rates(latency=(0.001, 0.05), lost_answer=0.002, lost_request=0.002, short_fleet=0.02, slow_end=0.1)


@dataclass(frozen=True)
class DayReport:
    """What a day came to, in microseconds."""

    booked: int
    recorded: int  # from the record of each machine to its confirmed end
    alive: int  # what the yard says, of the same machines
    before: int  # from the launches to the records
    after: int  # from the ends to their confirmations
    machines: int
    without_record: int
    killed: int
    wrong: tuple[str, ...]
    answer: Cost


def a_day(seed: int, hours: int = HOURS) -> DayReport:
    async def main() -> DayReport:
        world = World(settings=DAY, seed=seed, rates=RATES)
        witness = TimeWitness(world)
        random, end = Random(seed), asyncio.get_running_loop().time() + hours * 3600
        killed = [0]

        async def dies_sometimes(name: str, main: object, share: float) -> None:
            process, _ = world.start(name, main)  # type: ignore[arg-type]
            if random.random() < share:
                process.die_at = random.randrange(1, 400)
            await process.ended()
            killed[0] += process.dead

        async def a_run(n: int) -> None:
            count = random.randrange(1, 5)

            async def asks(ports: Ports) -> None:
                with contextlib.suppress(BullpenError):
                    await provisions(world, ports, f"run-{n}", count)

            async def gives_back(ports: Ports) -> None:
                with contextlib.suppress(BullpenError):
                    await releases(world, ports, f"run-{n}")

            await dies_sometimes(f"provision {n}", asks, 0.2)
            await asyncio.sleep(random.uniform(60, 3000))
            await dies_sometimes(f"release {n}", gives_back, 0.2)

        async def arrivals() -> None:
            runs, n = [], 0
            while asyncio.get_running_loop().time() < end:
                runs.append(asyncio.ensure_future(a_run(n)))
                n += 1
                await asyncio.sleep(random.expovariate(1 / 900))
            await asyncio.gather(*runs)

        async def again(name: str, every: float, share: float, work: object) -> None:
            while asyncio.get_running_loop().time() < end:
                await dies_sometimes(name, work, share)
                await asyncio.sleep(random.uniform(0.5, 1.5) * every)

        async def cron(ports: Ports) -> None:
            with contextlib.suppress(BullpenError):
                await refresh(ports, world.settings)

        async def keeps(ports: Ports) -> None:
            keeper = Bookkeeper(ports, world.settings)
            for _ in range(random.randrange(1, 40)):
                with contextlib.suppress(BullpenError):
                    await keeper.run_once()
                await asyncio.sleep(30.0)

        await asyncio.gather(
            arrivals(),
            again("refresh", 300.0, 0.1, cron),
            again("first bookkeeper", 60.0, 0.5, keeps),
            again("second bookkeeper", 60.0, 0.5, keeps),
        )
        await asyncio.sleep(2 * LANDING.total_seconds())  # every step that was on its way has landed
        calm = world.ports(rates=Rates())
        now = world.clock.now()
        answer = await cost(calm, world.settings, now - timedelta(hours=hours + 2), now, CostKey.RUN)
        wrong = [] if answer.total.micros == witness.total(now - LANDING) else ["the answer at work differs"]
        for _ in range(5):
            await down(calm, world.settings)
            await asyncio.sleep(60.0)
        await book_ended(calm)
        truth, found = witness.owned(world.clock.now()), booked(world.memory.ledger.usage)
        wrong += [
            f"{key}: {found[key]} booked, {truth[key]} spent" for key in truth | found if found[key] != truth[key]
        ]
        before, after = witness.around()
        return DayReport(
            booked=sum(found.values()),
            recorded=witness.total(world.clock.now()),
            alive=witness.alive(),
            before=before,
            after=after,
            machines=len(witness.machines),
            without_record=len(witness.launched.keys() - witness.machines.keys()),
            killed=killed[0],
            wrong=tuple(wrong),
            answer=answer,
        )

    return virtual_run(main(), seed=seed, allow_left_behind=True, timeout=10 * 86400.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_day_adds_up_to_the_machines_seconds(seed: int) -> None:
    day = a_day(seed)
    assert day.wrong == ()
    assert day.booked == day.recorded
    # The same time as the yard saw, but for the ways of the answers at both ends of each machine.
    assert day.booked == day.alive - day.before + day.after
    assert 0 <= day.before < day.machines * 1e6
    assert day.machines > 20
    assert day.killed > 10
    found = day.answer
    owners: Counter[Owner] = Counter({owner: amount.micros for owner, amount in found.owners.items()})
    assert all(owners[owner] > 0 for owner in Owner)
    assert sum((one.total for one in found.rows), Amount()) == found.total
    (machines,) = found.machines
    assert machines.price is not None
    assert found.total.usd == found.total.micros * machines.price / 3_600_000_000


def test_a_morning_in_which_the_time_of_cleaning_is_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: an owner that is on no bill."""
    rows = spans.rows
    monkeypatch.setattr(
        spans, "rows", lambda span, record: () if span.began.owner is Owner.CLEANING else rows(span, record)
    )
    assert a_day(1, hours=2).wrong != ()
