"""What machines cost, and whose it was. Money is in USD, as the prices of the settings are."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Owner
from bullpen.schema.base import AnswerBody, Time, time_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from bullpen.history.amounts import Amount
    from bullpen.history.cost import Cost, CostRow, HourCost

ROWS = 1000
"""Rows of one answer: the most expensive ones."""


class AmountAnswer(AnswerBody, frozen=True):
    """Time of machines, and what it cost."""

    seconds: Annotated[float, Meta(description="Seconds of machines.")]
    money: Annotated[float, Meta(description="USD.")]


class OwnersAnswer(AnswerBody, frozen=True):
    """The time and the money of each owner."""

    run: Annotated[AmountAnswer, Meta(description="Claimed by a run or a scale set, or running for it.")]
    idle: Annotated[AmountAnswer, Meta(description="On offer.")]
    boot: Annotated[AmountAnswer, Meta(description="From the launch until the machine went on offer or ran.")]
    cleaning: Annotated[AmountAnswer, Meta(description="Given back and not on offer yet, or about to end.")]


class OwnerSeconds(AnswerBody, frozen=True):
    """Seconds by owner."""

    run: Annotated[float, Meta(description="Seconds for runs.")]
    idle: Annotated[float, Meta(description="Seconds on offer.")]
    boot: Annotated[float, Meta(description="Seconds of booting.")]
    cleaning: Annotated[float, Meta(description="Seconds of cleaning and ending.")]


class CostRowAnswer(AnswerBody, frozen=True):
    """The cost of one repository, class or run."""

    name: Annotated[str, Meta(description="Repository, class or run; `(no run)` or `(no repository)` for the rest.")]
    seconds: Annotated[OwnerSeconds, Meta(description="Seconds by owner.")]
    total_seconds: Annotated[float, Meta(description="Sum of them.")]
    money: Annotated[float, Meta(description="USD.")]


class MachineCostAnswer(AnswerBody, frozen=True):
    """All machines of one type and purchase option."""

    instance_type: Annotated[str, Meta(description="Instance type.")]
    usage_class: Annotated[UsageClass, Meta(description="Purchase option.")]
    price: Annotated[float | None, Meta(description="USD per hour; null if no price is known.")]
    seconds: Annotated[float, Meta(description="Seconds of machines.")]
    money: Annotated[float, Meta(description="USD; 0 without a price.")]


class CostAnswer(AnswerBody, frozen=True):
    """The cost of a range of whole hours. Owners, rows and machines each add up to `total`."""

    since: Annotated[Time, Meta(description="Beginning of the first hour.")]
    until: Annotated[Time, Meta(description="End of the last hour, or now.")]
    data_since: Annotated[Time | None, Meta(description="First hour of the range with any machine; null if none has.")]
    by: Annotated[str, Meta(description="What the rows are: repository, class or run.")]
    total: Annotated[AmountAnswer, Meta(description="Everything.")]
    owners: Annotated[OwnersAnswer, Meta(description="Whose it was.")]
    rows: Annotated[list[CostRowAnswer], Meta(description=f"The {ROWS} most expensive rows, the most expensive first.")]
    more_rows: Annotated[int, Meta(description="Rows that are not listed.")]
    machines: Annotated[AmountAnswer, Meta(description="Seconds of all machines times their prices.")]
    types: Annotated[list[MachineCostAnswer], Meta(description="The machines by type, with their prices.")]
    missing_prices: Annotated[list[str], Meta(description="Types without a price, which count as free.")]
    reused: Annotated[int, Meta(description="Runners that were reused instead of launched.")]
    avoided_seconds: Annotated[float | None, Meta(description="Boot time that they did not need; null if not known.")]
    saved_seconds: Annotated[float | None, Meta(description="That less what was idle; null if not known.")]
    saved_money: Annotated[float | None, Meta(description="The same in USD; null if not known.")]


class HourCostAnswer(AnswerBody, frozen=True):
    """One owner in one hour."""

    hour: Annotated[Time, Meta(description="Beginning of the hour.")]
    owner: Annotated[Owner, Meta(description="Whose the time was.")]
    seconds: Annotated[float, Meta(description="Seconds of machines.")]
    money: Annotated[float, Meta(description="USD.")]


class HourCostList(AnswerBody, frozen=True):
    """The cost of a range by hour and owner, the oldest hour first. Hours without machines have no entry."""

    since: Annotated[Time, Meta(description="Beginning of the first hour.")]
    until: Annotated[Time, Meta(description="End of the last hour, or now.")]
    hours: Annotated[list[HourCostAnswer], Meta(description="What each owner had in each hour.")]


def cost_answer_of(found: "Cost") -> CostAnswer:
    owners = OwnersAnswer(**{owner.value: _amount(found.owners[owner]) for owner in Owner})
    types = [
        MachineCostAnswer(
            one.instance_type,
            one.usage_class,
            None if one.price is None else float(one.price),
            one.total.seconds,
            float(one.total.usd),
        )
        for one in found.machines
    ]
    machines = sum((one.total for one in found.machines), type(found.total)())
    saving = found.saving
    return CostAnswer(
        since=time_of(found.since) or "",
        until=time_of(found.until) or "",
        data_since=time_of(found.data_since),
        by=found.by.value,
        total=_amount(found.total),
        owners=owners,
        rows=[_row(one) for one in found.rows],
        more_rows=found.more_rows,
        machines=_amount(machines),
        types=types,
        missing_prices=found.missing_prices,
        reused=saving.reused if saving else 0,
        avoided_seconds=saving.avoided.seconds if saving else None,
        saved_seconds=saving.seconds if saving else None,
        saved_money=float(saving.usd) if saving else None,
    )


def hour_costs_of(found: "Sequence[HourCost]", since: "datetime", until: "datetime") -> HourCostList:
    hours = [
        HourCostAnswer(time_of(one.hour) or "", one.owner, one.total.seconds, float(one.total.usd)) for one in found
    ]
    return HourCostList(time_of(since) or "", time_of(until) or "", hours)


def _row(row: "CostRow") -> CostRowAnswer:
    zero = type(row.total)()
    seconds = OwnerSeconds(**{owner.value: row.owners.get(owner, zero).seconds for owner in Owner})
    return CostRowAnswer(row.name, seconds, row.total.seconds, float(row.total.usd))


def _amount(amount: "Amount") -> AmountAnswer:
    return AmountAnswer(amount.seconds, float(amount.usd))
