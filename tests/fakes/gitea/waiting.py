"""Waiting for a process of others: by asking it again, with patience for a busy machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 240.0  # seconds; what is waited for takes a few, so only a failing test takes so long
PAUSE = 0.05


def until(look: Callable[[], T | None], what: str) -> T:
    """The first answer of `look` that is true. What it says of itself, in `what`, is in the failure."""
    ends = time.monotonic() + PATIENCE
    while not (found := look()):
        if time.monotonic() > ends:
            raise AssertionError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(PAUSE)
    return found
