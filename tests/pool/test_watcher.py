"""What the watcher promises: one batched read per tick for all callers, and a fair judgement of which agents live."""

import asyncio
from datetime import timedelta

import pytest

from bullpen.config import Timings
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates
from bullpen.engines.memory.signals import MemorySignals
from bullpen.errors import Unavailable
from bullpen.model.signal import Heartbeat, Kind, Signal
from bullpen.model.signal_text import refuses_runner
from bullpen.pool.watcher import SignalFailed, SignalReached, Watcher, reaching
from bullpen.ports import Ports

TIMINGS = Timings()


class Post:
    """Memory, a watcher on it, and agents that report through the same signals."""

    def __init__(self, rates: Rates | None = None, skew: float = 0.0) -> None:
        self.memory = Memory()
        self.faults = Faults(rates=rates or Rates())
        self.ports: Ports = self.memory.ports(LoopClock(skew=skew), None, self.faults)
        self.watcher = Watcher(self.ports.signals, self.ports.clock, TIMINGS)
        self._seq = 0

    def signal(self, id: str, kind: Kind, round: str = "r", text: str = "") -> None:
        self._seq += 1
        self.memory.reports.report(Signal(id, kind, "run", round, self._seq, text))

    def beat(self, id: str, age: float = 0.0) -> None:
        self._seq += 1
        signals = self.ports.signals
        assert isinstance(signals, MemorySignals)
        assert signals._beat(Heartbeat(id, LoopClock().now() - timedelta(seconds=age), self._seq))


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_signal_wakes_the_caller_that_waits_for_it() -> None:
    post = Post()
    asyncio.get_running_loop().call_later(3.2, post.signal, "i", Kind.REG_OK)
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 10.0) == ("i", SignalReached(Kind.REG_OK))
    assert now() == pytest.approx(3.2, abs=0.01)


async def test_without_events_a_signal_is_seen_within_the_longest_tick() -> None:
    post = Post(Rates(deaf=1.0))
    asyncio.get_running_loop().call_later(3.2, post.signal, "i", Kind.REG_OK)
    async with post.watcher as watcher:
        await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 10.0)
    assert now() <= 3.2 + TIMINGS.tick_longest + 0.01


async def test_a_wait_ends_at_its_time() -> None:
    post = Post()
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 10.0) is None
    assert now() == pytest.approx(10.0, abs=0.01)


async def test_a_later_signal_implies_an_earlier_one() -> None:
    post = Post()
    post.signal("i", Kind.REG_OK)
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.CLAIM_SEEN, "r")}, 1.0) == ("i", SignalReached(Kind.REG_OK))


async def test_a_signal_of_another_round_proves_nothing() -> None:
    post = Post()
    post.signal("i", Kind.REG_OK, round="before")
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 1.0) is None


async def test_a_failure_ends_the_wait_with_its_text() -> None:
    post = Post()
    post.signal("i", Kind.REG_FAILED, text="bad token")
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 10.0) == (
            "i",
            SignalFailed("UD_REG_FAILED: bad token"),
        )
    assert now() < 1


async def test_a_refused_version_is_apart_from_the_words_of_its_failure() -> None:
    post = Post()
    post.signal("i", Kind.REG_FAILED, text=refuses_runner("2.1.0", "GitHub refuses it"))
    async with post.watcher as watcher:
        assert await watcher.first({"i": reaching(Kind.REG_OK, "r")}, 10.0) == (
            "i",
            SignalFailed("UD_REG_FAILED: GitHub refuses it", "2.1.0"),
        )


async def test_fifty_callers_cost_one_read_per_tick() -> None:
    post = Post(Rates(deaf=1.0))
    async with post.watcher as watcher:
        await asyncio.gather(*(watcher.first({f"i-{n}": reaching(Kind.REG_OK, "r")}, 5.0) for n in range(50)))
    assert post.faults.requests["signals.read"] <= 15


async def test_a_read_that_fails_is_raised_to_every_caller() -> None:
    post = Post(Rates(lost_request=1.0))
    async with post.watcher as watcher:
        waits = [watcher.first({f"i-{n}": reaching(Kind.REG_OK, "r")}, 5.0) for n in range(3)]
        answers = await asyncio.gather(*waits, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable] * 3


async def test_a_recent_heartbeat_is_a_sign_of_life_and_an_old_one_is_none() -> None:
    post = Post()
    post.beat("young", age=10.0)
    post.beat("old", age=16.0)
    async with post.watcher as watcher:
        assert await watcher.is_alive(["young", "old", "never"]) == {"young": True, "old": False, "never": False}


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_a_heartbeat_that_changes_while_it_is_watched_is_a_sign_of_life_whatever_the_clocks_say(
    skew: float,
) -> None:
    post = Post(skew=skew)
    post.beat("i")
    asyncio.get_running_loop().call_later(4.0, post.beat, "i")
    async with post.watcher as watcher:
        assert await watcher.signs_of_life(["i"]) == {"i"}
    assert now() < 5


@pytest.mark.parametrize("skew", [-300.0, 0.0, 300.0])
async def test_an_agent_that_is_silent_for_a_heartbeat_and_a_half_is_dead(skew: float) -> None:
    post = Post(skew=skew)
    post.beat("i", age=20.0)
    async with post.watcher as watcher:
        assert await watcher.signs_of_life(["i"]) == set()
    assert now() == pytest.approx(7.5, abs=0.6)


async def test_a_change_since_a_read_of_long_ago_is_not_a_sign_of_life() -> None:
    post = Post()
    async with post.watcher as watcher:
        await watcher.is_alive(["i"])
        asyncio.get_running_loop().call_later(5.0, post.beat, "i")
        await asyncio.sleep(100)
        assert await watcher.is_alive(["i"]) == {"i": False}


@pytest.mark.parametrize("skew", [-300.0, 300.0])
async def test_an_agent_that_beats_while_it_is_watched_is_not_silent_until_it_has_not_beaten_for_long(
    skew: float,
) -> None:
    post = Post(skew=skew)
    asyncio.get_running_loop().call_later(14.0, post.beat, "i")
    async with post.watcher as watcher:
        silent = []
        for _ in range(31):
            await watcher.read(["i"])
            silent.append(watcher.is_silent("i"))
            await asyncio.sleep(1)
    assert silent == [False] * 30 + [True]


async def test_an_agent_that_was_not_watched_for_long_is_not_silent_at_the_next_read() -> None:
    post = Post(skew=300.0)
    async with post.watcher as watcher:
        await watcher.read(["i"])
        await asyncio.sleep(100)
        await watcher.read(["i"])
        assert not watcher.is_silent("i")
