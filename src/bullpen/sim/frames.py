"""Suspended coroutines: where they wait, and how to let go of them without running another line of them.

When Python frees a suspended coroutine or generator it closes it first, which runs its `finally` blocks: the opposite
of what a killed process does. The interpreter finalizes each object at most once and keeps a mark of that in the
object's collector header; `abandon` sets the mark, so that the object is freed and nothing else. Where the header is
not laid out as expected, the object is kept for ever instead: memory is lost, the promise is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import linecache
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from types import AsyncGeneratorType, CellType, CoroutineType, FrameType, GeneratorType, MethodType
from typing import Any

_SUSPENDABLE = (CoroutineType, GeneratorType, AsyncGeneratorType)
_ASYNCIO = os.path.dirname(asyncio.__file__)


def waits_at(task: asyncio.Task[Any]) -> str:
    """Name the innermost line outside asyncio at which a suspended task stands."""
    awaited: object = task.get_coro()
    line = "before its first line"
    while isinstance(awaited, CoroutineType | GeneratorType):
        started, frame, awaited = _position(awaited)
        if started and frame is not None and not frame.f_code.co_filename.startswith(_ASYNCIO):
            path, number = frame.f_code.co_filename, frame.f_lineno
            line = f"{path}:{number}, in {frame.f_code.co_qualname}: {linecache.getline(path, number).strip()}"
    return line


def _position(
    thing: CoroutineType[Any, Any, Any] | GeneratorType[Any, Any, Any],
) -> tuple[bool, FrameType | None, object]:
    if isinstance(thing, CoroutineType):
        return thing.cr_suspended, thing.cr_frame, thing.cr_await
    return thing.gi_suspended, thing.gi_frame, thing.gi_yieldfrom


def abandon(roots: Iterable[object]) -> None:
    """See to it that freeing these, and what their frames have suspended, runs no code of theirs and warns of nothing.

    Followed are awaits, generators being iterated, and context managers made of generators, also inside exit stacks. A
    generator hidden in an object of one's own is not found.
    """
    seen: set[int] = set()
    pending = list(roots)
    while pending:
        found = pending.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, _SUSPENDABLE):
            _never_finalize(found)
        pending.extend(thing for thing in gc.get_referents(found) if type(thing) in _LEADS_ON)


def _never_finalize(thing: object) -> None:
    if _HEADER_KNOWN:
        _header_word(thing).value |= 1
    else:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _header_word(thing: object) -> ctypes.c_size_t:
    """The word of the collector's header that carries the mark, right in front of the object."""
    return ctypes.c_size_t.from_address(id(thing) - ctypes.sizeof(ctypes.c_size_t))


def _header_is_known() -> bool:
    """Whether the mark reads as expected on an object that was finalized (and lives) and on one that was not."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    saved: list[object] = []

    class Survivor:
        def __del__(self) -> None:
            saved.append(self)

    Survivor()
    survivor, newborn = saved[0], Survivor()
    known = gc.is_finalized(survivor) and _header_word(survivor).value & 1 == 1 and _header_word(newborn).value & 1 == 0
    saved.append(newborn)
    return known


async def _generated() -> AsyncGenerator[None, None]:
    yield


def _types_that_lead_on() -> frozenset[type]:
    """Through which objects a frame holds what it has suspended. Any other object is the world: stop there."""
    generated = _generated()
    steps: list[Any] = [generated.asend(None), generated.aclose()]
    for step in steps:
        step.close()
    managers = [contextlib.contextmanager(iter)(()), contextlib.asynccontextmanager(lambda: generated)()]
    stacks = [contextlib.ExitStack, contextlib.AsyncExitStack]
    return frozenset(
        [*_SUSPENDABLE, *map(type, steps + managers), *stacks, MethodType, CellType, dict, list, tuple, deque]
    )


_HEADER_KNOWN = _header_is_known()
_LEADS_ON = _types_that_lead_on()
