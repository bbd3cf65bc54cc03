"""Beats that arrive while others are being written share the next write: one commit, however many workers.

Everybody is answered after the commit that holds their beat. Under load the groups grow and the price of a beat falls;
when even that is not enough, longer leases are granted, so that fewer beats come.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from bullpen.errors import BullpenError, ConfigError, Unavailable
from bullpen.liveness.heartbeat import MOST_BEATS, Recorded
from bullpen.liveness.request import HeartbeatRequest

MOST_WAITING = 50_000  # beats; more than a process can write within any lease
AT_ONCE = 2  # groups under way: while one is being answered the next is being written
LOADED_FROM = 5_000  # beats waiting, half a second's worth: from here on longer leases are granted

Results: TypeAlias = Sequence[Recorded | ConfigError] | BullpenError
Done: TypeAlias = Callable[[Results], None]
Record: TypeAlias = Callable[[Sequence[HeartbeatRequest], bool], Awaitable[Sequence[Recorded | ConfigError]]]


class Intake:
    """Groups beats. `record` writes a group and answers for each of it; it is told whether we are overloaded."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._waiting: deque[tuple[Sequence[HeartbeatRequest], Done]] = deque()
        self._beats = 0
        self._tasks: list[asyncio.Task[None]] = []

    def submit(self, requests: Sequence[HeartbeatRequest], done: Done) -> None:
        """Have beats written together (at most `MOST_BEATS`); `done` hears what came of them, or why nothing did."""
        if self._beats + len(requests) > MOST_WAITING:
            done(Unavailable("more heartbeats arrive than can be written"))
            return
        self._waiting.append((requests, done))
        self._beats += len(requests)
        if len(self._tasks) < AT_ONCE:
            self._tasks.append(asyncio.get_running_loop().create_task(self._write()))

    async def close(self) -> None:
        """Write what has arrived."""
        await asyncio.gather(*self._tasks)

    async def _write(self) -> None:
        await asyncio.sleep(0)  # what arrives in this turn of the loop comes along
        while self._waiting:
            group, requests = self._next_group()
            outcome = await self._outcome(requests)
            self._beats -= len(requests)
            start = 0
            for asked, done in group:
                end = start + len(asked)
                done(outcome if isinstance(outcome, BullpenError) else outcome[start:end])
                start = end
        self._tasks = [task for task in self._tasks if task is not asyncio.current_task()]

    def _next_group(self) -> tuple[list[tuple[Sequence[HeartbeatRequest], Done]], list[HeartbeatRequest]]:
        group = [self._waiting.popleft()]
        requests = list(group[0][0])
        while self._waiting and len(requests) + len(self._waiting[0][0]) <= MOST_BEATS:
            group.append(self._waiting.popleft())
            requests += group[-1][0]
        return group, requests

    async def _outcome(self, requests: Sequence[HeartbeatRequest]) -> Results:
        try:
            return await self._record(requests, self._beats > LOADED_FROM)
        except BullpenError as exc:
            return exc
        except Exception as exc:
            # Whatever it was, the others wait for an answer, and the next group for its turn.
            return Unavailable(f"an unexpected {type(exc).__name__}")
