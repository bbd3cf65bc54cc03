"""What virtual_run promises: nothing is lost silently, and nothing stays."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from bullpen.sim.loop import Deadlock, LeftBehind, VirtualLoop, virtual_run
from bullpen.sim.process import Process


def the_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("in the background")


def test_it_returns_what_main_returns() -> None:
    assert virtual_run(asyncio.sleep(1, "result")) == "result"


def test_it_raises_what_main_raises() -> None:
    with pytest.raises(ValueError, match="in the background"):
        virtual_run(fail())


def test_a_task_left_behind_is_an_error_that_names_it() -> None:
    async def main() -> None:
        the_loop().create_task(forever(), name="forgotten")
        await asyncio.sleep(1)

    with pytest.raises(LeftBehind, match="forgotten"):
        virtual_run(main())


def test_tasks_may_be_left_behind_on_request() -> None:
    async def main() -> None:
        the_loop().create_task(forever())
        the_loop().create_task(forever())
        await asyncio.sleep(1)

    virtual_run(main(), allow_left_behind=True)
    gc.collect()


def test_tasks_of_the_dead_are_not_left_behind() -> None:
    async def main() -> None:
        process = Process("alpha")
        the_loop().spawn(process, forever())
        process.kill()

    virtual_run(main())


def test_a_failure_that_was_not_awaited_surfaces() -> None:
    async def main() -> None:
        the_loop().create_task(fail())
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        virtual_run(main())
    assert [str(failure) for failure in caught.value.exceptions] == ["in the background"]


def test_a_failure_that_was_awaited_does_not_surface_again() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="in the background"):
            await the_loop().create_task(fail())

    virtual_run(main())


def test_a_failure_is_remembered_however_many_tasks_follow() -> None:
    async def main() -> None:
        the_loop().create_task(fail())
        for _ in range(2000):
            await the_loop().create_task(asyncio.sleep(0))
        assert len(the_loop()._tasks) < 1000

    with pytest.raises(ExceptionGroup):
        virtual_run(main())


def test_a_failure_of_a_process_killed_later_does_not_surface() -> None:
    async def main() -> None:
        process = Process("alpha")
        the_loop().spawn(process, fail())
        for _ in range(2000):
            await the_loop().create_task(asyncio.sleep(0))
        process.kill()

    virtual_run(main())


def test_a_failing_callback_surfaces() -> None:
    async def main() -> None:
        the_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        virtual_run(main())
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


def test_a_deadlock_names_the_task_that_failed_meanwhile() -> None:
    async def main() -> None:
        the_loop().create_task(fail())
        await forever()

    with pytest.raises(Deadlock) as caught:
        virtual_run(main())
    assert "in the background" in caught.value.__notes__[0]


class World:
    """Something that every task of a history holds on to."""


def histories() -> Iterator[weakref.ref[World]]:
    async def hold(world: World) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(1)

    async def main(world: World) -> None:
        process = Process("alpha")
        task = the_loop().spawn(process, hold(world))
        the_loop().spawn(process, hold(world))
        await asyncio.sleep(1)
        the_loop().spawn(process, hold(world))  # killed before its first line
        process.kill()
        task.cancel()
        await asyncio.sleep(1)

    for _ in range(20):
        world = World()
        virtual_run(main(world))
        yield weakref.ref(world)


def test_a_killed_history_is_freed_and_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = list(histories())
    gc.collect()
    assert [world() for world in worlds] == [None] * 20
    assert capsys.readouterr().err == ""


def test_where_the_header_is_unknown_the_dead_are_kept_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.sim.frames._HEADER_KNOWN", False)
    tidied: list[str] = []

    async def hold() -> None:
        try:
            await forever()
        finally:
            tidied.append("ran")

    async def main() -> None:
        process = Process("alpha")
        the_loop().spawn(process, hold())
        await asyncio.sleep(1)
        process.kill()

    virtual_run(main())
    gc.collect()
    assert tidied == []
