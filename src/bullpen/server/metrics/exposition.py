"""The answer to a scrape: one for all that ask at the same time, and within a second.

A store that cannot be read is no error of the scrape: `bullpen_store_up` is 0, the series of the pool are missing, and
those of the process are there. Prometheus then alerts on the one and keeps the others.
"""

import asyncio
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.errors import BullpenError
from bullpen.pool.setbacks import reason_of
from bullpen.ports import Ports
from bullpen.server.heartbeats import Heartbeats
from bullpen.server.metrics.of_pool import put_pool
from bullpen.server.metrics.of_process import put_process, put_sets
from bullpen.server.metrics.reports import ReportTally
from bullpen.server.metrics.samples import Samples
from bullpen.server.metrics.store_read import StoreRead, read_store
from bullpen.structured_log import get_logger

STORE_ANSWERS = 8.0  # seconds: Prometheus gives up after ten
VALID_FOR = 1.0  # seconds

log = get_logger("bullpen.server")


class Metrics:
    """What one server shows. `streams` counts its open streams of events."""

    def __init__(self, ports: Ports, service: Service, heartbeats: Heartbeats, streams: Callable[[], int]) -> None:
        self._ports = ports
        self._service = service
        self._heartbeats = heartbeats
        self._streams = streams
        self._reading = asyncio.Lock()
        self._text = ""
        self._made_at: float | None = None
        self._trouble = ""
        self._reports = ReportTally(ports.clock.now())
        # Registered with no registry of the library's own: two servers of one process must not share numbers.
        self._process = ProcessCollector(registry=None)

    async def answer(self, settings: Settings) -> str:
        """The text of a scrape. Those who wait for the lock get what the first one has made: however many ask, they
        cost no more than one a second, so no load limit refuses them."""
        loop = asyncio.get_running_loop()
        async with self._reading:
            if self._made_at is None or loop.time() - self._made_at >= VALID_FOR:
                began = loop.time()
                read = await self._try_read(settings)
                self._text = self._made(settings, read, loop.time() - began)
                self._made_at = loop.time()
            return self._text

    def _made(self, settings: Settings, read: StoreRead | None, lasted: float) -> str:
        samples = Samples()
        samples.put("store_up", read is not None)
        samples.put("store_read_seconds", lasted)
        if read is not None:
            put_pool(samples, settings, read)
            self._reports.put(samples, settings)
        put_process(samples, self._ports, self._service, self._heartbeats, self._streams())
        if settings.on_github:
            put_sets(samples, settings, self._service)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self._process, samples))
        return generate_latest(registry).decode()

    async def _try_read(self, settings: Settings) -> StoreRead | None:
        try:
            async with asyncio.timeout(STORE_ANSWERS):
                read = await read_store(self._ports, settings)
                await self._reports.catch_up(self._ports.history, settings, read.at)
        except Exception as failure:  # whatever it is: the series of the process are worth as much as ever
            is_late = isinstance(failure, TimeoutError)
            why = f"no answer in {STORE_ANSWERS:g} s" if is_late else reason_of(failure)
            if why != self._trouble:  # once, and not with every scrape
                unexpected = None if isinstance(failure, BullpenError | OSError) else failure
                log.error("metrics without the store: it cannot be read", error=why, exc_info=unexpected)
            self._trouble = why
            return None
        if self._trouble:
            log.info("metrics with the store again")
        self._trouble = ""
        return read


class _Collected:
    """What `prometheus_client` asks: the processor time and memory of the process, then Bullpen's series."""

    def __init__(self, process: ProcessCollector, samples: Samples) -> None:
        self._process = process
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        yield from self._process.collect()
        yield from self._samples.collect()
