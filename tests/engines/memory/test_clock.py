"""What the simulation's clock and chance promise."""

import asyncio
import re
from datetime import timedelta

from bullpen.engines.memory.clock import BEGINNING, LoopClock, SeededChance
from bullpen.ports import Chance, Clock


async def test_the_clock_follows_the_loop() -> None:
    clock: Clock = LoopClock()
    assert clock.now() == BEGINNING
    await asyncio.sleep(90)
    assert clock.now() == BEGINNING + timedelta(seconds=90)
    assert clock.now().utcoffset() == timedelta(0)


async def test_one_clock_can_be_wrong_alone() -> None:
    right, wrong = LoopClock(), LoopClock(skew=-300.0)
    assert right.now() - wrong.now() == timedelta(minutes=5)
    wrong.skew = 3600.0
    assert wrong.now() - right.now() == timedelta(hours=1)


def test_a_seed_repeats_its_tokens_and_another_draws_others() -> None:
    def tokens(seed: int) -> list[str]:
        chance: Chance = SeededChance(seed)
        return [chance.token() for _ in range(1000)]

    assert tokens(7) == tokens(7)
    assert len({*tokens(7), *tokens(8), *tokens(9)}) == 3000
    assert all(re.fullmatch("[0-9a-f]{16}", token) for token in tokens(0))


def test_uniform_stays_between_both() -> None:
    chance = SeededChance()
    assert all(2 <= chance.uniform(2, 3) <= 3 for _ in range(1000))
