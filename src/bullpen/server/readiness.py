"""Whether the store can be read and written, probed at most once a second.

`/readyz` needs no token: the number of requests must not decide how often the store is written to.
"""

import asyncio

from bullpen.errors import BullpenError
from bullpen.pool.setbacks import reason_of
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

STORE_ANSWERS = 2.0  # seconds
VALID_FOR = 1.0  # seconds

log = get_logger("bullpen.server")


class Readiness:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._asking = asyncio.Lock()
        self._works = True
        self._asked_at: float | None = None

    async def store_works(self) -> bool:
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._asked_at is None or now - self._asked_at >= VALID_FOR:
                works = await self._probe()
                self._asked_at = asyncio.get_running_loop().time()
                if works and not self._works:
                    log.info("store can be read and written again")
                self._works = works
            return self._works

    async def _probe(self) -> bool:
        try:
            async with asyncio.timeout(STORE_ANSWERS):
                await self._ports.health.probe(self._ports.clock.now())
        except (BullpenError, TimeoutError) as failure:
            if self._works:
                why = reason_of(failure) if isinstance(failure, BullpenError) else f"no answer in {STORE_ANSWERS:g} s"
                log.error("store cannot be read or written", error=why)
            return False
        return True
