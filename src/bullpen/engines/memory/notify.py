"""Wake-ups among simulated processes."""

import asyncio
from contextlib import suppress


class MemoryWakeups:
    """Rung at every change. Rings are counted, so that one between two waits is heard at the second."""

    def __init__(self) -> None:
        self.rings = 0
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self.rings += 1
        self._rung.set()  # wakes all that wait now …
        self._rung = asyncio.Event()  # … and none that waits later

    async def next_ring(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._rung.wait()


class WakeupListener:
    """One process at a bell."""

    def __init__(self, bell: MemoryWakeups) -> None:
        self._bell = bell
        self._heard = bell.rings

    async def wait(self, within: float) -> None:
        """Return at the first ring since the previous call, at the latest after `within` seconds."""
        if self._heard == self._bell.rings:
            await self._bell.next_ring(within)
        else:
            await asyncio.sleep(0)
        self._heard = self._bell.rings
