"""What every Signals promises."""

import asyncio
from dataclasses import replace

import pytest

from builders import NOW, later
from bullpen.model.activity import LONGEST
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import SEQ_STEP, Heartbeat, Kind, Pulse, Signal
from bullpen.ports import Signals

SIGNAL = Signal("i-1", Kind.REG_OK, "run-1", "round-1", seq=5, text="the last lines\nof a script: ü, 'quoted'")
BEAT = Heartbeat("i-1", NOW, seq=5)
LONG = 3600.0
"""Seconds that no test waits: a wait that long ends because it was woken."""


async def test_a_signal_is_read_as_it_was_reported(signals: Signals) -> None:
    assert await signals.report(SIGNAL)
    assert (await signals.read(["i-1"]))["i-1"] == Pulse(signal=SIGNAL)


async def test_a_signal_with_a_text_of_full_length_is_kept_whole(signals: Signals) -> None:
    long = replace(SIGNAL, text="x" * REASON_LENGTH)
    await signals.report(long)
    assert (await signals.read(["i-1"]))["i-1"].signal == long


async def test_a_heartbeat_is_read_as_it_was_sent(signals: Signals) -> None:
    beat = replace(BEAT, at=later(0.123456))
    assert await signals.beat(beat)
    assert (await signals.read(["i-1"]))["i-1"] == Pulse(heartbeat=beat)


async def test_a_heartbeat_says_what_runs_until_one_says_nothing(signals: Signals) -> None:
    for seq, activity in enumerate(("build", "x" * LONGEST, ""), start=5):
        beat = replace(BEAT, seq=seq, activity=activity)
        assert await signals.beat(beat)
        assert (await signals.read(["i-1"]))["i-1"].heartbeat == beat


@pytest.mark.parametrize("seq", [4, 5])
async def test_a_signal_with_the_same_or_a_lower_seq_is_not_stored(signals: Signals, seq: int) -> None:
    await signals.report(SIGNAL)
    assert not await signals.report(replace(SIGNAL, kind=Kind.REG_FAILED, seq=seq))
    assert (await signals.read(["i-1"]))["i-1"].signal == SIGNAL


@pytest.mark.parametrize("seq", [4, 5])
async def test_a_heartbeat_with_the_same_or_a_lower_seq_is_not_stored(signals: Signals, seq: int) -> None:
    await signals.beat(BEAT)
    assert not await signals.beat(replace(BEAT, at=later(60), seq=seq))
    assert (await signals.read(["i-1"]))["i-1"].heartbeat == BEAT


async def test_a_higher_seq_replaces_signal_and_heartbeat(signals: Signals) -> None:
    await signals.report(SIGNAL)
    await signals.beat(BEAT)
    newer = replace(SIGNAL, kind=Kind.CLEAN_OK, run_id="", round="round-2", seq=6, text="")
    assert await signals.report(newer)
    assert await signals.beat(replace(BEAT, seq=6))
    assert (await signals.read(["i-1"]))["i-1"] == Pulse(newer, replace(BEAT, seq=6))


async def test_signals_and_heartbeats_count_their_own_seq(signals: Signals) -> None:
    await signals.report(replace(SIGNAL, seq=100))
    assert await signals.beat(replace(BEAT, seq=1))


async def test_of_reports_racing_each_other_the_highest_seq_stays(signals: Signals) -> None:
    reports = [replace(SIGNAL, seq=seq) for seq in (3, 9, 1, 7, 8, 2)]
    await asyncio.gather(*map(signals.report, reports))
    assert (await signals.read(["i-1"]))["i-1"].signal == replace(SIGNAL, seq=9)


async def test_every_id_asked_for_is_in_the_answer(signals: Signals) -> None:
    await signals.report(SIGNAL)
    assert await signals.read(["i-1", "i-2"]) == {"i-1": Pulse(signal=SIGNAL), "i-2": Pulse()}
    assert await signals.read([]) == {}


async def test_one_read_takes_five_hundred_ids(signals: Signals) -> None:
    ids = [f"i-{n}" for n in range(500)]
    await signals.report(replace(SIGNAL, instance_id="i-499"))
    answer = await signals.read(ids)
    assert list(answer) == ids
    assert answer["i-499"].signal is not None


async def test_a_wait_ends_at_its_timeout_if_nothing_changes(signals: Signals) -> None:
    await signals.wait(0.01)  # whatever opening the engine did
    loop = asyncio.get_running_loop()
    started = loop.time()
    await signals.wait(0.02)
    assert loop.time() >= started + 0.01  # real timers are allowed to be a little early


@pytest.mark.waking
async def test_a_signal_wakes_a_waiter(signals: Signals) -> None:
    await signals.wait(0.01)
    async with asyncio.timeout(120):
        await asyncio.gather(signals.wait(LONG), signals.report(SIGNAL))


@pytest.mark.waking
async def test_a_heartbeat_wakes_a_waiter(signals: Signals) -> None:
    await signals.wait(0.01)
    async with asyncio.timeout(120):
        await asyncio.gather(signals.wait(LONG), signals.beat(BEAT))


@pytest.mark.waking
async def test_a_change_between_two_waits_ends_the_second_at_once(signals: Signals) -> None:
    await signals.wait(0.01)
    await signals.report(SIGNAL)
    async with asyncio.timeout(120):
        await signals.wait(LONG)


@pytest.mark.waking
async def test_one_change_wakes_every_waiter(signals: Signals) -> None:
    await signals.wait(0.01)
    async with asyncio.timeout(120):
        await asyncio.gather(signals.wait(LONG), signals.wait(LONG), signals.wait(LONG), signals.report(SIGNAL))


async def test_a_heartbeat_says_when_its_machine_is_to_be_taken_away(signals: Signals) -> None:
    beat = replace(BEAT, leaving=later(120))
    assert await signals.beat(beat)
    pulse = (await signals.read(["i-1"]))["i-1"]
    assert pulse.heartbeat == beat
    assert pulse.departure == f"its machine is to be taken away at {later(120):%H:%M:%S}Z"


@pytest.mark.parametrize("ahead", [SEQ_STEP + 1, 10 * SEQ_STEP])
async def test_a_signal_whose_number_runs_far_ahead_is_not_stored(signals: Signals, ahead: int) -> None:
    """Else it would keep out the agent itself, which counts on from what stands there."""
    assert not await signals.report(replace(SIGNAL, seq=ahead))
    assert await signals.report(SIGNAL)
    assert not await signals.report(replace(SIGNAL, kind=Kind.REG_FAILED, seq=SIGNAL.seq + ahead))
    assert (await signals.read(["i-1"]))["i-1"].signal == SIGNAL
    assert await signals.report(last := replace(SIGNAL, seq=SIGNAL.seq + SEQ_STEP))
    assert (await signals.read(["i-1"]))["i-1"].signal == last
