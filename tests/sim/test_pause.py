"""What pausing a simulated process promises: it stops like after SIGSTOP and goes on in order."""

from __future__ import annotations

import asyncio

import pytest

from bullpen.sim.loop import VirtualLoop, virtual_run
from bullpen.sim.process import Process


def the_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def test_a_paused_process_stands_still_while_time_goes_on() -> None:
    process, noted = Process("alpha"), list[float]()

    async def main() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            noted.append(asyncio.get_running_loop().time())

    task = the_loop().spawn(process, main())
    await asyncio.sleep(1.5)
    process.pause()
    await asyncio.sleep(10)
    assert noted == [1]
    process.resume()
    await task
    assert noted == [1, 11.5, 12.5]


@pytest.mark.parametrize("seed", range(5))
def test_held_callbacks_run_in_order_on_resume(seed: int) -> None:
    noted: list[int] = []

    async def main() -> None:
        process = Process("alpha")

        async def schedule() -> None:
            for n in range(10):
                the_loop().call_later(1 + n / 2, noted.append, n)

        await the_loop().spawn(process, schedule())
        process.pause()
        await asyncio.sleep(3)
        assert noted == []
        process.resume()
        await asyncio.sleep(10)

    virtual_run(main(), seed=seed)
    assert noted == list(range(10))


async def test_a_paused_process_can_be_killed() -> None:
    process = Process("alpha")
    task = the_loop().spawn(process, asyncio.sleep(1))
    process.pause()
    await asyncio.sleep(2)
    process.kill()
    process.resume()
    await asyncio.sleep(2)
    assert not task.done()
    assert process.steps == 0
