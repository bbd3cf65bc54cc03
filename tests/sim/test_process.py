"""What a simulated process promises: it dies at any callback, like after kill -9."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest

from bullpen.sim.loop import Deadlock, VirtualLoop, virtual_run
from bullpen.sim.process import Process, current_process


def the_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def forever() -> None:
    await asyncio.Event().wait()


class Program:
    """Suspends in every way that has something to run on the way out, and notes what ran."""

    def __init__(self) -> None:
        self.tidied: list[str] = []
        self.finished = False

    @contextmanager
    def manager(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.tidied.append("context manager")

    @asynccontextmanager
    async def async_manager(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.tidied.append("async context manager")

    async def numbers(self) -> AsyncIterator[int]:
        try:
            for n in range(3):
                await asyncio.sleep(1)
                yield n
        finally:
            self.tidied.append("async generator")

    def letters(self) -> Iterator[str]:
        try:
            yield from "ab"
        finally:
            self.tidied.append("generator")

    async def child(self) -> None:
        try:
            await asyncio.sleep(2)
        finally:
            self.tidied.append("child")
            await asyncio.sleep(0)

    async def main(self) -> None:
        try:
            with self.manager():
                async with AsyncExitStack() as stack, asyncio.timeout(100):
                    await stack.enter_async_context(self.async_manager())
                    stack.enter_context(self.manager())
                    child = asyncio.create_task(self.child())
                    async for _ in self.numbers():
                        for _ in self.letters():
                            await asyncio.gather(asyncio.sleep(0.1), asyncio.sleep(0.2))
                    await asyncio.wait_for(asyncio.shield(child), 50)
            self.finished = True
        finally:
            self.tidied.append("main")
            await asyncio.sleep(0)


def run_and_die_at(die_at: int | None, seed: int = 0) -> tuple[Program, Process, list[str]]:
    program, process = Program(), Process("doomed")
    process.die_at = die_at
    seen_at_end: list[str] = []

    async def main() -> None:
        the_loop().spawn(process, program.main())
        await process.ended()
        seen_at_end.extend(program.tidied)
        await asyncio.sleep(1000)
        gc.collect(1)

    virtual_run(main(), seed=seed)
    return program, process, seen_at_end


@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_any_callback_nothing_of_it_runs_then_or_later(seed: int) -> None:
    _, whole, _ = run_and_die_at(None, seed)
    assert whole.steps > 40
    histories = [run_and_die_at(die_at, seed) for die_at in range(1, whole.steps + 1)]
    gc.collect()
    for die_at, (program, process, seen_at_end) in enumerate(histories, start=1):
        assert process.dead
        assert program.tidied == seen_at_end, f"code ran after the kill at callback {die_at}"
        assert process.steps == die_at - 1


def test_a_process_not_killed_runs_to_its_end() -> None:
    program, process, _ = run_and_die_at(None)
    assert program.finished
    assert not process.dead
    assert program.tidied[-1] == "main"


async def test_a_generator_left_half_way_is_not_closed_by_the_collector() -> None:
    program = Program()
    numbers = program.numbers()
    assert await anext(numbers) == 0
    del numbers
    gc.collect()
    await asyncio.sleep(10)
    assert program.tidied == []


def test_die_at_beyond_the_last_callback_kills_no_process() -> None:
    _, whole, _ = run_and_die_at(None)
    program, process, _ = run_and_die_at(whole.steps + 1)
    assert program.finished
    assert not process.dead


async def test_a_process_counts_only_its_own_callbacks() -> None:
    process = Process("alpha")
    other = asyncio.create_task(asyncio.sleep(5))
    await the_loop().spawn(process, asyncio.sleep(1))
    await other
    assert process.steps == 3  # the start, the timer, the wake-up


async def test_tasks_and_callbacks_belong_to_the_process_that_made_them() -> None:
    process, owners = Process("alpha"), list[Process | None]()

    async def note() -> None:
        owners.append(current_process())

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.create_task(note())
        loop.call_soon(lambda: owners.append(current_process()))
        loop.call_later(1, lambda: owners.append(current_process()))
        await asyncio.gather(note(), asyncio.sleep(2))

    await the_loop().spawn(process, main())
    assert owners == [process] * 4
    assert current_process() is None


async def test_a_child_task_dies_with_its_process() -> None:
    beats: list[float] = []

    async def beat() -> None:
        while True:
            beats.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def main() -> None:
        await asyncio.create_task(beat())

    process = Process("alpha")
    the_loop().spawn(process, main())
    await asyncio.sleep(2.5)
    process.kill()
    await asyncio.sleep(10)
    assert beats == [0, 1, 2]


async def test_other_processes_go_on() -> None:
    doomed, other = Process("doomed"), Process("other")
    the_loop().spawn(doomed, forever())
    task = the_loop().spawn(other, asyncio.sleep(5, "done"))
    doomed.kill()
    assert await task == "done"
    assert not other.dead


async def test_a_task_of_the_dead_never_completes() -> None:
    process = Process("alpha")
    task = the_loop().spawn(process, asyncio.sleep(1))
    process.kill()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 100)
    task.cancel()
    await asyncio.sleep(1)
    assert not task.done()


def test_timers_of_the_dead_do_not_move_time() -> None:
    async def main() -> None:
        process = Process("alpha")
        the_loop().spawn(process, asyncio.sleep(1000))
        await asyncio.sleep(1)
        process.kill()
        await forever()

    with pytest.raises(Deadlock):  # and not OutOfTime
        virtual_run(main(), timeout=100)


async def test_the_living_learn_that_a_process_was_killed() -> None:
    process = Process("alpha")
    the_loop().spawn(process, forever())
    the_loop().call_later(3, process.kill)
    assert await process.ended() == "killed"
    assert the_loop().time() == 3
    assert await process.ended() == "killed"


async def test_the_living_learn_that_a_process_finished() -> None:
    process = Process("alpha")
    tasks = [the_loop().spawn(process, asyncio.sleep(seconds)) for seconds in (1, 4)]
    assert await process.ended() == "finished"
    assert the_loop().time() == 4
    await asyncio.gather(*tasks)


async def test_the_end_of_a_process_is_noticed_though_its_parent_is_dead() -> None:
    parent, child = Process("parent"), Process("child")

    async def start_child() -> None:
        the_loop().spawn(child, asyncio.sleep(5))
        await forever()

    the_loop().spawn(parent, start_child())
    await asyncio.sleep(1)
    parent.kill()
    assert await child.ended() == "finished"


async def test_one_watcher_giving_up_does_not_disturb_another() -> None:
    process = Process("alpha")
    the_loop().spawn(process, forever())
    patient = asyncio.create_task(process.ended())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.ended(), 1)
    process.kill()
    assert await patient == "killed"


async def test_a_dead_process_starts_nothing() -> None:
    process = Process("alpha")
    process.kill()
    with pytest.raises(RuntimeError, match="alpha is dead"):
        the_loop().spawn(process, forever())
