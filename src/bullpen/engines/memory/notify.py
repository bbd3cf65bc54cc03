"""Wake-ups among simulated processes."""

import asyncio


class MemoryWakeups:
    """Rung at every change. Rings are counted, so that one between two waits is heard at the second. A pool in memory
    may outlive a loop, so this holds no primitive that is bound to one."""

    def __init__(self) -> None:
        self.rings = 0
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        self.rings += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next_ring(self, within: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout(within):
                await future
        except TimeoutError:
            self._waiting = [other for other in self._waiting if other is not future]


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
