"""`bullpen --help` against the bare interpreter that runs it."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench.table import Measurement, Row, row

PROGRAM = Path(sys.executable).parent / "bullpen"
"""The console script: what a person runs. Its first line names the interpreter without flags."""


def help_against_bare_python(times: int = 25) -> Iterator[Row]:
    """Interleaved, so that whatever else this machine does slows both."""
    if not PROGRAM.exists():
        raise FileNotFoundError("the console script `bullpen` is not installed beside this Python")
    bare, help_ = [], []
    for _ in range(times):
        bare.append(_lasts([sys.executable, "-c", "pass"]))
        help_.append(_lasts([str(PROGRAM), "--help"]))
    yield row("bullpen --help", median(help_) * 1000, "ms")
    yield row("bullpen --help: bare Python", median(bare) * 1000, "ms")
    yield row("bullpen --help: compared with bare Python", median(help_) / median(bare), "x", "≤ 2.5")


def _lasts(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=30)
    return time.perf_counter() - began


MEASUREMENTS = (Measurement("bullpen --help", help_against_bare_python),)
