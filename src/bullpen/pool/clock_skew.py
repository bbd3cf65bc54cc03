"""Clock skew: may this process end an instance because its own clock says that it is late?

A record's threshold was written by one process and is read by another. If the clock of the reader is hours ahead, every
running instance seems to be past its maximum runtime. So a process checks its clock before it ends anything for being
late:

    the store has a clock   its answers show the skew (AWS: the `Date` of every answer of DynamoDB)
    one host                agents use the same clock. If no heartbeat is recent, they are watched: one that beats now,
                            with another time than this process, shows the skew. An agent sends its first heartbeat
                            after it has registered its runner, so one that has sent none is watched if it seems late

If no agent beats, there is no evidence against the clock. With a skew of more than `timings.alive`, nothing is ended.
"""

import asyncio

from bullpen.config import Settings
from bullpen.errors import WrongClock
from bullpen.model.instance import TERMINATED
from bullpen.ports import Ports

WITNESSES = 100  # instances whose heartbeats are read
WATCHED = 1.5  # heartbeats: a living agent beats within it
WATCHED_AT_LEAST = 5.0  # seconds: on a busy machine a heartbeat comes seconds late, and must not be missed for that
LASTS = 5.0  # seconds for which a `ClockCheck` remembers its answer
RESTS = 4  # times as long as a check took: otherwise, where all agents are dead, every duty would wait for a check
REMEDY = "Set the clock of this machine (NTP), and try again."


async def doubt(ports: Ports, settings: Settings) -> str:
    """Why the clock of this machine must not be trusted; empty if it may be."""
    ahead = ports.store_clock.ahead()
    whose = "the store's"
    if ahead is None:
        ahead, whose = await _ahead_of_agents(ports, settings), "that of the agents"
    if abs(ahead) <= settings.timings.alive:
        return ""
    return f"the clock of this machine is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} {whose}"


async def require_right(ports: Ports, settings: Settings) -> None:
    """Raise WrongClock if the clock must not be trusted."""
    if why := await doubt(ports, settings):
        raise WrongClock(f"{why}: nothing is ended", remedy=REMEDY)


class ClockCheck:
    """`require_right` for all duties of one process, which share one check."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings
        self._checking = asyncio.Lock()
        self._check_again_at = 0.0
        self._why = ""

    async def require_right(self) -> None:
        async with self._checking:
            loop = asyncio.get_running_loop()
            if (began := loop.time()) >= self._check_again_at:
                self._why = await doubt(self._ports, self._settings)
                ended = loop.time()
                self._check_again_at = ended + max(LASTS, RESTS * (ended - began))
        if self._why:
            raise WrongClock(f"{self._why}: nothing is ended", remedy=REMEDY)


async def _ahead_of_agents(ports: Ports, settings: Settings) -> float:
    """Seconds by which this clock is ahead of that of an agent that beats; 0 if none does."""
    loop, timings = asyncio.get_running_loop(), settings.timings
    live = [one for one in await ports.records.live(WITNESSES) if one.state is not TERMINATED]
    pulses = await ports.signals.read([one.id for one in live]) if live else {}
    now = ports.clock.now()
    if any(pulse.is_recent(now, timings.alive) for pulse in pulses.values()):
        return 0.0
    seen = {one.id: pulses[one.id].heartbeat for one in live if pulses[one.id].heartbeat or one.threshold <= now}
    until = loop.time() + max(timings.heartbeat * WATCHED, WATCHED_AT_LEAST)
    while seen and loop.time() < until:
        await ports.signals.wait(min(timings.tick_longest, until - loop.time()))
        for id, pulse in (await ports.signals.read(list(seen))).items():
            if pulse.heartbeat is not None and pulse.heartbeat != seen[id]:
                return (ports.clock.now() - pulse.heartbeat.at).total_seconds()
    return 0.0
