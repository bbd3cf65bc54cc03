"""`python -m bench.changer HOME CHANGES BEATS`: a busy pool, as one process that does nothing else.

So many instances change each second, by real steps on the store of the home, and so many workers beat. It prints a line
when it has begun, and the number of changes when its input ends.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from bench.drummer import LEASE
from bench.records import A_DAY, BY
from bench.workers import key_of
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.system import SystemClock
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.times import to_micros
from bullpen.model.transition import Change

TICK = 0.1  # seconds between two groups of changes
PAGE = 1000
BEAT = "UPDATE workers SET token = token + 1, beat_at = :now, deadline = :now + :lease WHERE id = :key"


async def main(home: Path, changes: int, beats: int) -> None:
    clock = SystemClock()
    async with Database.open(home) as database:
        records = SqliteRecords(database)
        known = {one.id: one for one in await _all(records)}
        ids, workers = cycle(known), cycle(range(len(known)))
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        print("changing", flush=True)
        done, began, turns = 0, time.monotonic(), 0
        while not ended.done():
            turns += 1
            now = clock.now()
            some = [known[id] for id in islice(ids, round(changes * TICK))]
            for landed in await records.apply_each([_kept(one, now + A_DAY, now) for one in some]):
                if isinstance(landed, Instance):
                    known[landed.id] = landed
                    done += 1
            keys = [key_of(number) for number in islice(workers, round(beats * TICK))]
            await database.write(partial(_beat, keys=keys, now=to_micros(now)))
            await asyncio.sleep(max(0.0, began + turns * TICK - time.monotonic()))
        print(done, flush=True)


async def _all(records: SqliteRecords) -> list[Instance]:
    found = page = await records.live(PAGE)
    while len(page) == PAGE:
        page = await records.live(PAGE, page[-1].id)
        found = [*found, *page]
    return found


def _kept(one: Instance, until: datetime, now: datetime) -> Change[Instance]:
    return instances.keep(one, instances.Kept(at=now, by=BY, until=until))


def _beat(transaction: Transaction, keys: Sequence[str], now: int) -> None:
    for key in keys:
        transaction.execute(BEAT, {"key": key, "now": now, "lease": int(LEASE * 1e6)})


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
