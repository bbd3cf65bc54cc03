"""Heartbeats over HTTP on loopback: a real `bullpen serve`, and its load from another process.

Every beat is on disk before it is answered. The sweeper runs in the same process, as it always does, and has timers to
move meanwhile.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.drummer import LEASE
from bench.homes import a_home
from bench.startup import PROGRAM
from bench.table import Measurement, Row, row
from bench.workers import populate, register
from bullpen.config import Settings
from bullpen.engines.system import SystemClock
from bullpen.wiring import embedded

BUDGETED = 100_000
HALF = 4000  # beats a second: half of what is to be possible
CONNECTIONS, BATCHING = 256, 16
SINGLE_COST, BATCH_COST = "≤ 90", "≤ 42"  # µs of the processor in `serve` for one beat: 108 and 52 once
SECONDS = 2.5
TIMES = 3  # of which the median counts: other work on the machine makes a beat dearer, by caches and clock speed
PATIENCE = 20.0
ROOT = Path(__file__).parents[1]


def served(sizes: Sequence[int] = (10_000, BUDGETED), seconds: float = SECONDS) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            asyncio.run(one_worker(home))
            populate(home, size, SystemClock().now(), LEASE)
            with serving(home) as serve, drumming(serve.port, size) as drummer:
                yield from _rows(serve, drummer, size, seconds)


def _rows(serve: "ServedHome", drummer: "BeatProcess", size: int, seconds: float) -> Iterator[Row]:
    budgeted = size == BUDGETED
    name = f"heartbeats over HTTP, {size:,} workers"
    for order, connections, target, most in (
        ("one", CONNECTIONS, "≥ 8000", SINGLE_COST),
        ("batches", BATCHING, "≥ 30000", BATCH_COST),
    ):
        costs = sorted(_cost(serve, drummer, f"{order} {connections} {seconds}") for _ in range(TIMES))
        each, rate = costs[TIMES // 2]
        subject = name if order == "one" else f"{name}, in batches of 100"
        yield row(subject, rate, "beats/s", target if budgeted else "")
        yield row(f"{subject}: processor time per heartbeat in serve", each * 1e6, "µs", most if budgeted else "")
    found = drummer.obey(f"paced {CONNECTIONS} {seconds} {HALF}")
    subject = f"{name}, {HALF:,}/s"
    yield row(f"{subject}: p50", found["p50"] * 1000, "ms")
    yield row(f"{subject}: p99", found["p99"] * 1000, "ms", "< 25" if budgeted else "")
    yield row(f"{subject}: longest", found["max"] * 1000, "ms")


def _cost(serve: "ServedHome", drummer: "BeatProcess", order: str) -> tuple[float, float]:
    """Seconds of the processor for one beat, and beats a second."""
    before = serve.cpu()
    found = drummer.obey(order)
    return (serve.cpu() - before) / found["accepted"], found["rate"]


async def one_worker(home: Path) -> None:
    async with embedded(home, Settings()) as ports:
        await register(ports, 1, LEASE)


@dataclass(frozen=True, slots=True)
class ServedHome:
    pid: int
    port: int

    def cpu(self) -> float:
        """Seconds of processor time so far, of all its threads."""
        spent = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class BeatProcess:
    process: subprocess.Popen[str]

    def obey(self, order: str) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the drummer ended at `{order}`"
        found: dict[str, float] = json.loads(answer)
        assert found["refused"] == 0, f"{found['refused']:g} beats were refused"
        return found


@contextmanager
def serving(home: Path) -> Iterator[ServedHome]:
    # The records of a benchmark have no machines: none of them is ended for that while it runs.
    command = [str(PROGRAM), "serve", "--home", str(home), "--port", "0", "--json", "--set", "timings.orphan=86400"]
    with _ended(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=home)
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "bullpen serve did not start"
        yield ServedHome(process.pid, int(json.loads(line)["url"].rpartition(":")[2]))


@contextmanager
def drumming(port: int, workers: int) -> Iterator[BeatProcess]:
    command = [sys.executable, "-m", "bench.drummer", str(port), str(workers)]
    with _ended(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    ) as process:
        yield BeatProcess(process)


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Whatever happens, it does not outlive the measurement."""
    with process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


MEASUREMENTS = (Measurement("heartbeats over HTTP", served),)
