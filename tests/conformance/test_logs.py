"""What every Logs promises."""

import asyncio

import pytest

from bullpen.errors import Refused
from bullpen.ports import LOG_LIMIT, Logs


async def test_a_log_is_read_as_it_was_written(logs: Logs) -> None:
    assert await logs.append("j-1", 1, 0, b"one\n") == 4
    assert await logs.append("j-1", 1, 4, b"\xfftwo\0") == 9
    assert await logs.read("j-1", 1, 0, 100) == b"one\n\xfftwo\0"
    assert await logs.read("j-1", 1, 2, 3) == b"e\n\xff"


async def test_the_end_and_a_log_that_does_not_exist_are_empty(logs: Logs) -> None:
    await logs.append("j-1", 1, 0, b"one")
    assert await logs.read("j-1", 1, 3, 10) == b""
    assert await logs.read("j-1", 1, 300, 10) == b""
    assert await logs.read("j-2", 1, 0, 10) == b""


async def test_each_assignment_has_its_own_log(logs: Logs) -> None:
    await logs.append("j-1", 1, 0, b"first")
    await logs.append("j-1", 2, 0, b"second")
    assert [await logs.read("j-1", fence, 0, 10) for fence in (1, 2)] == [b"first", b"second"]


@pytest.mark.parametrize(
    ("offset", "content", "length"), [(0, b"ONE", 3), (1, b"NE more", 8), (0, b"", 3), (3, b"", 3)]
)
async def test_what_is_there_already_is_left_alone(logs: Logs, offset: int, content: bytes, length: int) -> None:
    await logs.append("j-1", 1, 0, b"one")
    assert await logs.append("j-1", 1, offset, content) == length
    assert await logs.read("j-1", 1, 0, 10) == b"one" + content[3 - offset :]


@pytest.mark.parametrize("content", [b"", b"more"])
async def test_a_gap_is_refused(logs: Logs, content: bytes) -> None:
    await logs.append("j-1", 1, 0, b"one")
    with pytest.raises(Refused, match="3 bytes"):
        await logs.append("j-1", 1, 4, content)
    assert await logs.read("j-1", 1, 0, 10) == b"one"


async def test_the_same_part_sent_many_times_at_once_is_there_once(logs: Logs) -> None:
    lengths = await asyncio.gather(*(logs.append("j-1", 1, 0, b"x" * 1000) for _ in range(16)))
    assert set(lengths) == {1000}
    assert await logs.read("j-1", 1, 0, 10_000) == b"x" * 1000


async def test_a_log_keeps_its_beginning_up_to_the_limit_and_takes_the_rest_in_silence(logs: Logs) -> None:
    assert await logs.append("j-1", 1, 0, b"a" * (LOG_LIMIT - 2)) == LOG_LIMIT - 2
    assert await logs.append("j-1", 1, LOG_LIMIT - 2, b"bcde") == LOG_LIMIT
    assert await logs.append("j-1", 1, LOG_LIMIT + 2, b"fg") == LOG_LIMIT
    assert await logs.read("j-1", 1, LOG_LIMIT - 3, 10) == b"abc"
