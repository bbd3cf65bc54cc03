"""Open pages of the dashboard: a real `bullpen serve` with a busy pool, and readers that ask for what our pages do.

Another process changes 200 instances a second and lets every worker beat every five seconds. What pages cost is what
`serve` spends with them beyond what it spends without, side by side on one server.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bench.drummer import LEASE
from bench.heartbeats import PATIENCE, ROOT, ServedHome, one_worker, serving
from bench.homes import a_home
from bench.records import on_offer
from bench.table import Measurement, Row, row
from bench.workers import populate
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.system import SystemClock

INSTANCES, CHANGES, BEATS_EVERY = 5000, 200, 5
PAGES = 10
ASKED = (("/v1/status", 5.0), ("/v1/runs?limit=1000", 3.0), ("/v1/series?minutes=30", 15.0))
"""What a page asks besides, and every how many seconds: what all pages ask, and one of the dearest."""
STRETCH = 15.0  # seconds
TIMES = 3  # stretches of each kind, of which the medians count


def watched(
    size: int = INSTANCES, changes: int = CHANGES, stretch: float = STRETCH, times: int = TIMES
) -> Iterator[Row]:
    with a_home() as home:
        fill_pool(home, size)
        with serving(home) as serve, changing(home, changes, size // BEATS_EVERY):
            took, content = _beginning(serve.port)
            bare, streams, pages, news = _shares(serve, stretch, times)
    subject = f"dashboard at {size:,} instances and {changes} changes a second"
    budgeted = size == INSTANCES
    yield row(f"{subject}: share of a core of serve without a page", 100 * bare, "%")
    yield row(f"{subject}: {PAGES} streams cost serve, of a core", 100 * streams, "%", "< 5" if budgeted else "")
    yield row(f"{subject}: {PAGES} pages cost serve, of a core", 100 * pages, "%", "< 5" if budgeted else "")
    yield row(f"{subject}: events that a stream carries", news, "events/s")
    yield row(f"{subject}: everything there is, to a new stream", took * 1000, "ms", "< 1000" if budgeted else "")
    yield row(f"{subject}: size of that", content / 1e6, "MB")


def fill_pool(home: Path, size: int) -> None:
    """Instances on offer in a home, with a worker that beats for each."""
    asyncio.run(one_worker(home))
    populate(home, size, SystemClock().now(), LEASE)
    asyncio.run(_filled(home, size))


def _shares(serve: ServedHome, stretch: float, times: int) -> tuple[float, float, float, float]:
    """The share of a core that `serve` needs without a page, and how much more with streams and with whole pages, by
    turns; and the events a second of one stream."""
    bare, streams, pages, news = list[float](), list[float](), list[float](), list[float]()
    for _ in range(times):
        bare.append(_share(serve, stretch))
        with _reading(serve.port, PAGES) as received:
            time.sleep(2.0)  # everything there is was told
            before, began = received(), time.perf_counter()
            streams.append(_share(serve, stretch))
            news.append((received() - before) / (time.perf_counter() - began))
        with _reading(serve.port, PAGES), _asking(serve.port, PAGES):
            pages.append(_share(serve, stretch))
    alone = statistics.median(bare)
    return alone, statistics.median(streams) - alone, statistics.median(pages) - alone, statistics.median(news)


def _share(serve: ServedHome, seconds: float) -> float:
    time.sleep(1.0)  # what has just begun or ended settles
    began, before = time.perf_counter(), serve.cpu()
    time.sleep(seconds)
    return (serve.cpu() - before) / (time.perf_counter() - began)


async def _filled(home: Path, size: int) -> None:
    """Instances on offer, one for each worker."""
    id = f"i-{0:016x}"
    async with Database.open(home) as database:
        for change in on_offer(id, SystemClock().now()):
            await SqliteRecords(database).apply(change)

        def copy(transaction: Transaction) -> None:
            found = transaction.execute("SELECT name FROM pragma_table_info('instances')").fetchall()
            columns = [name for (name,) in found]
            copied = ", ".join("printf('i-%016x', number)" if name == "id" else name for name in columns)
            transaction.execute(
                "WITH RECURSIVE numbers (number) AS"
                " (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)"
                f" INSERT INTO instances ({', '.join(columns)})"
                f" SELECT {copied} FROM numbers JOIN instances ON id = ?",
                (size - 1, id),
            )

        await database.write(copy)


@contextmanager
def changing(home: Path, changes: int, beats: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.changer", str(home), str(changes), str(beats)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "changing\n"
        began = time.monotonic()
        try:
            yield
            process.stdin.write("\n")
            process.stdin.flush()
            done = int(process.stdout.readline())
            assert done >= 0.8 * changes * (time.monotonic() - began), f"only {done} changes were made"
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _beginning(port: int) -> tuple[float, int]:
    """Seconds until a new stream has told everything, while another one is open, and its bytes."""
    with _reading(port, 1):
        time.sleep(2.0)
        began = time.perf_counter()
        with _stream(port) as stream:
            content = b""
            while b"event: ready" not in content[-2_000_000:]:
                content += stream.recv(1 << 20)
            return time.perf_counter() - began, len(content)


def _stream(port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    stream.sendall(b"GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\nsec-fetch-site: same-origin\r\n\r\n")
    return stream


@contextmanager
def _reading(port: int, count: int) -> Iterator[Callable[[], int]]:
    """So many open streams. The number of instances that the first one has shown so far is what is yielded."""
    over, shown = threading.Event(), [0] * count

    def read(number: int, stream: socket.socket) -> None:
        stream.settimeout(0.2)
        while not over.is_set():
            try:
                content = stream.recv(1 << 18)
            except TimeoutError:
                continue
            assert content, "serve closed the stream"
            shown[number] += content.count(b"event: instance") if number == 0 else 0

    with ExitStack() as stack:
        threads = [
            threading.Thread(target=read, args=(number, stack.enter_context(_stream(port)))) for number in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            yield lambda: shown[0]
        finally:
            over.set()
            for thread in threads:
                thread.join()


@contextmanager
def _asking(port: int, pages: int) -> Iterator[None]:
    """What so many pages ask, each on its own beat."""
    over = threading.Event()

    def ask(path: str, every: float, begins_in: float) -> None:
        over.wait(begins_in)
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        while not over.is_set():
            connection.request("GET", path, headers={"sec-fetch-site": "same-origin"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            over.wait(every)
        connection.close()

    threads = [
        threading.Thread(target=ask, args=(path, every, page * every / pages))
        for page in range(pages)
        for path, every in ASKED
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


MEASUREMENTS = (Measurement("dashboard: open pages", watched),)
