"""Observations in memory."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.engines.memory.faults import Faults, request


class MemoryObservations:
    def __init__(self, seen: dict[str, dict[str, datetime]], faults: Faults) -> None:
        self._seen = seen
        self._faults = faults

    @request("observations.observe")
    def observe(self, topic: str, keys: Sequence[str], now: datetime, *, remember: bool = True) -> dict[str, datetime]:
        before = self._seen.get(topic, {})
        since = {key: before.get(key, now) for key in keys}
        if remember:
            self._seen[topic] = since
        return since
