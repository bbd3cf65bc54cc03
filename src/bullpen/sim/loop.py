"""An asyncio event loop on virtual time, whose simulated processes can be killed at any callback.

Stock asyncio runs on it unchanged: tasks, timeouts, locks, queues. Time stands still while anything is ready and then
jumps to the next timer, so an hour of sleeping takes no time and every history repeats exactly. There is nothing
outside: sockets, threads, subprocesses and signals are refused.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import AsyncGeneratorType
from typing import Any, NoReturn, TypeAlias, TypeVar, TypeVarTuple

from bullpen.sim.frames import abandon, waits_at
from bullpen.sim.process import Callback, Interleaving, Process, current_process, enter, process_of

_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)
_Ts = TypeVarTuple("_Ts")
_CoroutineLike: TypeAlias = Coroutine[Any, Any, _T] | Generator[Any, None, _T]

A_DAY = 86_400.0
CALLBACKS_PER_INSTANT = 1_000_000
"""So many callbacks without time passing are a loop that polls without sleeping: on virtual time it never ends."""

_PRUNE_FROM = 256
"""Bookkeeping of what is over is dropped when a list has doubled, from this size on."""


# What asyncio asks of a loop and virtual time has; the rest (I/O, threads, subprocesses, signals) is refused, at once.
_LIFE = ("run_forever", "run_until_complete", "stop", "is_running", "close", "is_closed", "shutdown_asyncgens")
_WORK = ("time", "call_soon", "call_at", "call_later", "create_future", "create_task", "shutdown_default_executor")
_ERRORS = ("call_exception_handler", "default_exception_handler", "get_exception_handler", "set_exception_handler")
# No `set_task_factory`: one may start tasks eagerly, which is inside a callback, where no process can be killed.
_SIMULATED = frozenset([*_LIFE, *_WORK, *_ERRORS, "get_debug", "set_debug", "get_task_factory"])


class NotSimulated(RuntimeError):
    """Asked the virtual loop for something that only a real one has."""


def without_the_outside(loop_class: _Class) -> _Class:
    """Make a loop class refuse every method that leads out of the simulation."""
    for name in vars(asyncio.AbstractEventLoop):
        if not name.startswith("_") and name not in _SIMULATED:
            setattr(loop_class, name, _refusal(name))
    return loop_class


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(_loop: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise NotSimulated(f"loop.{name}() does not exist on virtual time; use a simulated engine, or a real loop")

    return refuse


class Stuck(RuntimeError):
    """The simulation cannot go on; the message names every task that waits, and where."""


class Deadlock(Stuck):
    """Every task waits and no timer is set."""


class Livelock(Stuck):
    """Callbacks follow each other without end and time does not pass."""


class OutOfTime(Stuck):
    """The virtual time allowed is over."""


class LeftBehind(RuntimeError):
    """The main coroutine returned while tasks of living processes still ran: they were not awaited."""


class _Handle(asyncio.Handle):
    __slots__ = ("process",)
    process: Process | None


class _Timer(asyncio.TimerHandle):
    __slots__ = ("process",)
    process: Process | None


@without_the_outside
class VirtualLoop(BaseEventLoop):
    """Seed 0 runs callbacks in asyncio's order; any other seed interleaves processes in an order of its own."""

    _closed: bool  # both are kept by BaseEventLoop
    _stopping: bool

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.time_limit = float("inf")
        """Virtual time beyond which the loop raises OutOfTime."""
        self.failures: list[BaseException] = []
        """What callbacks raised, and the exceptions of futures that were dropped."""
        self._now = 0.0
        self._callbacks: deque[Callback] | Interleaving = Interleaving(seed) if seed else deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timers_set = 0
        self._timers_cancelled = 0
        self._callbacks_this_instant = 0
        # Strong references: freeing the task or generator of a dead process would close it, and run its `finally`.
        self._tasks: list[tuple[asyncio.Task[Any], Process | None]] = []
        self._prune_tasks_at = _PRUNE_FROM
        self._generators: list[AsyncGeneratorType[Any, Any]] = []
        self._prune_generators_at = _PRUNE_FROM

    def time(self) -> float:
        return self._now

    def spawn(self, process: Process, coro: Coroutine[Any, Any, _T], *, name: str | None = None) -> asyncio.Task[_T]:
        """Start a main task of the process; what it starts in turn belongs to the process too."""
        if process.dead:
            coro.close()
            raise RuntimeError(f"process {process.name} is dead; a restart is a new Process")
        context = copy_context()
        enter(context, process)
        task = self.create_task(coro, name=name, context=context)
        process.adopt(task, self)
        return task

    def left_behind(self) -> list[asyncio.Task[Any]]:
        """The unfinished tasks of the living, in order of creation."""
        return [task for task, process in self._tasks if not task.done() and not _is_dead(process)]

    def unretrieved(self) -> list[BaseException]:
        """Unreported errors: `failures`, and the exceptions of tasks of living processes that were not awaited."""
        lost = [task for task, process in self._tasks if _unheard(task) and not _is_dead(process)]
        return self.failures + [exc for task in lost if (exc := task.exception()) is not None]

    def describe(self, tasks: list[asyncio.Task[Any]]) -> str:
        """One line per task: its name, its process, and the line at which it waits."""
        owners = dict(self._tasks)
        return "".join(f"\n  {task.get_name()} {owners.get(task) or ''} at {waits_at(task)}" for task in tasks)

    # ---- what asyncio asks of a loop

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("the loop is closed")
        if context is None:
            context = copy_context()
        handle = _Handle(callback, args, self, context)
        handle.process = process_of(context)
        self._callbacks.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("the loop is closed")
        if context is None:
            context = copy_context()
        timer = _Timer(when, callback, args, self, context)
        timer.process = process_of(context)
        self._timers_set += 1  # timers of the same instant fire in the order in which they were set
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def create_task(
        self, coro: _CoroutineLike[_T], *, name: object = None, context: Context | None = None, **kwargs: Any
    ) -> asyncio.Task[_T]:
        if self._closed:
            raise RuntimeError("the loop is closed")
        if kwargs.get("eager_start"):
            raise NotSimulated("eager_start: a task begins with a callback of its own, at which its process can die")
        if name is None:
            name = getattr(coro, "__qualname__", None)  # asyncio's own count goes on from loop to loop
        task = asyncio.Task(coro, loop=self, name=name, context=context)  # type: ignore[arg-type]
        if len(self._tasks) >= self._prune_tasks_at:
            self._tasks = [(old, owner) for old, owner in self._tasks if not old.done() or _unheard(old)]
            self._prune_tasks_at = max(_PRUNE_FROM, 2 * len(self._tasks))
        self._tasks.append((task, current_process() if context is None else process_of(context)))
        return task

    def close(self) -> None:
        """Leave everything unfinished as it stands: no `finally` runs, now or later, and no warning is given."""
        if self.is_running():
            raise RuntimeError("cannot close a running loop")
        if self.is_closed():
            return
        super().close()
        generators = [generator for generator in self._generators if generator.ag_frame is not None]
        abandon([*generators, *(task.get_coro() for task, _ in self._tasks if not task.done())])
        self._tasks.clear()
        self._generators.clear()
        self._callbacks.clear()
        self._timers.clear()

    def readmit(self, callbacks: deque[Callback]) -> None:
        self._callbacks.extendleft(reversed(callbacks))

    # ---- hooks of BaseEventLoop

    def _run_once(self) -> None:
        timers, ready = self._timers, self._callbacks
        if not ready and not self._stopping:
            self._jump_to_next_timer()
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        turns = len(ready)
        self._callbacks_this_instant += turns
        if self._callbacks_this_instant > CALLBACKS_PER_INSTANT:
            raise Livelock(f"no time passes at {self._now} s; waiting:{self.describe(self.left_behind())}")
        for _ in range(turns):
            callback = ready.popleft()
            process = callback.process
            if not callback._cancelled and (process is None or process.admits(callback)):
                callback._run()

    def _jump_to_next_timer(self) -> None:
        timers = self._timers
        # Timers of the dead do not move time: the world goes on as if they had never been set.
        while timers and (timers[0][2].cancelled() or _is_dead(timers[0][2].process)):
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"every task waits and no timer is set:{self.describe(self.left_behind())}")
        when = timers[0][0]
        if when > self.time_limit:
            raise OutOfTime(f"{self.time_limit} s are over; waiting:{self.describe(self.left_behind())}")
        if when > self._now:
            self._now = when
            self._callbacks_this_instant = 0

    def _timer_handle_cancelled(self, _timer: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1
        if self._timers_cancelled > max(_PRUNE_FROM, len(self._timers) // 2):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def _asyncgen_firstiter_hook(self, generator: AsyncGeneratorType[Any, Any]) -> None:
        # Held until the loop closes, so that no collection decides when, and in which process, `aclose` runs.
        if len(self._generators) >= self._prune_generators_at:
            self._generators = [old for old in self._generators if old.ag_frame is not None]
            self._prune_generators_at = max(_PRUNE_FROM, 2 * len(self._generators))
        self._generators.append(generator)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        # Tasks freed after `close` complain here too, as pending or unheard. It is not read: they are abandoned.
        self.failures.append(context.get("exception") or RuntimeError(context["message"]))


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


def _is_dead(process: Process | None) -> bool:
    return process is not None and process.dead


def _unheard(task: asyncio.Task[Any]) -> bool:
    """Whether the task failed and its exception was never retrieved."""
    return task.done() and task._log_traceback
