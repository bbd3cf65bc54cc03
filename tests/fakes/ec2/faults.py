"""Faults: what goes wrong, for how many calls. Set through the control endpoint, asked by the server and the fleet."""

import asyncio
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

EVER = 1_000_000_000


@dataclass
class Capacity:
    """So many more machines of everything that matches; a pool is limited by every entry that matches it."""

    left: int
    instance_type: str = "*"
    zone: str = "*"
    market: str = "*"

    def covers(self, instance_type: str, zone: str, market: str) -> bool:
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(market, self.market)
        )


@dataclass
class RefusedAction:
    """The action answers with an error and does nothing."""

    action: str
    code: str
    message: str
    status: int | None
    times: int


@dataclass
class Spoiled:
    """A CreateFleet that answers 200 with this error inside, and launches at most `launches` machines."""

    code: str
    message: str
    launches: int
    times: int


@dataclass
class Lost:
    """The action is done, and its answer never arrives."""

    action: str
    times: int


@dataclass
class SlowAction:
    """The action answers, or for `before` even begins, only after so many seconds."""

    action: str
    seconds: float
    is_before: bool
    times: int


Fault = TypeVar("Fault", RefusedAction, Lost, SlowAction)


@dataclass
class Ec2Faults:
    capacity: list[Capacity] = field(default_factory=list)
    refused: list[RefusedAction] = field(default_factory=list)
    spoiled: list[Spoiled] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    slow: list[SlowAction] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)  # "ec2:CreateFleet", as a policy names it
    quotas: dict[str, float] = field(default_factory=lambda: {"on-demand": 100_000.0, "spot": 100_000.0})  # vCPUs
    withdrawn: asyncio.Event = field(default_factory=asyncio.Event)  # set by a reset: what still waits has no business

    def room(self, instance_type: str, zone: str, market: str) -> int:
        return min((entry.left for entry in self._covering(instance_type, zone, market)), default=EVER)

    def draw(self, instance_type: str, zone: str, market: str, count: int) -> None:
        for entry in self._covering(instance_type, zone, market):
            entry.left -= count

    def refusal(self, action: str) -> RefusedAction | None:
        return self._next(self.refused, action)

    def loss(self, action: str) -> Lost | None:
        return self._next(self.lost, action)

    def slowness(self, action: str, is_before: bool) -> SlowAction | None:
        return self._next([one for one in self.slow if one.is_before is is_before], action)

    def spoiling(self) -> Spoiled | None:
        for one in self.spoiled:
            if one.times > 0:
                one.times -= 1
                return one
        return None

    def _covering(self, instance_type: str, zone: str, market: str) -> list[Capacity]:
        return [entry for entry in self.capacity if entry.covers(instance_type, zone, market)]

    @staticmethod
    def _next(faults: list[Fault], action: str) -> Fault | None:
        for one in faults:
            if one.times > 0 and fnmatchcase(action, one.action):
                one.times -= 1
                return one
        return None
