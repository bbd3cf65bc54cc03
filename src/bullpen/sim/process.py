"""A simulated operating-system process: the tasks that share its fate.

    Process ──pause()──▶ paused ──resume()──▶ running        its callbacks are held, then run in order
       │
       └──kill() or die_at──▶ dead                           no callback of it ever runs again

Code that runs inside a process carries it in a context variable, which asyncio hands on to every task and callback made
there. A dead process is abandoned, not cancelled: as after `kill -9`, no `except` and no `finally` gets a turn, what it
held stays held, and a task of it never completes. Code outside that waits for such a task waits for ever, even under
`asyncio.timeout`, because cancelling an await means waiting for the awaited task; `ended()` is the way to learn of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import Context, ContextVar
from random import Random  # noqa: TID251  seeded: the same seed gives the same history
from typing import Any, Literal, Protocol

End = Literal["finished", "killed"]

_PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Callback(Protocol):
    """A callback of the loop that knows whose it is."""

    process: Process | None
    _cancelled: bool

    def _run(self) -> None: ...


class Readmits(Protocol):
    def readmit(self, callbacks: deque[Callback]) -> None:
        """Make these ready again, in order, before anything else that waits for its turn."""


class Process:
    """Lives in one loop, from the first `loop.spawn(process, …)` until what was spawned is done or it is killed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.steps = 0
        """How many of its callbacks have run."""
        self.die_at: int | None = None
        """Which callback, counted from 1, finds the process killed instead of running."""
        self._loop: Readmits | None = None
        self._held: deque[Callback] = deque()
        self._mains = 0
        self._end: End | None = None
        self._watchers: list[asyncio.Future[End]] = []

    def __repr__(self) -> str:
        return f"<Process {self.name}{' dead' if self.dead else ' paused' if self.paused else ''}>"

    def kill(self) -> None:
        """End it as `kill -9` does.

        Nothing can stop a callback in the middle: a process that kills itself still runs to its next await, so code
        that injects such a fault awaits a new future right after.
        """
        if not self.dead:
            self.dead = True
            self._settle("killed")

    def pause(self) -> None:
        """Hold its callbacks, as SIGSTOP does. Time goes on without it."""
        self.paused = True

    def resume(self) -> None:
        """Let the held callbacks run, in their order and before any that became ready later."""
        self.paused = False
        if self._loop is not None and not self.dead:
            held, self._held = self._held, deque()
            self._loop.readmit(held)

    async def ended(self) -> End:
        """Wait until everything spawned into it is done, or it is killed; a process not yet started is awaited too."""
        if self._end is not None:
            return self._end
        # The future belongs to no process; its waiter is woken in the waiter's own process.
        watcher: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        return await watcher

    def adopt(self, main: asyncio.Task[Any], loop: Readmits) -> None:
        """Make a task just spawned one of those whose end is the end of the process."""
        self._loop = loop
        self._mains += 1
        self._end = None
        # An empty context: noticing the end is no step of the process that ended.
        main.add_done_callback(self._main_done, context=Context())

    def admits(self, callback: Callback) -> bool:
        """Count the callback and let it run, or hold it: until `resume`, and of the dead until the loop closes."""
        if not self.dead and not self.paused and self.die_at is not None and self.steps + 1 >= self.die_at:
            self.kill()
        if self.dead or self.paused:
            self._held.append(callback)
            return False
        self.steps += 1
        return True

    def _main_done(self, _main: asyncio.Task[Any]) -> None:
        self._mains -= 1
        if self._mains == 0 and not self.dead:
            self._settle("finished")

    def _settle(self, end: End) -> None:
        self._end = end
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(end)


def current_process() -> Process | None:
    """Whose code is running."""
    return _PROCESS.get()


def process_of(context: Context) -> Process | None:
    """Whose code runs in this context."""
    return context.get(_PROCESS)


def enter(context: Context, process: Process) -> None:
    """Make this context one of the process, and so everything started in it."""
    context.run(_PROCESS.set, process)


class Interleaving:
    """Ready callbacks: in order within a process, drawn by a seed among processes. Used like a deque."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        # Some races need two processes that alternate, others one that runs far ahead. A seed picks how likely it is
        # that the process whose turn it was goes on, so that many seeds see both.
        self._goes_on = self._random.random()
        self._turn: Process | None = None
        self._queues: dict[Process | None, deque[Callback]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, callback: Callback) -> None:
        self._queues.setdefault(callback.process, deque()).append(callback)
        self._length += 1

    def extendleft(self, callbacks: Iterable[Callback]) -> None:
        for callback in callbacks:
            self._queues.setdefault(callback.process, deque()).appendleft(callback)
            self._length += 1

    def popleft(self) -> Callback:
        if len(self._queues) == 1:
            (self._turn,) = self._queues
        elif self._turn not in self._queues or self._random.random() >= self._goes_on:
            self._turn = self._random.choice(list(self._queues))
        queue = self._queues[self._turn]
        callback = queue.popleft()
        if not queue:
            del self._queues[self._turn]
        self._length -= 1
        return callback

    def clear(self) -> None:
        self._queues.clear()
        self._length = 0
