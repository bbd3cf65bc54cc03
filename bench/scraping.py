"""`/metrics` of a real `bullpen serve`: how long a scrape takes, and what scrapes and a watcher cost the heartbeats.

Each scrape reads the store: they are further apart than an answer is kept. The loops of `serve` run beside it, as they
always do. Whether scrapes cost heartbeats is measured side by side, on one server: a stretch without, a stretch with.
"""

import asyncio
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.drummer import LEASE
from bench.heartbeats import BATCHING, CONNECTIONS, BeatProcess, drumming, one_worker, serving
from bench.homes import a_home, fill
from bench.records import on_offer
from bench.table import Measurement, Row, row
from bench.workers import populate
from bullpen.engines.sqlite.database import Database
from bullpen.engines.system import SystemClock
from bullpen.server.metrics.exposition import VALID_FOR

INSTANCES = 5000
WORKERS = 10_000
SCRAPES = 9  # of which the median counts
EVERY = 5.0  # seconds between scrapes: Prometheus usually takes 15
STRETCH = 10.0  # seconds
TIMES = 5  # stretches of each kind, of which the medians count


def scraped(sizes: Sequence[int] = (100, INSTANCES), scrapes: int = SCRAPES) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            asyncio.run(_filled(home, size))
            with serving(home) as serve:
                took, series = _scrapes(serve.port, scrapes)
        subject, budgeted = f"/metrics at {size:,} instances", size == INSTANCES
        yield row(f"{subject}: a scrape", took * 1000, "ms", "< 50" if budgeted else "")
        yield row(f"{subject}: series", series, "series")


def beaten(size: int = WORKERS, stretch: float = STRETCH, times: int = TIMES) -> Iterator[Row]:
    with a_home() as home:
        asyncio.run(one_worker(home))
        populate(home, size, SystemClock().now(), LEASE)
        with serving(home) as serve, drumming(serve.port, size) as drummer:
            for order, connections, what in (("one", CONNECTIONS, ""), ("batches", BATCHING, ", in batches of 100")):
                bare, watched = _rates(drummer, serve.port, f"{order} {connections} {stretch}", times)
                subject = f"heartbeats of a scraped and watched serve{what}"
                yield row(subject, watched, "beats/s")
                yield row(f"{subject}, against a bare one", watched / bare, "x", "≥ 0.95")


def _rates(drummer: BeatProcess, port: int, order: str, times: int) -> tuple[float, float]:
    """Beats a second of a bare server, and of one that is scraped and watched: by turns, so that both meet the same
    disk and the same neighbours."""
    bare, watched = [], []
    drummer.obey(order)  # the first stretch warms up
    for _ in range(times):
        bare.append(drummer.obey(order)["rate"])
        with _observed(port):
            watched.append(drummer.obey(order)["rate"])
    return statistics.median(bare), statistics.median(watched)


async def _filled(home: Path, size: int) -> None:
    async with Database.open(home) as database:
        await fill(database, on_offer("i-0000000000000001", SystemClock().now()), size)


def _scrapes(port: int, scrapes: int) -> tuple[float, int]:
    """Seconds of a scrape, and how many series it has."""
    took, text = [], b""
    for _ in range(scrapes):
        began = time.perf_counter()
        text = _scrape(port)
        took.append(time.perf_counter() - began)
        time.sleep(VALID_FOR + 0.1)
    assert b"bullpen_store_up 1.0" in text, "the store could not be read"
    return statistics.median(took), sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))


def _scrape(port: int) -> bytes:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return answer.read()
    finally:
        connection.close()


@contextmanager
def _observed(port: int) -> Iterator[None]:
    """Scrape every few seconds, and read the stream of events."""
    over = threading.Event()
    watching = socket.create_connection(("127.0.0.1", port), timeout=30)
    watching.sendall(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    watching.settimeout(0.2)

    def scrape() -> None:
        while not over.is_set():
            _scrape(port)
            over.wait(EVERY)

    def watch() -> None:
        while not over.is_set():
            try:
                if not watching.recv(65536):
                    return
            except TimeoutError:
                continue

    threads = [threading.Thread(target=work) for work in (scrape, watch)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
        watching.close()


MEASUREMENTS = (Measurement("metrics: scrapes", scraped), Measurement("metrics: heartbeats beside scrapes", beaten))
