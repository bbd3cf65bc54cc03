"""Run a coroutine on a virtual loop from start to end, and let nothing be lost on the way."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from bullpen.sim.loop import VirtualLoop

_T = TypeVar("_T")

A_DAY = 86_400.0


class LeftBehind(RuntimeError):
    """The main coroutine returned while tasks of living processes still ran: they were not awaited."""


def virtual_run(
    main: Coroutine[Any, Any, _T], *, seed: int = 0, timeout: float | None = A_DAY, allow_left_behind: bool = False
) -> _T:
    """Run `main` on a new VirtualLoop and return its result.

    Raise what `main` raises, Stuck if it cannot end within `timeout` virtual seconds, an ExceptionGroup of failures
    that were not awaited, and LeftBehind for tasks still running unless these are allowed. Work unfinished at the end,
    of the living and of the dead, is abandoned as it stands.
    """
    loop = VirtualLoop(seed)
    if timeout is not None:
        loop.time_limit = timeout
    try:
        try:
            result = loop.run_until_complete(main)
        except BaseException as error:
            # A main that waits for ever often waits for a task that failed: say so.
            for failure in loop.unretrieved():
                if failure is not error:
                    error.add_note(f"meanwhile not awaited: {failure!r}")
            raise
        if failures := loop.unretrieved():
            raise BaseExceptionGroup("failures that were not awaited", failures)
        if not allow_left_behind and (tasks := loop.left_behind()):
            raise LeftBehind(f"tasks that were not awaited still run:{loop.describe(tasks)}")
        return result
    finally:
        loop.close()
