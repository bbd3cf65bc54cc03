"""The files of a project on four embedded runners, beside four parallel `tar -x` of the same content."""

import asyncio
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.homes import LONGEST, a_home, a_home_with_instances
from bench.table import Measurement, Row, row
from bullpen import jobs
from bullpen.config import Local, Settings, Timings
from bullpen.model.job import FINISHED, Result
from bullpen.ports import Ports
from bullpen.provision import Request, provision
from bullpen.release import release
from bullpen.sources import Sent, send
from bullpen.sources.work_tree import WorkTree
from bullpen.wiring import embedded

SETTINGS = Settings(timings=Timings(idle=600.0), local=Local(capacity=20))
RUNNERS = 4
CHANGED = 3  # files


def sync(files: int = 5000, size: int = 10_000, times: int = 3) -> Iterator[Row]:
    """From the first look at the tree to the end of a job that does nothing on each runner; all of it against tar.
    The median of several, in turns: whatever else this machine does slows both."""
    with a_home_with_instances(SETTINGS) as home, a_home() as place:
        tree = _tree(place / "tree", files, size)
        subprocess.run(["tar", "-C", tree.root, "-cf", place / "tree.tar", "."], check=True)
        ours, theirs, first, second = asyncio.run(_measured(home, place, tree, times))
    subject = f"sync of {files:,} files, {files * size / 1e6:g} MB to {RUNNERS} embedded runners"
    ratio = sorted(one / other for one, other in zip(ours, theirs, strict=True))[times // 2]
    yield row(f"{subject}: time compared with {RUNNERS} parallel tar -x", ratio, "x", "≤ 1.5")
    yield row(f"{subject}: from the tree to the end of the jobs", sorted(ours)[times // 2], "s")
    yield row(f"{subject}: {RUNNERS} parallel tar -x", sorted(theirs)[times // 2], "s")
    yield row(f"{subject}: bytes sent by the first run", first.sent_size, "bytes", f"= {files * size}")
    again = f"{subject}: bytes sent by the next run after {CHANGED} files changed"
    yield row(again, second.sent_size, "bytes", f"= {CHANGED * size}")


def _tree(root: Path, files: int, size: int) -> WorkTree:
    chance = random.Random(4)
    for number in range(files):
        path = root / f"part-{number // 50}" / f"file-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size))
    return WorkTree(root)


async def _measured(home: Path, place: Path, tree: WorkTree, times: int) -> tuple[list[float], list[float], Sent, Sent]:
    ours, theirs = [], []
    async with asyncio.timeout(times * LONGEST), embedded(home, SETTINGS) as ports:
        request = Request("bench", RUNNERS, SETTINGS.requirements("small"), SETTINGS.timings.max_runtime)
        outcome = await provision(ports, SETTINGS, request, stop=asyncio.Event())
        assert outcome.succeeded, outcome.reason
        first = None
        for number in range(times):
            theirs.append(await asyncio.to_thread(_tar, place, number))
            shutil.rmtree(home / "sources", ignore_errors=True)  # the first run, again
            began = time.perf_counter()
            first = await _run(ports, home, tree)
            ours.append(time.perf_counter() - began)
            await asyncio.to_thread(_calm, home)
        for path in sorted(tree.root.glob("part-0/*"))[:CHANGED]:
            path.write_bytes(path.read_bytes()[::-1])
        second = await _run(ports, home, tree)
        await release(ports, SETTINGS, "bench", stop=asyncio.Event())
    assert first is not None, "measured at least once"
    return ours, theirs, first, second


async def _run(ports: Ports, home: Path, tree: WorkTree) -> Sent:
    sent = await send(ports.sources, tree, cache=home / "sources" / "clients", max_size=10**9)
    wanted = [jobs.JobRequest("bench", ("true",), index=number, source=sent.source) for number in range(RUNNERS)]
    submitted = await jobs.submit(ports, wanted, by="bench")
    ids = [job.id for job in submitted]
    found = await ports.jobs.jobs(ids)
    while any(job.state is not FINISHED for job in found.values()):
        await ports.signals.wait(0.02)
        found = await ports.jobs.jobs(ids)
    assert {job.result for job in found.values()} == {Result.SUCCEEDED}
    assert len({job.instance_id for job in found.values()}) == RUNNERS
    return sent


def _calm(home: Path) -> None:
    """The directories of the jobs are being removed: neither side is to be measured beside that."""
    while list((home / "instances").glob("*/work/*")):
        time.sleep(0.1)


def _tar(place: Path, number: int) -> float:
    targets = [place / f"out-{number}-{one}" for one in range(RUNNERS)]
    for target in targets:
        target.mkdir()
    began = time.perf_counter()
    _all_end([subprocess.Popen(["tar", "-xf", place / "tree.tar", "-C", target]) for target in targets])
    lasted = time.perf_counter() - began
    for target in targets:
        shutil.rmtree(target)
    return lasted


def _all_end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    assert [process.wait() for process in processes] == [0] * len(processes)


MEASUREMENTS = (Measurement("sync: the files of a project", sync),)
