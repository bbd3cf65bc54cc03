"""Cost: whose the time of machines was in a range, what it cost, and what reuse saved.

Sums are exact: time is whole microseconds, money a decimal number of them times the price of an hour. Each row of time
is counted once in the owners, once in the rows and once in the machines, so the three sums are equal.

What reuse saved is defined as: the boot time that selected runners did not need, each the mean boot time of its class,
less the time for which machines were idle; in money, both at the average price of the class.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bullpen.config import Settings
from bullpen.history.bookkeeper import settled
from bullpen.history.latencies import boot_times, reports_between, warmed_boots
from bullpen.history.open_time import usage_between
from bullpen.history.prices import price_of
from bullpen.lazy_dataclass import dataclass
from bullpen.model.report import ProvisionReport
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Owner, UsageRow
from bullpen.ports import Ports

HOUR = timedelta(hours=1)
MICROS_AN_HOUR = 3_600_000_000
NO_RUN, NO_REPOSITORY = "(no run)", "(no repository)"
"""Names of what belongs to no run, and of runs of which no repository is known. No run and no repository is so named:
they have no spaces."""


class CostKey(StrEnum):
    """What the rows are about."""

    REPOSITORY = "repository"
    CLASS = "class"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Amount:
    """Time, and what it cost. Money is in microseconds times USD per hour: `usd` divides, once, at the end."""

    micros: int = 0
    priced: Decimal = Decimal(0)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.micros + other.micros, self.priced + other.priced)

    @property
    def seconds(self) -> float:
        return self.micros / 1e6

    @property
    def usd(self) -> Decimal:
        return self.priced / MICROS_AN_HOUR


@dataclass(frozen=True, slots=True)
class CostRow:
    """The time and the money of one repository, class or run."""

    name: str
    owners: Mapping[Owner, Amount]
    total: Amount


@dataclass(frozen=True, slots=True)
class MachineCost:
    """All machines of a type. `price` is None if none is known: then they count as free."""

    instance_type: str
    usage_class: UsageClass
    price: Decimal | None
    total: Amount


@dataclass(frozen=True, slots=True)
class HourCost:
    """One owner in one hour."""

    hour: datetime
    owner: Owner
    total: Amount


@dataclass(frozen=True, slots=True)
class Saving:
    """What reuse saved. `reused` runners were selected instead of created; `avoided` is the boot time that they did not
    need. The saving is that less what was idle, and may be negative."""

    reused: int
    avoided: Amount
    idle: Amount

    @property
    def seconds(self) -> float:
        return (self.avoided.micros - self.idle.micros) / 1e6

    @property
    def usd(self) -> Decimal:
        return (self.avoided.priced - self.idle.priced) / MICROS_AN_HOUR


@dataclass(frozen=True, slots=True)
class Cost:
    """`since` and `until` are whole hours, or the present; `data_since` is the first hour with any time, None if there
    is none. `saving` is None if it is not known how long a machine boots."""

    since: datetime
    until: datetime
    data_since: datetime | None
    by: CostKey
    total: Amount
    owners: Mapping[Owner, Amount]
    rows: tuple[CostRow, ...]
    machines: tuple[MachineCost, ...]
    saving: Saving | None
    more_rows: int = 0  # that are not among `rows`

    @property
    def missing_prices(self) -> list[str]:
        return sorted({named(one.instance_type, one.usage_class) for one in self.machines if one.price is None})


def named(instance_type: str, usage_class: UsageClass) -> str:
    """A type as the prices name it."""
    return f"{instance_type}:spot" if usage_class is UsageClass.SPOT else instance_type


async def cost(ports: Ports, settings: Settings, since: datetime, until: datetime, by: CostKey, most: int = 0) -> Cost:
    """Of the hours that the range touches, as far as they have passed. The most expensive rows come first, `most` of
    them at most; 0: all."""
    now = settled(ports)
    since, until = whole_hours(since, until)
    used = await usage_between(ports, since, until, now, lambda: CostSums(by))
    reports = await reports_between(ports, since, until)
    booted = boot_times(reports)
    if any(one.selected and one.resource_class not in booted for one in reports):
        booted = await warmed_boots(ports) | booted
    return account(settings, used, reports, booted, since, min(until, ports.clock.now()), most)


async def cost_hours(ports: Ports, settings: Settings, since: datetime, until: datetime) -> list[HourCost]:
    """The same by hour and owner, the oldest hour first."""
    since, until = whole_hours(since, until)
    used = await usage_between(ports, since, until, settled(ports), HourSums)
    sums: defaultdict[tuple[datetime, Owner], Amount] = defaultdict(Amount)
    for (hour, owner, instance_type, usage_class), micros in used.micros.items():
        sums[hour, owner] += amount_of(settings, micros, instance_type, usage_class)
    order = list(Owner)
    return [HourCost(*key, sums[key]) for key in sorted(sums, key=lambda key: (key[0], order.index(key[1])))]


class CostSums:
    """Microseconds by name, owner, class and kind of machine."""

    def __init__(self, by: CostKey) -> None:
        self.by = by
        self.micros: dict[tuple[str, Owner, str, str, UsageClass], int] = {}
        self.first_hour: datetime | None = None

    def add(self, rows: Iterable[UsageRow]) -> None:
        name_of, micros = NAMES[self.by], self.micros
        for row in rows:
            key = (name_of(row), row.owner, row.resource_class, row.instance_type, row.usage_class)
            micros[key] = micros.get(key, 0) + row.microseconds
            if self.first_hour is None or row.hour < self.first_hour:
                self.first_hour = row.hour


class HourSums:
    """Microseconds by hour, owner and kind of machine."""

    def __init__(self) -> None:
        self.micros: dict[tuple[datetime, Owner, str, UsageClass], int] = {}

    def add(self, rows: Iterable[UsageRow]) -> None:
        for row in rows:
            key = (row.hour, row.owner, row.instance_type, row.usage_class)
            self.micros[key] = self.micros.get(key, 0) + row.microseconds


def whole_hours(since: datetime, until: datetime) -> tuple[datetime, datetime]:
    """The hours that a range touches."""
    first = since.replace(minute=0, second=0, microsecond=0)
    last = until.replace(minute=0, second=0, microsecond=0)
    return first, last if last == until else last + HOUR


def account(
    settings: Settings,
    used: CostSums,
    reports: Iterable[ProvisionReport],
    booted: Mapping[str, Sequence[float]],
    since: datetime,
    until: datetime,
    most: int = 0,
) -> Cost:
    owners: dict[Owner, Amount] = {owner: Amount() for owner in Owner}
    machines: defaultdict[tuple[str, UsageClass], int] = defaultdict(int)
    classes: defaultdict[str, Amount] = defaultdict(Amount)
    rows: dict[str, list[tuple[Owner, int, Decimal]]] = {}
    rates: dict[tuple[str, UsageClass], Decimal] = {}
    for (name, owner, resource_class, instance_type, usage_class), micros in used.micros.items():
        key = (instance_type, usage_class)
        if key not in rates:
            rates[key] = price_of(settings, *key) or Decimal(0)
        priced = micros * rates[key]
        owners[owner] += Amount(micros, priced)
        machines[key] += micros
        classes[resource_class] += Amount(micros, priced)
        rows.setdefault(name, []).append((owner, micros, priced))
    listed = sorted(rows, key=lambda name: _rank(name, rows[name]))
    kinds = [(key, price_of(settings, *key), machines[key]) for key in sorted(machines)]
    return Cost(
        since,
        until,
        used.first_hour,
        used.by,
        sum(owners.values(), Amount()),
        owners,
        tuple(_row(name, rows[name]) for name in (listed[:most] if most else listed)),
        tuple(MachineCost(*key, price, Amount(micros, micros * (price or Decimal(0)))) for key, price, micros in kinds),
        _saving(reports, booted, classes, owners[Owner.IDLE]),
        max(len(listed) - most, 0) if most else 0,
    )


def _rank(name: str, parts: Iterable[tuple[Owner, int, Decimal]]) -> tuple[float, int, str]:
    """The most expensive first. There may be a hundred thousand: floats compare faster, and are near enough."""
    return -sum(float(priced) for *_, priced in parts), -sum(micros for _, micros, _ in parts), name


def _row(name: str, parts: Iterable[tuple[Owner, int, Decimal]]) -> CostRow:
    owners: dict[Owner, Amount] = {}
    for owner, micros, priced in parts:
        owners[owner] = owners.get(owner, Amount()) + Amount(micros, priced)
    return CostRow(name, owners, sum(owners.values(), Amount()))


def amount_of(settings: Settings, micros: int, instance_type: str, usage_class: UsageClass) -> Amount:
    return Amount(micros, micros * (price_of(settings, instance_type, usage_class) or Decimal(0)))


def _repository(row: UsageRow) -> str:
    return row.repository or (NO_REPOSITORY if row.run_id else NO_RUN)


NAMES: Mapping[CostKey, Callable[[UsageRow], str]] = {
    CostKey.REPOSITORY: _repository,
    CostKey.CLASS: lambda row: row.resource_class,
    CostKey.RUN: lambda row: row.run_id or NO_RUN,
}


def _saving(
    reports: Iterable[ProvisionReport],
    booted: Mapping[str, Sequence[float]],
    classes: Mapping[str, Amount],
    idle: Amount,
) -> Saving | None:
    every = [seconds for of in booted.values() for seconds in of]
    if not every:
        return None
    avoided, reused = Amount(), 0
    for report in reports:
        known = booted.get(report.resource_class, every)
        micros = round(report.selected * sum(known) / len(known) * 1e6)
        spent = classes.get(report.resource_class, Amount())
        average = spent.priced / spent.micros if spent.micros else Decimal(0)
        avoided += Amount(micros, micros * average)
        reused += report.selected
    return Saving(reused, avoided, idle)
