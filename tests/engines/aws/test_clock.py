"""The store's clock: what DynamoDB's answers say about ours, and that it costs no request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.engines.aws.clock import DateClock
from bullpen.engines.aws.dynamodb.items import raw_key
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.session import opened
from bullpen.engines.memory import Memory
from bullpen.engines.system import SystemChance, SystemClock
from bullpen.errors import ConfigError
from bullpen.pool import clock_skew
from fakes.java_engines import Engines
from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall, Proxy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOURS = timedelta(hours=3)


class Local:
    """A clock of this machine that is wrong by so much."""

    def __init__(self, wrong: timedelta = timedelta(0)) -> None:
        self.wrong = wrong

    def now(self) -> datetime:
        return datetime.now(UTC) + self.wrong


def an_answer(date: str) -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPHeaders": {"date": date}}}


def learned(date: datetime, sent: float, received: float) -> float | None:
    """What a clock makes of an answer; `sent` and `received` are seconds of its own after noon."""
    clock = DateClock(Local())
    said = an_answer(format_datetime(date, usegmt=True))
    clock.learn(said, NOON + timedelta(seconds=sent), NOON + timedelta(seconds=received))
    return clock.ahead()


@pytest.mark.parametrize(("sent", "received"), [(0.0, 0.1), (0.9, 1.0), (-0.1, 0.1), (0.99, 1.2), (-4.0, 5.0)])
def test_a_clock_that_may_be_right_is_left_alone(sent: float, received: float) -> None:
    assert learned(NOON, sent, received) == 0.0


@pytest.mark.parametrize(
    ("sent", "received", "ahead"), [(11.0, 11.5, 10.0), (10801.0, 10801.2, 10800.0), (-60.5, -60.0, -60.0)]
)
def test_only_what_is_certain_is_corrected(sent: float, received: float, ahead: float) -> None:
    assert learned(NOON, sent, received) == pytest.approx(ahead)


def test_an_answer_that_took_long_or_a_clock_that_was_set_meanwhile_teaches_nothing() -> None:
    assert learned(NOON, 100.0, 111.0) is None
    assert learned(NOON, 100.0, 99.0) is None


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 32 Foo 2030", "Tue, 01 Jan 2030 12:00:00", "\x00"])
def test_an_answer_without_a_date_teaches_nothing(date: str) -> None:
    clock = DateClock(Local())
    clock.learn(an_answer(date), NOON, NOON)
    clock.learn({}, NOON, NOON)
    assert clock.ahead() in (None, 0.0)


@asynccontextmanager
async def a_table(engines: Engines, settings: Settings, clock: DateClock) -> AsyncIterator[TableClient]:
    async with opened(settings.aws) as cloud:
        yield TableClient(cloud, SystemChance(), clock)


@pytest.mark.real_loop
@pytest.mark.parametrize("wrong", [HOURS, -HOURS, timedelta(seconds=40)])
async def test_the_first_answer_of_dynamodb_sets_a_wrong_clock_right(
    engines: Engines, aws_settings: Any, wrong: timedelta
) -> None:
    settings, clock = aws_settings(), DateClock(Local(wrong))
    assert clock.ahead() is None
    async with a_table(engines, settings, clock) as table:
        await table.call("list_tables")
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    ahead = clock.ahead()
    assert ahead is not None
    assert abs(timedelta(seconds=ahead) - wrong) < timedelta(seconds=5)
    ports = Memory().ports()
    object.__setattr__(ports, "store_clock", clock)
    assert "the store's" in await clock_skew.doubt(ports, settings)


@pytest.mark.real_loop
async def test_a_clock_that_is_right_stays_as_it_is_and_no_request_is_made_for_it(
    engines: Engines, aws_settings: Any
) -> None:
    clock = DateClock(SystemClock())
    async with Proxy(engines.dynamodb) as proxy:
        settings = aws_settings(endpoints={"dynamodb": proxy.url})
        async with a_table(engines, settings, clock) as table:
            await table.call("list_tables")
        assert proxy.counts == {"ListTables": 1}
    assert clock.ahead() == 0.0


class Dated:
    """Answers as the engine does, at another time."""

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        answer = await forward(call.body)
        others = {name: value for name, value in answer.headers.items() if name.lower() != "date"}
        return ProxiedAnswer(answer.status, others | {"Date": format_datetime(datetime.now(UTC) - HOURS)}, answer.body)


@pytest.mark.real_loop
async def test_the_date_of_the_answers_counts_also_of_one_that_says_no(engines: Engines, aws_settings: Any) -> None:
    clock = DateClock(SystemClock())
    async with Proxy(engines.dynamodb) as proxy:
        proxy.fail("*", Dated(), times=None)
        settings = aws_settings(endpoints={"dynamodb": proxy.url})
        async with a_table(engines, settings, clock) as table:
            with pytest.raises(ConfigError):
                await table.get(raw_key("Instance", "i-1"))  # there is no table
    assert clock.ahead() == pytest.approx(HOURS.total_seconds(), abs=5)
