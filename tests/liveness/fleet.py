"""A fleet of workers in virtual time: many beats in few requests, and a control plane that can be taken away."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from bullpen.liveness import LivenessController, LivenessPass
from bullpen.liveness.heartbeat import record_heartbeats
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest
from bullpen.model.worker import ACTIVE
from liveness.fixtures import Crew


@dataclass
class Hand:
    """One worker, as it knows itself."""

    key: str
    domain: str
    token: int = 0
    next_at: float = 0.0
    silent: bool = False
    takes_up: tuple[Binding, ...] = ()


@dataclass
class Fleet:
    """`lease` and beats as a caller has them that names no lease: 60 s, a beat every 20 s."""

    crew: Crew
    count: int = 1000
    lease: int = 60
    domains: Sequence[str] = ("a",)
    seed: int = 1
    hands: list[Hand] = field(default_factory=list)
    passed: list[LivenessPass] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        for number in range(self.count):
            self.hire(f"w{number:04}", self.domains[number % len(self.domains)])

    def hire(self, key: str, domain: str) -> Hand:
        """They did not all start at the same moment."""
        now = asyncio.get_running_loop().time()
        self.hands.append(Hand(key, domain, next_at=now + self.random.uniform(0, self.lease / 3)))
        return self.hands[-1]

    def some(self, share: float) -> list[Hand]:
        return self.random.sample(self.hands, round(share * len(self.hands)))

    @property
    def lost(self) -> list[str]:
        return [key for one in self.passed for key in one.sweep.lost]

    def active(self) -> int:
        return sum(one.state is ACTIVE for one in self.crew.memory.tables.workers.values())

    async def lives(self, seconds: int, *liveness: LivenessController, hears: bool = True) -> None:
        """Time passes. Without `hears` nothing reaches the store: every worker tries again a little later."""
        for _ in range(seconds):
            await self._beats(hears)
            for one in liveness:
                self.passed.append(await one.run_once())
            await asyncio.sleep(1.0)

    async def _beats(self, hears: bool) -> None:
        time = asyncio.get_running_loop().time()
        due = [hand for hand in self.hands if not hand.silent and hand.next_at <= time]
        if not hears:
            for hand in due:
                hand.next_at = time + self.random.uniform(1, 30)
            return
        for start in range(0, len(due), 1000):
            chunk = due[start : start + 1000]
            requests = [
                HeartbeatRequest(key=h.key, token=h.token, lease=self.lease, domain=h.domain, bound=h.takes_up)
                for h in chunk
            ]
            answers = await record_heartbeats(self.crew.ports, self.crew.settings, requests)
            for hand, answer in zip(chunk, answers, strict=True):
                if isinstance(answer, HeartbeatAnswer):
                    hand.token, hand.next_at, hand.takes_up = answer.token, time + answer.next_in, ()
                else:
                    self.refused += 1
