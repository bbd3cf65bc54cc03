"""Cost: whose the time of machines was in a range, what it cost, and what reuse saved.

Sums are exact: time is whole microseconds, money a decimal number of them times the price of an hour. Each row of time
is counted once in the owners, once in the rows and once in the machines, so the three sums are equal.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from heapq import nsmallest
from typing import TypeVar

from bullpen.config import Settings
from bullpen.history.amounts import Amount
from bullpen.history.bookkeeper import settled
from bullpen.history.open_time import usage_between
from bullpen.history.prices import price_of
from bullpen.history.reuse import ReuseSums, Saving, reuse_between
from bullpen.lazy_dataclass import dataclass
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Owner, UsageRow
from bullpen.ports import Ports

HOUR = timedelta(hours=1)
Kind = tuple[str, UsageClass]  # of machine: what has one price
Cell = tuple[Owner, str, Kind]
T = TypeVar("T")
NO_RUN, NO_REPOSITORY = "(no run)", "(no repository)"
"""Names of what belongs to no run, and of runs of which no repository is known. No run and no repository is so named:
they have no spaces."""


class CostKey(StrEnum):
    """What the rows are about."""

    REPOSITORY = "repository"
    CLASS = "class"
    RUN = "run"


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
    reuse = await reuse_between(ports, since, until)
    return account(settings, used, reuse, since, min(until, ports.clock.now()), most)


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
    """Microseconds by name and cell. A cell is what few have: an owner, a class and a kind of machine. Its number is
    quicker to look up, where there are a hundred thousand names."""

    def __init__(self, by: CostKey) -> None:
        self.by = by
        self.cells: dict[Cell, int] = {}
        self.micros: dict[tuple[str, int], int] = {}
        self.first_hour: datetime | None = None

    def add(self, rows: Iterable[UsageRow]) -> None:
        name_of, micros, cells = NAMES[self.by], self.micros, self.cells
        for row in rows:
            cell = (row.owner, row.resource_class, (row.instance_type, row.usage_class))
            key = name_of(row), cells.setdefault(cell, len(cells))
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
    settings: Settings, used: CostSums, reuse: ReuseSums, since: datetime, until: datetime, most: int = 0
) -> Cost:
    rows: dict[str, list[tuple[int, int]]] = {}
    totals = [0] * len(used.cells)
    for (name, cell), micros in used.micros.items():
        totals[cell] += micros
        rows.setdefault(name, []).append((cell, micros))
    of = list(used.cells)  # by the number of the cell
    prices = {kind: price_of(settings, *kind) for kind in sorted({kind for *_, kind in of})}
    rates = [prices[kind] or Decimal(0) for *_, kind in of]
    parts = list(enumerate(totals))
    owner_of = [owner for owner, *_ in of]
    owners = dict.fromkeys(Owner, Amount()) | _priced(parts, rates, owner_of)
    machines = _priced(parts, rates, [kind for *_, kind in of])
    return Cost(
        since,
        until,
        used.first_hour,
        used.by,
        sum(owners.values(), Amount()),
        owners,
        tuple(_row(name, rows[name], rates, owner_of) for name in _dearest(rows, rates, most)),
        tuple(MachineCost(*kind, price, machines[kind]) for kind, price in prices.items()),
        reuse.saving(_priced(parts, rates, [resource_class for _, resource_class, _ in of]), owners[Owner.IDLE]),
        max(len(rows) - most, 0) if most else 0,
    )


def _dearest(rows: Mapping[str, Sequence[tuple[int, int]]], rates: Sequence[Decimal], most: int) -> list[str]:
    """The most expensive first, `most` of them; 0: all. Floats compare faster, and are near enough."""
    near = [float(rate) for rate in rates]
    ranks = (
        (-sum([near[cell] * micros for cell, micros in parts]), -sum([micros for _, micros in parts]), name)
        for name, parts in rows.items()
    )
    return [name for *_, name in (nsmallest(most, ranks) if most else sorted(ranks))]


def _row(name: str, parts: Sequence[tuple[int, int]], rates: Sequence[Decimal], owner_of: Sequence[Owner]) -> CostRow:
    owners = _priced(parts, rates, owner_of)
    return CostRow(name, owners, sum(owners.values(), Amount()))


def _priced(parts: Iterable[tuple[int, int]], rates: Sequence[Decimal], keys: Sequence[T]) -> dict[T, Amount]:
    """What cells cost, added up by the key of each."""
    found: dict[T, Amount] = {}
    for cell, micros in parts:
        found[keys[cell]] = found.get(keys[cell], Amount()) + Amount.at(rates[cell], micros)
    return found


def amount_of(settings: Settings, micros: int, instance_type: str, usage_class: UsageClass) -> Amount:
    return Amount.at(price_of(settings, instance_type, usage_class) or Decimal(0), micros)


def _repository(row: UsageRow) -> str:
    return row.repository or (NO_REPOSITORY if row.run_id else NO_RUN)


NAMES: Mapping[CostKey, Callable[[UsageRow], str]] = {
    CostKey.REPOSITORY: _repository,
    CostKey.CLASS: lambda row: row.resource_class,
    CostKey.RUN: lambda row: row.run_id or NO_RUN,
}
