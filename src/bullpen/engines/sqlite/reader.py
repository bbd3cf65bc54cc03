"""Reads: one thread with its own connection. A reader of a WAL database neither blocks nor is blocked.

Here is also how answers get from a database thread to the coroutines that await them; the writer uses it too.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from bullpen.engines.sqlite.errors import translated
from bullpen.engines.sqlite.turnstile import connect
from bullpen.lazy_dataclass import dataclass
from bullpen.ports.traffic import RequestResult, Traffic

SERVICE = "sqlite"  # in `Traffic`

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkOutcome:
    """What a function returned, or the error it ended with."""

    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


def deliver(outcomes: Iterable[WorkOutcome]) -> None:
    """Resolve the futures, each on its own loop, from another thread. One call into a loop wakes a whole group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[WorkOutcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.future.get_loop(), []).append(outcome)
    for loop, share in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: no coroutine awaits it any more
            loop.call_soon_threadsafe(_resolve, share)


def _resolve(outcomes: list[WorkOutcome]) -> None:
    for outcome in outcomes:
        if outcome.future.done():
            continue  # the awaiter was cancelled; what was done stays done
        if outcome.error is None:
            outcome.future.set_result(outcome.value)
        elif isinstance(outcome.error, StopIteration):
            # A future refuses StopIteration, and its awaiter would wait for ever.
            error = RuntimeError("a database function raised StopIteration")
            error.__cause__ = outcome.error
            outcome.future.set_exception(error)
        else:
            outcome.future.set_exception(outcome.error)


class Snapshot:
    """The database as of one moment: everything a function reads through it is consistent."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Iterable[Any] | dict[str, Any] = ()) -> sqlite3.Cursor:
        """A parameter that stands several times has a name, `:now`. Numbers, `?1`, are deprecated in Python 3.12."""
        return self._connection.execute(sql, parameters if isinstance(parameters, dict) else tuple(parameters))


class SqliteReader:
    """Runs functions on a thread of its own, each on one snapshot, in order of arrival."""

    def __init__(self, database: Path, traffic: Traffic | None = None) -> None:
        self._database = database
        self._traffic = traffic or Traffic()
        self._waiting: SimpleQueue[tuple[Callable[[Snapshot], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bullpen-reader", daemon=True)
        self._connection: sqlite3.Connection | None = None
        self._thread.start()

    def submit(self, function: Callable[[Snapshot], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put((function, future))
        return future

    def stop(self) -> None:
        """Answer what has been asked, then end the thread. Blocks for as long."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._waiting.get()) is not None:
            function, future = asked
            deliver([self._answer(function, future)])
        if self._connection is not None:
            self._connection.close()

    def _answer(self, function: Callable[[Snapshot], T], future: asyncio.Future[T]) -> WorkOutcome:
        try:
            if self._connection is None:
                self._connection = connect(self._database)
                self._connection.execute("PRAGMA query_only = ON")
            self._connection.execute("BEGIN")
            try:
                found = WorkOutcome(future, function(Snapshot(self._connection)))
            finally:
                self._connection.execute("ROLLBACK")
            self._traffic.note(SERVICE, "read", RequestResult.OK)
            return found
        except Exception as exc:
            if isinstance(exc, sqlite3.Error):
                self._traffic.note(SERVICE, "read", RequestResult.FAILED)
            return WorkOutcome(future, error=translated(exc, self._database))
