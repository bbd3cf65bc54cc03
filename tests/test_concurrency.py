"""What `settle` promises: results in order, the first failure wins, and nothing runs on behind the caller's back."""

import asyncio

import pytest

from bullpen.concurrency import Halt, gather_or_cancel, on_event


async def gives(value: int, after: float) -> int:
    await asyncio.sleep(after)
    return value


async def fails(after: float, why: str = "broken") -> int:
    await asyncio.sleep(after)
    raise ValueError(why)


async def test_results_come_in_the_order_in_which_they_were_asked() -> None:
    assert await gather_or_cancel([gives(1, 3), gives(2, 1), gives(3, 2)]) == [1, 2, 3]


async def test_nothing_to_do_is_done_at_once() -> None:
    assert await gather_or_cancel([]) == []


async def test_the_first_failure_cancels_the_others_and_is_raised() -> None:
    with pytest.raises(ValueError, match="first"):
        await gather_or_cancel([gives(1, 60), fails(1, "first"), fails(2, "second")])
    assert asyncio.get_running_loop().time() == 1


async def test_it_raises_only_once_all_have_ended() -> None:
    ended = []

    async def tidies() -> int:
        try:
            return await gives(1, 60)
        finally:
            await asyncio.sleep(5)
            ended.append("tidied")

    with pytest.raises(ValueError, match="broken"):
        await gather_or_cancel([tidies(), fails(1)])
    assert ended == ["tidied"]


async def test_a_reason_from_outside_halts_all() -> None:
    def arm(halt: Halt) -> object:
        return asyncio.get_running_loop().call_later(2, halt, TimeoutError("enough")).cancel

    with pytest.raises(TimeoutError, match="enough"):
        await gather_or_cancel([gives(1, 60), gives(2, 60)], arm=arm)  # type: ignore[arg-type]
    assert asyncio.get_running_loop().time() == 2


async def test_what_was_armed_is_disarmed_at_the_end() -> None:
    disarmed = []
    await gather_or_cancel([gives(1, 1)], arm=lambda halt: lambda: disarmed.append(True))
    assert disarmed == [True]


async def test_an_event_calls_once_and_can_be_called_off() -> None:
    event, other, called = asyncio.Event(), asyncio.Event(), []
    on_event(event, lambda: called.append("event"))
    call_off = on_event(other, lambda: called.append("other"))
    call_off()
    event.set()
    other.set()
    await asyncio.sleep(1)
    assert called == ["event"]


async def test_an_event_that_is_set_already_calls_at_once() -> None:
    event, called = asyncio.Event(), []
    event.set()
    on_event(event, lambda: called.append(True))
    await asyncio.sleep(0.1)
    assert called == [True]
