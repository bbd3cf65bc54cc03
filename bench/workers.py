"""Workers for the benchmarks of liveness: registered by their first beat, or copied a thousand times faster."""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from bullpen.engines.sqlite.migrations import FILE
from bullpen.model.times import to_micros
from bullpen.model.worker import Accepted, Beat
from bullpen.ports import Ports

AT_ONCE = 1000
PORTION = 50_000  # rows of one commit
STEP = 7919  # a prime that divides none of our numbers: multiples of it meet every row, and no two in a row are near


TIMERS = 5 / 6
"""Of a lease: over how long the timers of live workers are spread. One moves to the deadline of a worker whose last
beat was up to a third of a lease ago."""


def key_of(number: int) -> str:
    """The key of a worker, like those of agents, so that a row has its usual size."""
    return f"i-{number:016x}/{number:08x}"


def scattered(count: int) -> Callable[[int], int]:
    """An order that meets all before it meets one again: beats do not come in the order of the rows."""
    return lambda place: place * STEP % count


async def register(ports: Ports, count: int, lease: float) -> None:
    """The first beat of each."""
    for start in range(0, count, AT_ONCE):
        keys = [key_of(number) for number in range(start, min(start + AT_ONCE, count))]
        now = ports.clock.now()
        beats = [(key, Beat(at=now, by="a benchmark", token=0, lease=lease, instance_id=key[:18])) for key in keys]
        answers = await ports.workers.beat(beats)
        assert all(isinstance(one, Accepted) for one in answers)


def populate(home: Path, count: int, now: datetime, lease: float) -> None:
    """Make it `count` live workers as they are after a while: all have beaten within the last third of a lease, and no
    timer has moved since. One worker is registered already; the others are copies of its row."""
    timers_last, beats_last = int(lease * TIMERS * 1e6), int(lease / 3 * 1e6)
    connection = sqlite3.connect(home / FILE, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # what is measured comes later
        columns = [name for _, name, *_ in connection.execute("SELECT * FROM pragma_table_info('workers')")]
        of_its_own = {
            "number": "place + 1",
            "id": "printf('i-%016x/%08x', place, place)",
            "instance_id": "printf('i-%016x', place)",
            "deadline": f":now + place * {STEP} % :count * {timers_last} / :count",  # for the timer: beats came since
        }
        copied = ", ".join(of_its_own.get(name, name) for name in columns)
        statement = (
            "WITH RECURSIVE places (place) AS"
            " (SELECT :start UNION ALL SELECT place + 1 FROM places WHERE place + 1 < :end)"
            f" INSERT INTO workers ({', '.join(columns)}) SELECT {copied} FROM places JOIN workers ON number = 1"
        )
        for start in range(1, count, PORTION):
            end = min(start + PORTION, count)
            places = {"start": start, "end": end, "now": to_micros(now), "count": count}
            connection.execute(statement, places)
            connection.execute(
                f"UPDATE workers SET deadline = :now + {int(lease * 1e6)} - number * {STEP + 2} % {beats_last}"
                " WHERE number > :start AND number <= :end",
                places,
            )
    finally:
        connection.close()
