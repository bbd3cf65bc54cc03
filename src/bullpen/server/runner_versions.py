"""Until when GitHub accepts the runners of the pool: what the agents of some instances reported, asked of the CI.

The answer of minutes ago is as good: GitHub releases a runner every few weeks. So however many pages ask, it costs one
read of some instances and their signals now and then.
"""

import asyncio
from collections import Counter

from bullpen.config import Settings
from bullpen.pool.runner_versions import version_of
from bullpen.ports import Ports
from bullpen.schema.base import time_of
from bullpen.schema.control import RunnerVersionAnswer

LOOKED_AT = 500  # instances: a pool has few versions, and the oldest of them matters
LASTS = 300.0  # seconds


class RunnerVersions:
    """Which version of GitHub's runner the pool uses, and until when it can."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._asking = asyncio.Lock()
        self._known: tuple[float, RunnerVersionAnswer | None] | None = None

    async def soonest_refused(self, settings: Settings) -> RunnerVersionAnswer | None:
        """The version that is refused first, or the one that most runners have if none is refused soon; None where the
        CI is not GitHub, and while no runner has reported its version."""
        if not settings.on_github:
            return None
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._known is None or now - self._known[0] >= LASTS:
                self._known = now, await self._asked()
            return self._known[1]

    async def _asked(self) -> RunnerVersionAnswer | None:
        live = await self._ports.records.live(LOOKED_AT)
        pulses = await self._ports.signals.read([one.id for one in live]) if live else {}
        used = Counter(version for pulse in pulses.values() if (version := version_of(pulse)))
        if not used:
            return None
        refused = await self._ports.ci.refusals(sorted(used))
        if refused:
            at, version = min((at, version) for version, at in refused.items())
            return RunnerVersionAnswer(version, time_of(at))
        return RunnerVersionAnswer(used.most_common(1)[0][0], None)
