"""What the virtual loop promises: time that jumps, asyncio as it is, nothing outside, and no silent hanging."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time

import pytest

from bullpen.sim.loop import Deadlock, Livelock, NotSimulated, OutOfTime, VirtualLoop, virtual_run
from bullpen.sim.process import Process


def the_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def now() -> float:
    return asyncio.get_running_loop().time()


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_year_of_sleep_takes_no_wall_time() -> None:
    the_loop().time_limit = 1e9
    started = time.monotonic()
    await asyncio.sleep(31_536_000)
    assert now() == 31_536_000
    assert time.monotonic() - started < 60


async def test_time_stands_still_while_anything_is_ready() -> None:
    asleep = asyncio.create_task(asyncio.sleep(1))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert now() == 0
    await asleep
    assert now() == 1


async def test_timers_of_one_instant_fire_in_the_order_in_which_they_were_set() -> None:
    fired: list[int] = []
    for n in range(50):
        the_loop().call_at(1.0, fired.append, n)
    await asyncio.sleep(2)
    assert fired == list(range(50))


async def test_a_cancelled_timer_neither_fires_nor_moves_time() -> None:
    fired: list[str] = []
    the_loop().call_later(1, fired.append, "cancelled").cancel()
    await asyncio.sleep(3)
    assert (now(), fired) == (3, [])


async def test_many_cancelled_timers_leave_the_others_in_order() -> None:
    fired: list[int] = []
    scrambled = random.Random(1).sample(range(2000), 2000)
    timers = {n: the_loop().call_later(n, fired.append, n) for n in scrambled}
    for n, timer in timers.items():
        if n % 10:
            timer.cancel()
    assert len(the_loop()._timers) < 1000
    await asyncio.sleep(2000)
    assert fired == list(range(0, 2000, 10))


async def test_timeout_cancels_after_its_virtual_seconds() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await forever()
    assert now() == 30


async def test_wait_for_gives_up_and_cancels() -> None:
    task = asyncio.create_task(forever())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(task, 5)
    assert task.cancelled()
    assert now() == 5


async def test_gather_answers_in_order_and_returns_failures() -> None:
    async def after(seconds: float) -> float:
        await asyncio.sleep(seconds)
        if seconds == 2:
            raise ValueError("two")
        return seconds

    three, two, one = await asyncio.gather(after(3), after(2), after(1), return_exceptions=True)
    assert (three, one, now()) == (3, 1, 3)
    assert isinstance(two, ValueError)


async def test_a_shielded_task_outlives_its_waiter() -> None:
    task = asyncio.create_task(asyncio.sleep(10, "kept"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 1)
    assert await task == "kept"
    assert now() == 10


async def test_locks_queues_and_events_work() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    lock, full = asyncio.Lock(), asyncio.Event()

    async def produce() -> None:
        for n in range(5):
            async with lock:
                await queue.put(n)
        full.set()

    producer = asyncio.create_task(produce())
    assert [await queue.get() for _ in range(5)] == [0, 1, 2, 3, 4]
    await full.wait()
    await producer


async def test_tasks_are_named_after_their_coroutine() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    assert task.get_name() == "sleep"
    await task


def test_a_deadlock_names_each_waiting_task_its_process_and_its_line() -> None:
    async def main() -> None:
        the_loop().spawn(Process("alpha"), forever(), name="stuck one")
        await forever()

    with pytest.raises(Deadlock) as caught:
        virtual_run(main())
    text = str(caught.value)
    assert "stuck one <Process alpha> at" in text
    assert text.count("in forever: await asyncio.Event().wait()") == 2
    assert f"{__file__}:" in text


def test_a_deadlock_does_not_name_the_dead() -> None:
    async def main() -> None:
        process = Process("alpha")
        the_loop().spawn(process, forever(), name="of the dead")
        process.kill()
        await forever()

    with pytest.raises(Deadlock) as caught:
        virtual_run(main())
    assert "of the dead" not in str(caught.value)


def test_polling_without_sleep_is_reported_instead_of_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.sim.loop.CALLBACKS_PER_INSTANT", 1000)

    async def poll() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="poll"):
        virtual_run(poll())


def test_the_virtual_time_allowed_is_a_limit() -> None:
    async def tick() -> None:
        for _ in itertools.count():
            await asyncio.sleep(5)

    with pytest.raises(OutOfTime, match=r"60 s are over.*\n.*tick"):
        virtual_run(tick(), timeout=60)


async def test_threads_are_refused() -> None:
    with pytest.raises(NotSimulated, match="run_in_executor"):
        await asyncio.to_thread(print)


async def test_connections_are_refused() -> None:
    with pytest.raises(NotSimulated, match="create_connection"):
        await asyncio.open_connection("localhost", 1)


async def test_watching_a_socket_is_refused() -> None:
    with socket.socket() as sock, pytest.raises(NotSimulated, match="add_reader"):
        the_loop().add_reader(sock, print)


async def test_subprocesses_are_refused() -> None:
    with pytest.raises(NotSimulated, match="subprocess_exec"):
        await asyncio.create_subprocess_exec("true")


async def test_eager_tasks_are_refused() -> None:
    with pytest.raises(NotSimulated, match="set_task_factory"):
        the_loop().set_task_factory(None)


@pytest.mark.real_loop
async def test_a_test_marked_real_loop_runs_on_asyncio_s_own_loop() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    await asyncio.to_thread(int)


def interleaved(seed: int) -> list[str]:
    """Which process took which step, when three of them run five steps each."""
    history: list[str] = []

    async def steps(name: str) -> None:
        for n in range(5):
            history.append(f"{name}{n}")
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(the_loop().spawn(Process(name), steps(name)) for name in "abc"))

    virtual_run(main(), seed=seed)
    return history


def test_a_seed_repeats_its_history() -> None:
    assert [interleaved(seed) for seed in range(20)] == [interleaved(seed) for seed in range(20)]


def test_seeds_differ_in_how_processes_interleave() -> None:
    assert len({tuple(interleaved(seed)) for seed in range(50)}) > 30


def test_no_seed_changes_the_order_within_a_process() -> None:
    def ran(seed: int) -> list[tuple[str, int]]:
        order: list[tuple[str, int]] = []

        async def schedule(name: str) -> None:
            for n in range(5):
                the_loop().call_soon(order.append, (name, n))

        async def main() -> None:
            await asyncio.gather(*(the_loop().spawn(Process(name), schedule(name)) for name in "abc"))
            await asyncio.sleep(1)

        virtual_run(main(), seed=seed)
        return order

    for seed in range(50):
        for name in "abc":
            assert [n for owner, n in ran(seed) if owner == name] == [0, 1, 2, 3, 4]


def test_seed_zero_takes_turns_as_asyncio_does() -> None:
    assert interleaved(0) == [f"{name}{n}" for n in range(5) for name in "abc"]


def test_some_seed_finds_a_lost_update() -> None:
    def both_counted(seed: int) -> bool:
        store = {"count": 0}

        async def increment() -> None:
            seen = store["count"]
            await asyncio.sleep(0)
            store["count"] = seen + 1

        async def main() -> None:
            await asyncio.gather(*(the_loop().spawn(Process(name), increment()) for name in "ab"))

        virtual_run(main(), seed=seed)
        return store["count"] == 2

    assert {both_counted(seed) for seed in range(1, 30)} == {True, False}
