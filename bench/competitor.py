"""`python -m bench.competitor HOME NUMBER SECONDS`: claims one instance after the other, in competition with others.

Prints `ready`, starts on a line of input, and prints the number of claims and the longest wait in seconds.
"""

import asyncio
import sys
import time
from pathlib import Path

from bench.records import claim
from bullpen.config import Settings
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.system import SystemClock

AT_HAND = 2000
"""Candidates that each competitor has read before it begins; no two have the same."""


async def compete(home: Path, number: int, seconds: float) -> None:
    needs, clock = Settings().requirements("small"), SystemClock()
    async with Database.open(home) as database:
        records = SqliteRecords(database)
        pool = await records.claimable(needs, clock.now(), AT_HAND, f"i-0-{number * AT_HAND:06}")
        print("ready", flush=True)
        sys.stdin.readline()
        waits = []
        end = time.perf_counter() + seconds
        for candidate in pool:
            if (began := time.perf_counter()) >= end:
                break
            await records.apply(claim(candidate, f"run-{number}", needs, clock.now()))
            waits.append(time.perf_counter() - began)
    print(len(waits), max(waits), flush=True)


if __name__ == "__main__":
    asyncio.run(compete(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
