"""The event stream of the pool: one read of the store for all watchers, and each gets what changed.

There is no journal to read: an event is the latest state of what changed since the last read, so of two changes in one
moment a watcher sees the second. The stream of a watcher that does not keep up is closed; it connects again, and its
new stream begins with everything there is. One read of a large pool may have more events than a watcher may lag behind:
lag is measured before they are added.

What a read finds is encoded once (`live_pool`), joined to large pieces once, and every watcher gets the same pieces.
The pause after a read grows with the time that it took, so watching takes a small share of the store and of this
process, however large the pool is.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import replace

from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.ports import Ports
from bullpen.schema.event import EventKind, TroubleEvent
from bullpen.server.live_pool import LivePool
from bullpen.server.operations import Operations

TICK = 0.5  # seconds between reads at least: a watcher is a person
LONGEST_TICK = 5.0  # … and at most, unless a read itself takes as long
SHARE = 60  # a pause is so many times as long as the read before it
QUIET = 15.0  # seconds after which a silent stream sends a comment: proxies close idle connections
RECHECK = 2.0  # seconds after which a silent stream checks whether its token is still valid
BACKLOG = 1000  # events that a watcher may lag behind


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events, as they are sent."""

    events: int
    content: bytes


class StreamWatcher:
    """One stream. It has begun once everything that there is was put into its line."""

    def __init__(self) -> None:
        self.line: asyncio.Queue[Piece | None] = asyncio.Queue()
        self.lag = 0
        self.has_begun = False

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self.lag += piece.events
            self.line.put_nowait(piece)

    def end(self) -> None:
        """Close its stream, without what it has not read."""
        while not self.line.empty():
            self.line.get_nowait()
        self.line.put_nowait(None)


class Events:
    """The stream. Its one task reads only while a watcher is connected."""

    piece = 64 * 1024  # bytes that are sent at once, at least: a thousand small writes cost more than what they carry

    def __init__(self, ports: Ports, operations: Operations) -> None:
        self._ports = ports
        self._pool = LivePool(ports, operations)
        self._watchers: list[StreamWatcher] = []
        self._task: asyncio.Task[None] | None = None
        self._is_current = False
        self._in_trouble = False

    async def stream(self, may_go_on: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """Everything there is, then everything that changes. It ends when `may_go_on` says so, which is asked before
        each piece and every few seconds: a token may be revoked, or expire, while its stream is open."""
        watcher = StreamWatcher()
        self._watchers.append(watcher)
        try:
            if self._task is None or self._task.done():
                self._is_current = False  # nothing was read while no watcher was connected
                self._task = asyncio.get_running_loop().create_task(self._watch())
            if self._is_current:
                self._begin(watcher)  # with the last read: what changes from here on comes after it in its line
            yield b"retry: 2000\n\n"
            silent = 0.0
            while True:
                content: bytes | None = b""
                try:
                    async with asyncio.timeout(RECHECK):
                        piece = await watcher.line.get()
                    watcher.lag -= piece.events if piece else 0
                    content = piece.content if piece else None
                except TimeoutError:
                    silent += RECHECK
                    content = b": still here\n\n" if silent >= QUIET else b""
                if content is None or not may_go_on():
                    return
                if content:
                    silent = 0.0
                    yield content
        finally:
            self._watchers.remove(watcher)

    def count(self) -> int:
        """How many streams are open."""
        return len(self._watchers)

    async def close(self) -> None:
        for watcher in self._watchers:
            watcher.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def live(self) -> list[Instance] | None:
        """Every live instance as of the last read, a moment ago; None while nothing is read, or cannot be."""
        is_read = self._task is not None and not self._task.done()
        return self._pool.live() if is_read and self._is_current and not self._in_trouble else None

    async def _watch(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._watchers:
            began = clock()
            try:
                self._tell(await self._pool.read())
            except (BullpenError, OSError) as exc:  # of the store, or of the files of operations
                self._in_trouble = True
                self._tell_trouble(TroubleEvent(str(exc)))
            await asyncio.sleep(min(LONGEST_TICK, max(TICK, SHARE * (clock() - began))))
            await self._ports.signals.wait(TICK)

    def _tell(self, events: list[bytes]) -> None:
        if self._in_trouble:
            events, self._in_trouble = [*events, self._pool.ready()], False
        self._is_current = True
        pieces = [*self._pieces(events)]
        for watcher in self._watchers:
            if not watcher.has_begun:
                self._begin(watcher)
            elif watcher.lag >= BACKLOG:
                watcher.end()
            else:
                watcher.add(pieces)

    def _tell_trouble(self, trouble: TroubleEvent) -> None:
        """Also to those that have not begun: they see why nothing comes."""
        for watcher in self._watchers:
            if watcher.lag >= BACKLOG:
                watcher.end()
            else:
                watcher.add([Piece(1, self._pool.encoded(EventKind.TROUBLE, trouble))])

    def _begin(self, watcher: StreamWatcher) -> None:
        """However much there is, it is no lag: a watcher may take its time to read all of it."""
        watcher.has_begun = True
        watcher.add([replace(piece, events=0) for piece in self._pieces(self._pool.beginning())])

    def _pieces(self, events: Iterable[bytes]) -> Iterator[Piece]:
        some: list[bytes] = []
        size = 0
        for event in events:
            some.append(event)
            size += len(event)
            if size >= self.piece:
                yield Piece(len(some), b"".join(some))
                some, size = [], 0
        if some:
            yield Piece(len(some), b"".join(some))
