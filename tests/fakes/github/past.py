"""Lists that lag: for a while they show what was true before, as GitHub's do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from fakes.github.state import State


class Past:
    """Remembers each list after every change, while there is a lag."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._lists: dict[str, Callable[[], Any]] = {}
        self._seen: dict[str, list[tuple[datetime, Any]]] = {}
        self.lag = 0.0

    def begin(self, lag: float) -> None:
        """From now on. What is true now has been so for long."""
        with self._state.lock:
            self.lag = lag
            self._seen.clear()
            self._remember(datetime.min.replace(tzinfo=self._state.clock().tzinfo))

    def watch(self, kind: str, now: Callable[[], Any]) -> None:
        self._lists[kind] = now

    def note(self) -> None:
        if self.lag:
            self._remember(self._state.clock())

    def shown(self, kind: str) -> Any:
        if not self.lag:
            return self._lists[kind]()
        since = self._state.clock() - timedelta(seconds=self.lag)
        return next(views for at, views in reversed(self._seen[kind]) if at <= since)

    def _remember(self, at: datetime) -> None:
        for kind, now in self._lists.items():
            self._seen.setdefault(kind, []).append((at, now()))
