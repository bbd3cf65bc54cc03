"""Running several things at once, in the one way that use cases do it.

`asyncio.TaskGroup`, `wait` and `as_completed` order their work by the addresses of objects, so a simulated history
would differ from run to run. `gather_or_cancel` keeps the order in which the work was given to it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Halt = Callable[[BaseException], None]
Arm = Callable[[Halt], Callable[[], None]]


async def gather_or_cancel(jobs: Sequence[Coroutine[Any, Any, T]], *, arm: Arm | None = None) -> list[T]:
    """Run all at once and return their results in order.

    The first failure cancels the others and is raised once all have ended, so no task outlives the call.
    `arm` may connect further reasons to halt (a stop, a deadline): it gets `halt(reason)` and returns how to disarm.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(job) for job in jobs]
    failures: list[BaseException] = []

    def halt(reason: BaseException) -> None:
        failures.append(reason)
        for task in tasks:
            task.cancel()

    def ended(task: asyncio.Task[T]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            halt(failure)

    for task in tasks:
        task.add_done_callback(ended)
    disarm = arm(halt) if arm else None
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        if disarm:
            disarm()
    if failures:
        raise failures[0]
    return [result for result in results if not isinstance(result, BaseException)]


def on_event(event: asyncio.Event, act: Callable[[], None]) -> Callable[[], object]:
    """Call `act` once when the event is set (at once if it is); returns how to call it off."""
    watcher = asyncio.get_running_loop().create_task(event.wait())
    watcher.add_done_callback(lambda task: None if task.cancelled() else act())
    return watcher.cancel
