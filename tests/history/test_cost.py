"""What machines cost, whose it was, and what reuse saved."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, later
from bullpen.config import HistorySettings, ResourceClass, Settings
from bullpen.down import down
from bullpen.engines.memory import Rates
from bullpen.history import open_time
from bullpen.history.amounts import Amount
from bullpen.history.bookkeeper import Bookkeeper, book_ended
from bullpen.history.cost import Cost, CostKey, CostSums, HourSums, account, cost, cost_hours, whole_hours
from bullpen.history.open_time import usage_between
from bullpen.history.prices import default_price, price_of
from bullpen.history.reuse import ReuseSums
from bullpen.model.instance import Instance
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Owner, UsageRow
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.refresh import refresh
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from histories import SETTINGS, fills_pool, provisions, releases
from history.machine_time import TimeWitness

HOUR = timedelta(hours=1)
LONG_PRICES = {"odd": 0.12345678901234567, "odder": 9876.543210987654}
PRICED = Settings(
    timings=SETTINGS.timings, history=HistorySettings(prices={"sim.small": 0.1, "big": 3.6, **LONG_PRICES})
)


def a_row(seconds: float, owner: Owner = Owner.RUN, kind: str = "big", **more: object) -> UsageRow:
    found = UsageRow(NOW, owner, "run-1", "acme/web", "small", kind, UsageClass.ON_DEMAND, round(seconds * 1e6))
    return replace(found, **more)  # type: ignore[arg-type]


def a_report(selected: int, *boots: float, resource_class: str = "small") -> ProvisionReport:
    lanes = tuple(Lane(f"i-{n}", Origin.CREATED, launched=1.0, registered=1.0 + boot) for n, boot in enumerate(boots))
    report = ProvisionReport(
        "p-1", "run-1", "", resource_class, UsageClass.ON_DEMAND, "default", NOW, later(5), ReportOutcome.MET
    )
    return replace(report, selected=selected, created=len(boots), lanes=lanes)


def summed(used: list[UsageRow], by: CostKey) -> CostSums:
    sums = CostSums(by)
    sums.add(used)
    return sums


def account_of(used: CostSums, reports: list[ProvisionReport], *rest: Any) -> Cost:
    reuse = ReuseSums()
    reuse.add(reports)
    return account(PRICED, used, reuse, *rest)


# ---- prices


@pytest.mark.parametrize(
    ("kind", "price"),
    [
        ("m7g.large", "0.0816"),
        ("m7g.medium", "0.0408"),
        ("m5.xlarge", "0.192"),
        ("c7i.48xlarge", "8.568"),
        ("t3.nano", "0.0052"),
        ("local.small", "0"),
        ("x9.large", None),
        ("m5.huge", None),
        ("m5", None),
        ("", None),
    ],
)
def test_common_types_have_a_default_price(kind: str, price: str | None) -> None:
    assert default_price(kind) == (None if price is None else Decimal(price))


def test_the_settings_come_first() -> None:
    settings = Settings(history=HistorySettings(prices={"m7g.large": 0.07, "odd": 1, "m5.large:spot": 0.031}))
    on_demand, spot = UsageClass.ON_DEMAND, UsageClass.SPOT
    assert price_of(settings, "m7g.large", on_demand) == Decimal("0.07")
    assert price_of(settings, "m7g.large", spot) == Decimal("0.028")
    assert price_of(settings, "odd", on_demand) == 1
    assert price_of(settings, "m5.large", on_demand) == Decimal("0.096")
    assert price_of(settings, "m5.large", spot) == Decimal("0.031")
    assert price_of(settings, "unknown", spot) is None


# ---- sums


rows = st.builds(
    lambda owner, run, kind, micros: a_row(0, owner, kind, run_id=run, microseconds=micros),
    st.sampled_from(Owner),
    st.sampled_from(["", "run-1", "run-2"]),
    st.sampled_from(["big", "m7g.large", "t3.nano", "unknown", *LONG_PRICES]),
    st.integers(1, 10**18),
)


@given(st.lists(rows, max_size=30), st.sampled_from(CostKey))
def test_owners_rows_and_machines_have_the_same_sum(used: list[UsageRow], by: CostKey) -> None:
    found = account_of(summed(used, by), [], NOW, later(3600))
    sums = [
        sum((one.total for one in found.rows), Amount()),
        sum(found.owners.values(), Amount()),
        sum((one.total for one in found.machines), Amount()),
    ]
    assert sums == [found.total] * 3
    assert found.total.micros == sum(row.microseconds for row in used)
    for one in found.machines:
        assert Fraction(one.total.priced) == one.total.micros * Fraction(one.price or 0)


def test_a_type_without_a_price_is_named_and_counts_as_free() -> None:
    used = [a_row(10), a_row(5, kind="x9"), a_row(5, kind="x9", usage_class=UsageClass.SPOT)]
    found = account_of(summed(used, CostKey.CLASS), [], NOW, later(3600))
    assert found.missing_prices == ["x9", "x9:spot"]
    assert (found.total.seconds, found.total.usd) == (20, Decimal("0.01"))


def test_the_most_expensive_rows_come_first() -> None:
    used = [a_row(9, run_id="cheap", kind="x9"), a_row(1, run_id="dear"), a_row(2, run_id="dearest")]
    used += [a_row(3, Owner.IDLE, run_id="", repository="")]
    found = account_of(summed(used, CostKey.RUN), [], NOW, later(3600))
    assert [one.name for one in found.rows] == ["(no run)", "dearest", "dear", "cheap"]


def test_only_the_most_expensive_rows_may_be_listed_and_the_total_has_all() -> None:
    used = [a_row(n, run_id=f"run-{n}") for n in range(1, 10)]
    found = account_of(summed(used, CostKey.RUN), [], NOW, later(3600), 3)
    assert [one.name for one in found.rows] == ["run-9", "run-8", "run-7"]
    assert (found.more_rows, found.total.seconds) == (6, 45)


def test_rows_by_repository_name_what_has_none() -> None:
    used = [a_row(1), a_row(2, repository=""), a_row(3, Owner.IDLE, run_id="", repository="")]
    found = account_of(summed(used, CostKey.REPOSITORY), [], NOW, later(3600))
    assert {one.name: one.total.seconds for one in found.rows} == {
        "acme/web": 1,
        "(no repository)": 2,
        "(no run)": 3,
    }


def test_a_range_without_data_is_no_error() -> None:
    found = account_of(summed([], CostKey.CLASS), [], NOW, later(3600))
    assert (found.total, found.rows, found.machines, found.data_since, found.saving) == (Amount(), (), (), None, None)


# ---- what reuse saved


def test_reuse_saves_the_boot_time_of_each_selected_runner_less_what_was_idle() -> None:
    used = [a_row(900, Owner.RUN), a_row(100, Owner.IDLE, run_id="")]
    found = account_of(summed(used, CostKey.CLASS), [a_report(3, 50, 70), a_report(2)], NOW, later(3600))
    assert found.saving is not None
    assert (found.saving.reused, found.saving.avoided.seconds) == (5, 300)
    assert (found.saving.seconds, found.saving.usd) == (200, Decimal("0.2"))


def test_a_pool_that_is_idle_for_long_saves_less_than_nothing() -> None:
    used = [a_row(10_000, Owner.IDLE, run_id="")]
    found = account_of(summed(used, CostKey.CLASS), [a_report(1, 60)], NOW, later(3600))
    assert found.saving is not None
    assert found.saving.seconds == 60 - 10_000
    assert found.saving.usd < 0


def test_a_class_whose_boots_are_unknown_boots_as_the_others() -> None:
    reports = [a_report(1, 60), a_report(2, resource_class="large")]
    found = account_of(summed([a_row(1)], CostKey.CLASS), reports, NOW, later(3600))
    assert found.saving is not None
    assert found.saving.avoided.seconds == 180


def test_every_provision_of_the_range_counts_however_many_there_are() -> None:
    async def main() -> None:
        world = World(settings=PRICED)
        ports = world.ports(rates=Rates())
        now = world.clock.now()
        ledger = world.memory.ledger
        ledger.reports |= {f"p-{n}": replace(a_report(1), id=f"p-{n}", ended_at=now) for n in range(10_050)}
        ledger.reports["first"] = replace(a_report(0, 60.0), id="first", ended_at=now)
        saving = (await cost(ports, world.settings, now - HOUR, now + HOUR, CostKey.RUN)).saving
        assert saving is not None
        assert (saving.reused, saving.avoided.seconds) == (10_050, 603_000)

    virtual_run(main(), allow_left_behind=True)


def test_where_all_machines_are_launched_ahead_their_boots_count() -> None:
    async def main() -> None:
        classes = {"small": ResourceClass(cpu=1, mem=1024, idle_target=2)}
        world = World(settings=msgspec.structs.replace(PRICED, classes=classes))
        ports = world.ports(rates=Rates())
        for _ in range(3):
            await refresh(ports, world.settings)
            await asyncio.sleep(30.0)
        assert (await provisions(world, ports, "run-1", 2)).created == 0
        await asyncio.sleep(10.0)
        now = world.clock.now()
        saving = (await cost(ports, world.settings, now - HOUR, now, CostKey.RUN)).saving
        assert saving is not None
        assert saving.reused == 2
        assert saving.avoided.seconds > 2

    virtual_run(main(), allow_left_behind=True)


# ---- ranges


@pytest.mark.parametrize(("since", "until", "hours"), [(0, 3600, (0, 1)), (1, 3600, (0, 1)), (3599, 3601, (0, 2))])
def test_a_range_is_made_of_whole_hours(since: float, until: float, hours: tuple[int, int]) -> None:
    assert whole_hours(later(since), later(until)) == (NOW + hours[0] * HOUR, NOW + hours[1] * HOUR)


# ---- a pool


async def a_busy_pool(world: World) -> Ports:
    ports = world.ports(rates=Rates())
    await fills_pool(world, 2)
    await asyncio.sleep(1000.0)
    assert (await provisions(world, ports, "run-1", 3, repository="acme/web")).succeeded
    await asyncio.sleep(4000.0)
    return ports


@pytest.mark.parametrize("is_booked", [False, True])
def test_what_is_not_booked_yet_counts_as_well(is_booked: bool) -> None:
    async def main() -> None:
        world = World(settings=PRICED)
        witness = TimeWitness(world)
        ports = await a_busy_pool(world)
        if is_booked:
            await Bookkeeper(ports, world.settings).run_once()
        await releases(world, ports, "run-1")
        await asyncio.sleep(500.0)
        now = world.clock.now()
        found = await cost(ports, world.settings, now - 3 * HOUR, now, CostKey.RUN)
        assert found.total.micros == witness.total(now - timedelta(seconds=5))
        assert found.machines[0].price == Decimal("0.1")
        assert found.total.usd == found.total.micros * Decimal("0.1") / 3_600_000_000
        assert {one.name for one in found.rows} == {"before", "run-1", "(no run)"}
        hours = await cost_hours(ports, world.settings, now - 3 * HOUR, now)
        assert sum((one.total for one in hours), Amount()) == found.total
        assert len({one.hour for one in hours}) == 2

    virtual_run(main(), allow_left_behind=True)


def test_bookings_that_land_meanwhile_change_no_sum() -> None:
    """A bookkeeper is at work while the hours are read."""

    async def main() -> None:
        world = World(settings=PRICED)
        witness = TimeWitness(world)
        ports = await a_busy_pool(world)
        await releases(world, ports, "run-1")
        slow = world.ports(rates=Rates(latency=(0.5, 1.5)))
        keeper = Bookkeeper(world.ports(rates=Rates(latency=(0.1, 2.0))), world.settings)
        before = world.clock.now()
        to = before - timedelta(seconds=5)

        async def keeps() -> None:
            for _ in range(3):
                await keeper.run_once()

        found, _ = await asyncio.gather(usage_between(slow, before - 3 * HOUR, before + HOUR, to, HourSums), keeps())
        # What was booked meanwhile is at least as much: the question sees it whole, or not at all.
        assert sum(found.micros.values()) >= witness.total(to)
        assert sum(found.micros.values()) <= witness.total(world.clock.now())

    virtual_run(main(), allow_left_behind=True)


def test_a_machine_that_ends_and_is_booked_after_the_list_was_read_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(settings=PRICED)
        witness = TimeWitness(world)
        ports = await a_busy_pool(world)
        await releases(world, ports, "run-1")
        now, listed = world.clock.now(), await every_live(ports)
        await down(ports, world.settings)
        await book_ended(ports)
        assert not await ports.history.open_meters(10)

        async def read_before(ports: Ports) -> list[Instance]:
            return listed

        monkeypatch.setattr(open_time, "every_live", read_before)
        found = await cost(ports, world.settings, now - 3 * HOUR, now, CostKey.RUN)
        assert found.total.micros == witness.total(world.clock.now())

    virtual_run(main(), allow_left_behind=True)


def test_a_machine_that_a_lagging_index_names_after_its_last_booking_counts_once() -> None:
    async def main() -> None:
        world = World(settings=PRICED)
        witness = TimeWitness(world)
        ports = await a_busy_pool(world)
        await down(ports, world.settings)
        await book_ended(ports)
        world.memory.tables.unbooked |= dict.fromkeys(world.memory.ledger.meters)
        now = world.clock.now()
        found = await cost(ports, world.settings, now - 3 * HOUR, now, CostKey.RUN)
        assert found.total.micros == witness.total(now)

    virtual_run(main(), allow_left_behind=True)


def test_a_range_before_any_data_says_so() -> None:
    async def main() -> None:
        world = World(settings=PRICED)
        ports = await a_busy_pool(world)
        now = world.clock.now()
        found = await cost(ports, world.settings, now - 9 * HOUR, now - 5 * HOUR, CostKey.CLASS)
        assert found.data_since is None
        assert found.total == Amount()

    virtual_run(main(), allow_left_behind=True)
