"""What the simulation's clock and chance promise."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

from bullpen.ports import Chance, Clock
from bullpen.sim.ambient import EPOCH, SeededChance, VirtualClock


async def test_the_clock_follows_the_loop() -> None:
    clock: Clock = VirtualClock()
    assert clock.now() == EPOCH
    await asyncio.sleep(90)
    assert clock.now() == EPOCH + timedelta(seconds=90)
    assert clock.now().utcoffset() == timedelta(0)


async def test_one_clock_can_be_wrong_alone() -> None:
    right, wrong = VirtualClock(), VirtualClock(skew=timedelta(minutes=-5))
    assert right.now() - wrong.now() == timedelta(minutes=5)
    wrong.skew = timedelta(hours=1)
    assert wrong.now() - right.now() == timedelta(hours=1)


def test_a_seed_repeats_its_tokens_and_another_draws_others() -> None:
    def tokens(seed: int | str) -> list[str]:
        chance: Chance = SeededChance(seed)
        return [chance.token() for _ in range(1000)]

    assert tokens("alpha") == tokens("alpha")
    assert len({*tokens("alpha"), *tokens("beta"), *tokens(1)}) == 3000
    assert all(re.fullmatch("[0-9a-f]{16}", token) for token in tokens(0))


def test_uniform_stays_between_both() -> None:
    chance = SeededChance()
    assert all(2 <= chance.uniform(2, 3) <= 3 for _ in range(1000))
