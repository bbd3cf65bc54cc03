"""Watcher: waits for the signals of many instances with one batched read per tick, however many callers wait.

The control plane sends no request to a machine: agents write what they did, and the watcher reads it. An event wakes it
where the engine has events. Otherwise its ticks grow from a tenth of a second to half a second.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from bullpen.config import Timings
from bullpen.lazy_dataclass import dataclass
from bullpen.model.signal import Kind, Pulse
from bullpen.model.signal_text import refused_version
from bullpen.ports import Clock, Signals


@dataclass(frozen=True, slots=True)
class SignalReached:
    """The awaited signal has come."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class SignalFailed:
    """The agent reported a failure in this round: waiting longer does not help. `refused_version` is that of its
    runner, if that is why."""

    reason: str
    refused_version: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatStale:
    """The heartbeat is old: the agent may be dead, or a clock wrong. A reason to hedge, not to end the instance."""


PulseVerdict = SignalReached | SignalFailed | HeartbeatStale
Judge = Callable[[Pulse], PulseVerdict | None]


def reaching(kind: Kind, round: str) -> Judge:
    """Judge a pulse by whether `kind` was reached, or something failed, in `round`."""

    def judge(pulse: Pulse) -> PulseVerdict | None:
        signal = pulse.signal
        if signal is None:
            return None
        if signal.fails(round):
            return SignalFailed(signal.failure, refused_version(signal.text) or "")
        return SignalReached(signal.kind) if signal.proves(kind, round) else None

    return judge


@dataclass(slots=True)
class _Wait:
    cases: Mapping[str, Judge]
    until: float
    answer: "asyncio.Future[tuple[str, PulseVerdict] | None]"


class Watcher:
    """Shared by all callers of one use case; `async with` ends its reading task."""

    def __init__(self, signals: Signals, clock: Clock, timings: Timings) -> None:
        self._signals = signals
        self._clock = clock
        self._timings = timings
        self._waits: list[_Wait] = []
        self._reader: asyncio.Task[None] | None = None
        self._nap: asyncio.Task[None] | None = None
        self._nap_ends = 0.0
        self._tick = timings.tick_first
        self._last: dict[str, Pulse] = {}
        self._watched: dict[str, float] = {}  # since when, without a gap
        self._read_at: dict[str, float] = {}
        self._changed: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        tasks = [task for task in (self._nap, self._reader) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def first(self, cases: Mapping[str, Judge], timeout: float) -> tuple[str, PulseVerdict] | None:
        """The first verdict on any of these instances, by id; None if there is none in time."""
        loop = asyncio.get_running_loop()
        wait = _Wait(cases, loop.time() + timeout, loop.create_future())
        self._waits.append(wait)
        self._tick = self._timings.tick_first
        if self._reader is None or self._reader.done():
            self._reader = loop.create_task(self._read_all())
        elif self._nap is not None and self._nap_ends > loop.time() + self._tick:
            self._nap.cancel()
        try:
            return await wait.answer
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    async def read(self, ids: list[str]) -> dict[str, Pulse]:
        """Read and remember the pulses of these instances, in one request."""
        pulses = await self._signals.read(ids)
        self._observe(pulses)
        return pulses

    async def is_alive(self, ids: list[str]) -> dict[str, bool]:
        """Judge liveness: its pulse changed or proved something while this watcher watched, or its heartbeat is recent.

        So a skewed clock condemns no instance that moved while it was watched.
        """
        await self.read(ids)
        return {id: self.lives(id) for id in ids}

    def is_silent(self, id: str) -> bool:
        """True if this watcher has read its pulse for as long as an agent may be silent, without a sign of life."""
        watched = asyncio.get_running_loop().time() - self._watched[id]
        return watched >= self._timings.alive and not self.lives(id)

    async def signs_of_life(self, ids: list[str]) -> set[str]:
        """The instances that are alive. A clock may be skewed, so those that seem silent are watched for a heartbeat
        first."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._timings.heartbeat * 1.5
        while True:
            alive = {id for id, lives in (await self.is_alive(ids)).items() if lives}
            if len(alive) == len(ids) or loop.time() >= until:
                return alive
            await self._signals.wait(min(self._timings.tick_longest, until - loop.time()))

    async def _read_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waits:
                ids = list(dict.fromkeys(id for wait in self._waits for id in wait.cases))
                await self.read(ids)
                self._answer(loop.time())
                if not self._waits:
                    return
                nearest = min(wait.until for wait in self._waits) - loop.time()
                await self._sleep(max(min(self._tick, nearest), 0.001))
                self._tick = min(self._tick * 1.5, self._timings.tick_longest)
        except Exception as error:
            for wait in self._waits:
                if not wait.answer.done():
                    wait.answer.set_exception(error)
            self._waits.clear()

    def lives(self, id: str) -> bool:
        """True if the last read shows that it is alive now."""
        within = self._timings.alive
        moved = id in self._changed and asyncio.get_running_loop().time() - self._changed[id] <= within
        return moved or self._last[id].is_recent(self._clock.now(), within)

    def _observe(self, pulses: Mapping[str, Pulse]) -> None:
        now = asyncio.get_running_loop().time()
        for id, pulse in pulses.items():
            # After a long gap neither a change nor its absence proves anything: the change itself may be old.
            if id not in self._last or now - self._read_at[id] > self._timings.alive:
                self._watched[id] = now
            elif self._last[id] != pulse:
                self._changed[id] = now
            self._last[id], self._read_at[id] = pulse, now

    def _answer(self, now: float) -> None:
        open_waits = []
        for wait in self._waits:
            verdicts = ((id, judge(self._last[id])) for id, judge in wait.cases.items() if id in self._last)
            found = next(((id, verdict) for id, verdict in verdicts if verdict is not None), None)
            if wait.answer.done():
                continue
            if found is not None or wait.until <= now:
                if found is not None and isinstance(found[1], SignalReached):
                    self._changed[found[0]] = now
                wait.answer.set_result(found)
            else:
                open_waits.append(wait)
        self._waits = open_waits

    async def _sleep(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        self._nap_ends = loop.time() + timeout
        self._nap = loop.create_task(self._signals.wait(timeout))
        try:
            await self._nap
        except asyncio.CancelledError:
            # A new caller cut the nap short. If this task itself was cancelled, pass that on.
            if (me := asyncio.current_task()) is not None and me.cancelling():
                raise
