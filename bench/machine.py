"""The machine itself, so that numbers of two machines can be compared: how fast Python and its disk are."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from bench.table import Measurement, Row, row

ADDITIONS = 5_000_000
LOOP = (
    f"import time; t = time.process_time(); s = 0\nfor i in range({ADDITIONS}): s += i\nprint(time.process_time() - t)"
)
SYNCS = 200


def machine() -> Iterator[Row]:
    before = _stolen()
    alone, beside = _additions(1), _additions(os.cpu_count() or 1)
    after = _stolen()
    yield row("machine: additions in a loop of Python, one process", alone / 1e6, "million/s")
    yield row("machine: additions in a loop of Python, each of one process per processor", beside / 1e6, "million/s")
    share = 100 * (after[0] - before[0]) / max(after[1] - before[1], 1)
    yield row("machine: time that other guests of its host took", share, "%")
    yield row("machine: write of 4 KiB until it is on the disk, median", _synced() * 1000, "ms")


def _additions(processes: int) -> float:
    """Additions per second of processor time, of the slowest process."""
    command = [sys.executable, "-I", "-S", "-c", LOOP]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return ADDITIONS / max(float(one.communicate()[0]) for one in started)


def _stolen() -> tuple[int, int]:
    """Ticks of all processors since the start: those that the host gave to others, and all."""
    with open("/proc/stat") as file:
        ticks = [int(text) for text in file.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def _synced() -> float:
    with tempfile.TemporaryFile() as file:
        times = []
        for _ in range(SYNCS):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return sorted(times)[SYNCS // 2]


MEASUREMENTS = (Measurement("machine", machine),)
