"""What DynamoLogs promises beyond every Logs: chunks without gap or overlap, despite races and lost answers."""

import asyncio

import pytest

from bullpen.engines.aws.dynamodb import logs as logs_module
from bullpen.engines.aws.dynamodb.logs import LOGS_LAST, DynamoLogs
from bullpen.engines.system import SystemClock
from bullpen.errors import Refused
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop

pytestmark = pytest.mark.real_loop

PRINTED = bytes(range(256)) * 4


async def test_an_append_in_a_row_is_one_write(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        logs = DynamoLogs(bench.table, SystemClock())
        await logs.append("j-1", 1, 0, b"one")
        bench.requests()
        assert await logs.append("j-1", 1, 3, b"two") == 6
        assert bench.requests() == {"UpdateItem": 1}
        assert await logs.append("j-1", 1, 0, b"one") == 6  # said again: nothing to do
        assert bench.requests() == {}


async def test_an_append_whose_answer_was_lost_is_there_once(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        logs = DynamoLogs(bench.table, SystemClock())
        bench.proxy.fail("UpdateItem", Drop())
        assert await logs.append("j-1", 1, 0, b"one") == 3
        assert await DynamoLogs(bench.table, SystemClock()).append("j-1", 1, 0, b"one, two") == 8
        assert await logs.read("j-1", 1, 0, 100) == b"one, two"


async def test_one_that_believes_an_old_end_learns_the_new_one(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        first, second = (DynamoLogs(bench.table, SystemClock()) for _ in range(2))
        await first.append("j-1", 1, 0, b"one")
        await second.append("j-1", 1, 3, b"two")
        assert await first.append("j-1", 1, 3, b"two, three") == 13
        assert await first.read("j-1", 1, 0, 100) == b"onetwo, three"
        with pytest.raises(Refused, match="13 bytes"):
            await second.append("j-1", 1, 14, b"gap")


async def test_racing_appends_of_one_text_leave_it_whole(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "CHUNK", 100)
    async with a_bench(engines, aws_settings) as bench:
        writers = [DynamoLogs(bench.table, SystemClock()) for _ in range(4)]
        appends = [writer.append("j-1", 1, 0, PRINTED[: 300 + 241 * place]) for place, writer in enumerate(writers)]
        assert max(await asyncio.gather(*appends)) == 1023
        assert await writers[0].read("j-1", 1, 0, 5000) == PRINTED[:1023]


async def test_any_part_is_read_wherever_chunks_begin(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "CHUNK", 100)
    async with a_bench(engines, aws_settings) as bench:
        logs = DynamoLogs(bench.table, SystemClock())
        await logs.append("j-1", 1, 0, PRINTED[:250])
        for offset, limit in ((0, 250), (99, 2), (100, 100), (101, 200), (249, 9), (250, 9), (0, 0), (30, 10)):
            assert await logs.read("j-1", 1, offset, limit) == PRINTED[:250][offset : offset + limit]


async def test_a_full_log_costs_nothing(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_module, "LOG_LIMIT", 100)
    async with a_bench(engines, aws_settings) as bench:
        logs = DynamoLogs(bench.table, SystemClock())
        assert await logs.append("j-1", 1, 0, PRINTED) == 100
        bench.requests()
        assert await logs.append("j-1", 1, 1024, PRINTED) == 100
        assert bench.requests() == {}


async def test_a_log_goes_by_itself(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        clock = SystemClock()
        await DynamoLogs(bench.table, clock).append("j-1", 1, 0, b"one")
        (chunk,) = await bench.table.walk(("PK", "TYPE#Log#j-1#1")).all()
        assert abs(int(chunk["ttl"]["N"]) - clock.now().timestamp() - LOGS_LAST) < 60
