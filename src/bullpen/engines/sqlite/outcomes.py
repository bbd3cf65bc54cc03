"""Answers on their way from a database thread to the coroutines that await them."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a function returned, or the error it ended with."""

    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


def deliver(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures, each on its own loop, from another thread. One call into a loop wakes a whole group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.future.get_loop(), []).append(outcome)
    for loop, share in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: nobody awaits any more
            loop.call_soon_threadsafe(_resolve, share)


def _resolve(outcomes: list[Outcome]) -> None:
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
