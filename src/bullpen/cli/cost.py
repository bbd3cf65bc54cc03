"""`bullpen cost`: what the machines of the pool cost, whose it was, and what reuse saved."""

import csv
import io
import sys

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, legible, print_json, say
from bullpen.cli.text import cut, duration, plural, table
from bullpen.errors import ConfigError
from bullpen.schema.cost import CostAnswer, CostRowAnswer, OwnerSeconds

EPILOG = """
\b
Examples:
  bullpen cost                                    the last 7 days, by repository
  bullpen cost --since 24h --by run
  bullpen cost --since 2026-11-01 --until 2026-12-01 --by class
  bullpen cost --since 30d --csv > cost.csv
  bullpen cost --json | jq '.total, .missingPrices'

A range is counted in whole hours. Prices are USD per hour: those of history.prices, and defaults
for common types of EC2, which you should compare with your bill.
"""
BY = ("repository", "class", "run")
SHOWN = 40  # rows of a table: the most expensive ones; --csv and --json have all
COLUMNS = ("name", "run_seconds", "idle_seconds", "boot_seconds", "cleaning_seconds", "seconds", "usd")
NAME_WIDTH = 60
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@click.command("cost", epilog=EPILOG)
@click.option(
    "--since", default="7d", show_default=True, metavar="WHEN", help="Beginning: 7d, 24h, 90m, or a UTC time."
)
@click.option("--until", default="", metavar="WHEN", help="End, written in the same way. [now]")
@click.option(
    "--by", type=click.Choice(BY), default="repository", show_default=True, help="What the rows of the answer are."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print the rows as CSV, with seconds by owner and USD.")
@answering_options
def command(given: PoolOptions, since: str, until: str, by: str, as_csv: bool) -> int:
    """Show what the machines cost: every second belongs to a run, or was idle, boot or cleaning.

    Changes nothing.
    """
    if as_csv and given.as_json:
        raise ConfigError("--csv and --json: name only one of them", field="--csv")
    found = given.target().query(lambda pool: pool.cost(since, until, by))
    if given.as_json:
        print_json(found)
    elif as_csv:
        say(_csv(found).rstrip("\n"))
    else:
        say(legible(cost_text(found, answer_width()), sys.stdout))
    return 0


def _csv(found: CostAnswer) -> str:
    """All rows, which add up to the total: what a server did not list is the last one."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(COLUMNS)
    for row in [*found.rows, *_others(found)]:
        rows.writerow((_cell(row.name), *(f"{one:.6f}" for one in (*_seconds(row), row.total_seconds, row.money))))
    return written.getvalue()


def _cell(name: str) -> str:
    """A spreadsheet takes a text that begins so for a formula, and a workflow chooses the id of its run."""
    return f"'{name}" if name.startswith(FORMULAS) else name


def _others(found: CostAnswer) -> list[CostRowAnswer]:
    if not found.more_rows:
        return []
    owners, rows = found.owners, found.rows
    totals = (owners.run, owners.idle, owners.boot, owners.cleaning)
    seconds = [
        max(of.seconds - sum(listed), 0.0)
        for of, listed in zip(totals, zip(*map(_seconds, rows), strict=True), strict=True)
    ]
    money = max(found.total.money - sum(row.money for row in rows), 0.0)
    return [CostRowAnswer(f"({found.more_rows} others)", OwnerSeconds(*seconds), sum(seconds), money)]


def _seconds(row: CostRowAnswer) -> tuple[float, ...]:
    return row.seconds.run, row.seconds.idle, row.seconds.boot, row.seconds.cleaning


def cost_text(found: CostAnswer, width: int) -> str:
    """For people. A range without data says since when there is some, or how there will be."""
    head = f"cost from {found.since} to {found.until}, by {found.by}"
    if not found.rows:
        return f"{head}\nno machine ran in this range; the pool keeps history.keep days, and books while it is used"
    parts = [head]
    if found.data_since and found.data_since > found.since:
        parts.append(f"nothing is known before {found.data_since}")
    titles = (found.by.upper(), "RUNNING", "IDLE", "BOOT", "CLEANING", "TOTAL", "USD")
    rows = [_row(one) for one in found.rows[:SHOWN]]
    parts += ["", table(titles, [*rows, _total(found)], width)]
    if hidden := len(found.rows) - len(rows) + found.more_rows:
        where = (
            f"a server lists the {len(found.rows)} most expensive" if found.more_rows else "--csv and --json list them"
        )
        parts.append(f"and {hidden} more, which count in the total; {where}")
    parts += ["", *_machines(found), _saved(found)]
    if found.missing_prices:
        shown = ", ".join(found.missing_prices[:8])
        parts.append(
            f"no price is known for {shown}, which count as free; set"
            f' history.prices, such as "{found.missing_prices[0]}" = 0.1'
        )
    return "\n".join(parts)


def _row(row: CostRowAnswer) -> tuple[str, ...]:
    return cut(row.name, NAME_WIDTH), *map(duration, (*_seconds(row), row.total_seconds)), usd(row.money)


def _total(found: CostAnswer) -> tuple[str, ...]:
    owners = found.owners
    times = (owners.run, owners.idle, owners.boot, owners.cleaning, found.total)
    return "total", *(duration(one.seconds) for one in times), usd(found.total.money)


def _machines(found: CostAnswer) -> list[str]:
    """Machines times price: the same sum."""
    return [
        f"{one.instance_type} ({one.usage_class}): {duration(one.seconds)}"
        + (f" at ${one.price:g} an hour, {usd(one.money)} USD" if one.price is not None else ", no price")
        for one in found.types
    ]


def _saved(found: CostAnswer) -> str:
    if found.avoided_seconds is None or found.saved_seconds is None or found.saved_money is None:
        return "reuse: what it saved is not known, because no boot of a machine is known"
    if not found.reused:
        return f"reuse: no runner was reused; machines were idle for {duration(found.owners.idle.seconds)}"
    verb = "saved" if found.saved_seconds >= 0 else "cost"
    return (
        f"reuse: {plural(found.reused, 'runner')} without a boot, {duration(found.avoided_seconds)} avoided, less"
        f" {duration(found.owners.idle.seconds)} idle: {verb} {duration(abs(found.saved_seconds))},"
        f" {usd(abs(found.saved_money))} USD"
    )


def usd(money: float) -> str:
    """Cents where there are some, and four digits where there are few."""
    return f"{money:.2f}" if money >= 1 else f"{money:.4f}"
