"""Histogram: how often a duration fell into each of a fixed row of buckets. Plain numbers, which `/metrics` shows."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """`bounds` are upper bounds in seconds, in order; what is longer than all of them counts only in `count`."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[int]:
        """How many were at most as long as each bound, and how many there were."""
        sums, so_far = [], 0
        for count in self.counts:
            so_far += count
            sums.append(so_far)
        return sums
