"""Jobs that the CI offers to a set, on servers where a job does not come assigned: the set acquires what it can serve.

An offer that the set has no room for stays open at the CI, where another set may acquire it. The CI tells of it once,
so it is remembered here and acquired when there is room. A set that retires acquires nothing.
"""

from collections.abc import Iterable, Sequence

from bullpen.model.scale_set import READY, ScaleSet
from bullpen.ports import JobMessage, JobMessageKind, SetStatistics


class JobOffers:
    def __init__(self) -> None:
        self._open: dict[int, None] = {}  # by the request, in the order of the offers

    def hear(self, jobs: Iterable[JobMessage]) -> None:
        """A message came, perhaps once more. What is said of a job after its offer ends the offer."""
        for job in jobs:
            if job.request and job.kind is JobMessageKind.AVAILABLE:
                self._open[job.request] = None
            elif job.request and job.kind is not JobMessageKind.UNKNOWN:
                self._open.pop(job.request, None)

    def affordable(self, scale_set: ScaleSet, counts: SetStatistics) -> list[int]:
        """The offers that the set may acquire now, the oldest first."""
        if scale_set.state is not READY:
            return []
        room = scale_set.rules.max - max(counts.assigned, counts.acquired)
        return list(self._open)[: max(0, room)]

    def close(self, requests: Sequence[int]) -> None:
        """They were asked for: each is the set's now, or another set has it."""
        for request in requests:
            self._open.pop(request, None)
