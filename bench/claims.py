"""Claims on SQLite, durable: how many a second, and how long the unluckiest of four processes waits for one."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.homes import a_home, fill
from bench.records import claim, on_offer
from bench.table import Measurement, Row, row
from bullpen.config import Settings
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.system import SystemClock
from bullpen.errors import Conflict

NEEDS = Settings().requirements("small")
GROUP, ROUNDS = 3000, 5
BUDGETED = 100_000
COMPETITORS = 4
COMPETE_FOR = 2.0


def grouped(sizes: Sequence[int] = (1000, 10_000, BUDGETED)) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            landed, whole = asyncio.run(_claim_grouped(home, size))
        name = f"claims on SQLite, {size:,} records, grouped"
        yield row(name, landed, "claims/s", "≥ 10000" if size == BUDGETED else "")
        yield row(f"{name}, including the transition", whole, "claims/s")


def competing(sizes: Sequence[int] = (10_000, BUDGETED), seconds: float = COMPETE_FOR) -> Iterator[Row]:
    """One claim after the other in each of four processes."""
    for size in sizes:
        with a_home() as home:
            asyncio.run(_fill(home, size))
            answers = _compete(home, seconds)
        name = f"claims on SQLite by {COMPETITORS} processes, {size:,} records"
        counts, waits = [count for count, _ in answers], [wait for _, wait in answers]
        yield row(f"{name}: longest wait", max(waits) * 1000, "ms", "< 100" if size == BUDGETED else "")
        yield row(f"{name}: in total", sum(counts) / seconds, "claims/s")
        yield row(f"{name}: smallest share/largest", min(counts) / max(counts), "x")


async def _fill(home: Path, size: int) -> None:
    async with Database.open(home) as database:
        await fill(database, on_offer("i-0", SystemClock().now()), size)


async def _claim_grouped(home: Path, size: int) -> tuple[float, float]:
    """Claims a second, landed and in all: the best of some rounds, for this is about the engine, not its neighbours."""
    await _fill(home, size)
    landed, whole = [], []
    async with Database.open(home) as database:
        records, clock = SqliteRecords(database), SystemClock()
        for number in range(ROUNDS):
            pool = await records.claimable(NEEDS, clock.now(), min(size // ROUNDS, GROUP), f"i-0-{size // 2:06}")
            began = time.perf_counter()
            now = clock.now()
            changes = [claim(one, f"run-{number}", NEEDS, now) for one in pool]
            proposed = time.perf_counter()
            outcomes = await records.apply_each(changes)
            ended = time.perf_counter()
            assert not any(isinstance(one, Conflict) for one in outcomes)
            landed.append(len(pool) / (ended - proposed))
            whole.append(len(pool) / (ended - began))
    return max(landed), max(whole)


def _compete(home: Path, seconds: float) -> list[tuple[int, float]]:
    """Claims and longest wait of each competitor; all begin at once."""
    with ExitStack() as stack:
        competitors = [stack.enter_context(_competitor(home, number, seconds)) for number in range(COMPETITORS)]
        try:
            for one in competitors:
                assert one.stdout is not None
                assert one.stdout.readline() == "ready\n", "a competitor did not start"
            for one in competitors:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            answers = [one.communicate(timeout=seconds + 30)[0].split() for one in competitors]
        finally:
            for one in competitors:
                one.kill()
    return [(int(count), float(wait)) for count, wait in answers]


def _competitor(home: Path, number: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.competitor", str(home), str(number), str(seconds)]
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)


MEASUREMENTS = (
    Measurement("claims on SQLite, grouped", grouped),
    Measurement("claims on SQLite by several processes", competing),
)
