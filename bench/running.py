"""`bullpen run` on a warm pool, from the start of the program to its end."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.startup import PROGRAM
from bench.table import Measurement, Row, row

RUNNERS = 4
LONGEST = 120  # seconds; a run takes a fraction of one


def warm_run(times: int = 15) -> Iterator[Row]:
    """The best of several: what the program needs, and not what else this machine does. Its own processor time, without
    that of the runners, says how much of it is work."""
    if not PROGRAM.exists():
        raise FileNotFoundError("the console script `bullpen` is not installed beside this Python")
    with tempfile.TemporaryDirectory(prefix="bullpen-") as folder:
        home = Path(folder) / "home"
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("BULLPEN_", "PYTHON"))}
        try:
            _run(home, environ)  # launches the runners, and compiles what was not compiled yet
            found = [_run(home, environ) for _ in range(times)]
        finally:
            subprocess.run(
                [str(PROGRAM), "--home", str(home), "down", "--yes"],
                env=environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LONGEST,
            )
    subject = f"bullpen run --no-sync --count {RUNNERS} -- true, warm"
    yield row(f"{subject}: end to end, best of {times}", min(wall for wall, _ in found), "s", "< 0.4")
    yield row(f"{subject}: processor time of the command", min(cpu for _, cpu in found), "s")


def _run(home: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Seconds that a run takes, and seconds of processor time of the command alone."""
    command = [str(PROGRAM), "--home", str(home), "run", "--no-sync", "--count", str(RUNNERS), "--", "true"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=home.parent, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"the run exited with {process.returncode}: {said.decode(errors='replace')[-500:]}")
    return wall, usage.ru_utime + usage.ru_stime


MEASUREMENTS = (Measurement("bullpen run warm", warm_run),)
