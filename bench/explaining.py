"""`bullpen why` and `bullpen plan` where a run waits beside thousands of instances: what they take beyond the start of
the command line. The instances fit another image only, so each is a candidate with a rule that refuses it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median

from bench.homes import a_home, fill
from bench.records import BY, on_offer
from bench.startup import PROGRAM
from bench.table import Measurement, Row, row
from bullpen.config import Settings
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.system import SystemClock
from bullpen.model import provision as provisions
from bullpen.model.provision import Place

SIZES = (100, 5000)
TIMES = 9
AN_HOUR = timedelta(hours=1)
WAITER = "waiter"


def explained(sizes: Sequence[int] = SIZES, times: int = TIMES) -> Iterator[Row]:
    for size in sizes:
        with a_home() as home:
            asyncio.run(_filled(home, size))
            budget = "< 300" if size == SIZES[-1] else ""
            settings = ["--set", f"limits.max-instances={size}", "--set", "classes.small.image-generation=2"]
            pool = ["--home", str(home), *settings, "--set", f"classes.small.idle-target={size}"]
            for name, words in (
                ("bullpen why", ["why", WAITER]),
                ("bullpen plan", ["plan", "--run-id", "next", "--count", "3"]),
            ):
                bare, asked = [], []
                for _ in range(times):  # interleaved, so that whatever else this machine does slows both
                    bare.append(_lasts(["--help"]))
                    asked.append(_lasts([*pool, *words]))
                beyond = (median(asked) - median(bare)) * 1000
                yield row(f"{name} at {size:,} instances, beyond the start", beyond, "ms", budget)


async def _filled(home: Path, size: int) -> None:
    """A full pool, and a run that waits at its cap."""
    now = SystemClock().now()
    async with Database.open(home) as database:
        await fill(database, on_offer("i-0000000000000001", now), size)
        needs = replace(Settings().requirements("small"), image_generation=2)
        asked = provisions.absent("p-0000000000000001", WAITER, 3, needs, now + AN_HOUR, 1800.0)
        records = SqliteRecords(database)
        (opened,) = await records.apply(provisions.open_(asked, provisions.Opened(at=now, by=BY)))
        place = Place("limits.max-instances", now, now + AN_HOUR)
        waits = provisions.Waited(at=now, by=BY, why="a full cap", place=place, deadline=now + AN_HOUR)
        await records.apply(provisions.wait(opened, waits))


def _lasts(words: Sequence[str]) -> float:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    began = time.perf_counter()
    subprocess.run([str(PROGRAM), *words], stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True, env=environ)
    return time.perf_counter() - began


MEASUREMENTS = (Measurement("bullpen why and bullpen plan beside many instances", explained),)
