"""The session record of one set, as its holder keeps it: the lease, and what was heard.

    stand-by   reads the record; takes it if it is free, or stood still for a whole lease on the monotonic clock
    holder     changes it every few seconds; every write names its epoch, so a holder that was replaced notices it

A write without an answer may have landed. Then the next write meets its own version in the store, and goes on from
there: holder and epoch say whose it is.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bullpen.errors import Conflict, Unavailable
from bullpen.model import set_session as sessions
from bullpen.model.set_session import HELD, SetSession, must_be_held
from bullpen.model.transition import Change, Check
from bullpen.ports import Ports
from bullpen.scale_sets.stillness import StillSessions

RENEWALS = 3  # within one lease: one may be late and one lost
ATTEMPTS = 5  # of one write that meets an earlier one of its own


class SessionLost(Exception):
    """Another process holds the set now: this one must not write, listen or acknowledge any more."""


class StandBy:
    """Watches the sessions that other processes hold, on this process's monotonic clock."""

    def __init__(self, ports: Ports, lease: float, process: str) -> None:
        self._ports = ports
        self._lease = lease
        self._process = process
        self._stillness = StillSessions()

    async def try_take(self, name: str, found: SetSession | None) -> "SessionRecord | None":
        """Become the holder of a set, if its session is free or its holder is gone; None otherwise."""
        session = found or sessions.absent(name)
        still = self._stillness.seconds(session)
        if session.state is HELD and still < self._lease:
            return None
        event = sessions.SessionTaken(
            at=self._ports.clock.now(),
            by=self._process,
            why="its holder is gone" if session.state is HELD else "it was free",
            holder=self._process,
            round=self._ports.chance.token(),
            lease=self._lease,
            watched=session.version,
            stood_still=still,
        )
        try:
            began = asyncio.get_running_loop().time()
            (taken,) = await self._ports.records.apply(sessions.take(session, event))
        except Conflict:  # another process was faster, or the holder lives
            return None
        return SessionRecord(self._ports, taken, began)


class SessionRecord:
    """The record of a session that this process holds. One write at a time. `began` is when the write that took it was
    sent, by the event loop."""

    def __init__(self, ports: Ports, taken: SetSession, began: float) -> None:
        self._ports = ports
        self._turn = asyncio.Lock()
        self._epoch, self._holder = taken.epoch, taken.holder
        self.stored = taken
        self.is_lost = False
        self.written_at = began  # when the last write that landed was sent

    @property
    def by(self) -> str:
        return self._holder

    def is_sure(self, lease: float) -> bool:
        """Whether no other process can have taken the set yet: each waits for a whole lease after a write that landed.
        False after a pause, until a write has landed again. True is out of date as soon as this process pauses: what
        must never land after another process took the set also needs the check `fence`."""
        return not self.is_lost and asyncio.get_running_loop().time() - self.written_at < lease

    @property
    def fence(self) -> Check:
        """The condition of a write that only the holder may make."""
        return must_be_held(self.stored)

    async def write(self, step: Callable[[SetSession, Any], Change[SetSession]], event: Any, **news: Any) -> SetSession:
        """Land one step of the holder. Raise SessionLost, Conflict if the step itself cannot be taken, and as the
        store does; then it may have landed."""
        async with self._turn:
            for _ in range(ATTEMPTS):
                if self.is_lost:
                    raise SessionLost(self.stored.id)
                fields = {"at": self._ports.clock.now(), "by": self._holder, "holder": self._holder}
                change = step(self.stored, event(**fields, epoch=self._epoch, **news))
                began = asyncio.get_running_loop().time()
                try:
                    (landed,) = await self._ports.records.apply(change)
                except Conflict as conflict:
                    self._meet(conflict)
                    continue
                self.stored, self.written_at = landed, began
                return self.stored
            raise Conflict(f"{self.stored.id} keeps changing while {self._holder} writes to it", found=self.stored)

    def _meet(self, conflict: Conflict) -> None:
        """An earlier write of this holder has landed after all, or another process holds the set."""
        found = conflict.found
        if not isinstance(found, SetSession) or (found.holder, found.epoch) != (self._holder, self._epoch):
            self.is_lost = True
            raise SessionLost(self.stored.id) from conflict
        self.stored = found

    async def keep(self, lease: float) -> None:
        """Renew the lease until it is cancelled, whatever else its holder waits for. Raise SessionLost, Outdated."""
        loop, every = asyncio.get_running_loop(), lease / RENEWALS
        while True:
            await asyncio.sleep(max(self.written_at + every - loop.time(), every / RENEWALS))
            if loop.time() - self.written_at >= every:
                with suppress(Unavailable):  # tried again in a moment
                    await self.write(sessions.renew, sessions.SessionRenewed)

    async def yield_(self, *, closed: bool) -> None:
        """Let another process take the set at once."""
        await self.write(sessions.yield_, sessions.SessionYielded, closed=closed, why="it stops listening")
        self.is_lost = True
