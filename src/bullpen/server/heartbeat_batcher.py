"""Beats that arrive while others are being written share the next write: one commit, however many workers.

Each beat is answered after the commit that holds it. Under load the groups grow and the price of a beat falls; when
even that is not enough, longer leases are granted, so that fewer beats come.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from bullpen.errors import BullpenError, Unavailable
from bullpen.liveness.heartbeat import Recorded
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model import limits

MOST_WAITING = 50_000  # beats; more than a process can write within any lease
AT_ONCE = 2  # groups under way: while one is being answered the next is being written
LOADED_FROM = 5_000  # beats waiting, half a second's worth: from here on longer leases are granted

Beats: TypeAlias = Sequence[tuple[HeartbeatRequest, str]]  # each with the id of its instance
Results: TypeAlias = Sequence[Recorded] | BullpenError
Done: TypeAlias = Callable[[Results], None]
Record: TypeAlias = Callable[[Beats, bool], Awaitable[Sequence[Recorded]]]


class HeartbeatBatcher:
    """Groups beats. `record` writes a group and returns a result for each beat; its second argument says whether the
    process is overloaded."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: deque[tuple[Beats, Done]] = deque()
        self._beats = 0
        self._tasks: list[asyncio.Task[None]] = []

    def submit(self, beats: Beats, done: Done) -> None:
        """Have beats written together (at most `limits.BEATS`); `done` is called with their results, or with the error
        that kept them from being written."""
        if self._beats + len(beats) > MOST_WAITING:
            done(Unavailable("more heartbeats arrive than can be written"))
            return
        self._waiting.append((beats, done))
        self._beats += len(beats)
        if len(self._tasks) < AT_ONCE:
            self._tasks.append(asyncio.get_running_loop().create_task(self._write()))

    async def close(self) -> None:
        """Write what has arrived."""
        await asyncio.gather(*self._tasks)

    async def _write(self) -> None:
        await asyncio.sleep(0)  # what arrives in this turn of the loop comes along
        while self._waiting:
            group, beats = self._next_group()
            results = await self._results(beats)
            self._beats -= len(beats)
            if isinstance(results, BullpenError):
                for _, done in group:
                    done(results)
                continue
            start = 0
            for sent, done in group:
                done(results[start : start + len(sent)])
                start += len(sent)
        self._tasks = [task for task in self._tasks if task is not asyncio.current_task()]

    def _next_group(self) -> tuple[list[tuple[Beats, Done]], Beats]:
        group = [self._waiting.popleft()]
        beats = list(group[0][0])
        while self._waiting and len(beats) + len(self._waiting[0][0]) <= limits.BEATS:
            group.append(self._waiting.popleft())
            beats += group[-1][0]
        return group, beats

    async def _results(self, beats: Beats) -> Results:
        try:
            return await self._record(beats, self._beats > LOADED_FROM)
        except BullpenError as exc:
            return exc
        except Exception as exc:
            # Whatever it was, the others wait for an answer, and the next group for its turn.
            return Unavailable(f"an unexpected {type(exc).__name__}")
