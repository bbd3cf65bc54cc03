"""Queue: everything that waits now, the longest wait first, and how long provisions have taken in the last day."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.explain.job_waits import SIDE_BY_SIDE, explain_queued, situation_of
from bullpen.explain.pool_view import PoolView, age
from bullpen.explain.provision_waits import explain_provision
from bullpen.explain.set_waits import explain_sets
from bullpen.history.latencies import WaitTimes, wait_times
from bullpen.inventory.run_list import ANY_TIME
from bullpen.lazy_dataclass import dataclass
from bullpen.model.provision import OPEN
from bullpen.model.wait import ExplainedWait, WaitCause
from bullpen.ports import Ports

UNSETTLED = 10_000  # provisions that are looked at, decided ones included
PROVISIONS = 200  # open ones that are explained
RUNS = 100  # runs with queued jobs that are explained
RUNS_COUNTED = 300
JOBS_OF_RUN = 20  # of one run: the others wait for the same runners
SHOWN = 500


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the provisions of a class and a repository took, in seconds; None where there were none."""

    resource_class: str
    repository: str
    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    oldest: float | None = None


@dataclass(frozen=True, slots=True)
class PoolWaits:
    """`more` waits are not listed. `unmatched` are those that nothing of the pool matches."""

    waits: tuple[ExplainedWait, ...]
    more: int
    unmatched: tuple[ExplainedWait, ...]
    latencies: tuple[Latency, ...]
    data_since: datetime | None


async def queue(ports: Ports, settings: Settings, unmatched: Sequence[ExplainedWait] = ()) -> PoolWaits:
    """`unmatched` are further jobs that match nothing, which only the caller knows of."""
    view = PoolView(ports, settings)
    found, more = await _provisions(view)
    jobs, more_jobs = await _jobs(view)
    found = sorted([*found, *jobs, *await explain_sets(view), *unmatched], key=lambda one: _since(view, one))
    more += more_jobs + max(len(found) - SHOWN, 0)
    shown = tuple(found[:SHOWN])
    lost = tuple(one for one in found if one.cause is WaitCause.NO_MATCH)[:SHOWN]
    reports = await view.reports()
    since = min((one.ended_at for one in reports), default=None)
    return PoolWaits(shown, more, lost, await _latencies(view, found), since)


async def _provisions(view: PoolView) -> tuple[list[ExplainedWait], int]:
    due = await view.ports.records.due_provisions(ANY_TIME, UNSETTLED)
    open_ = [one for one in due if one.state is OPEN]
    await view.stories(one.id for one in open_[:PROVISIONS])  # all in one request
    found = []
    for one in open_[:PROVISIONS]:
        found.append(await explain_provision(view, one))
        await asyncio.sleep(0)  # all is read by now: heartbeats and other requests have their turn in between
    return found, max(len(open_) - PROVISIONS, 0)


async def _jobs(view: PoolView) -> tuple[list[ExplainedWait], int]:
    waiting = await view.ports.jobs.waiting_runs(RUNS_COUNTED)
    runs, found = waiting[:RUNS], list[ExplainedWait]()
    more = len(waiting) - len(runs)  # at least one job of each
    for at in range(0, len(runs), SIDE_BY_SIDE):
        for run in await gather_or_cancel([situation_of(view, id) for id in runs[at : at + SIDE_BY_SIDE]]):
            found += await explain_queued(view, run, JOBS_OF_RUN)
            more += max(len(run.queued) - JOBS_OF_RUN, 0)
            await asyncio.sleep(0)
    return found, more


async def _latencies(view: PoolView, waits: Sequence[ExplainedWait]) -> tuple[Latency, ...]:
    took = {(one.resource_class, one.repository): one for one in wait_times(await view.reports())}
    oldest: dict[tuple[str, str], float] = {}
    for one in waits:
        key = one.resource_class, one.repository
        oldest[key] = max(oldest.get(key, 0.0), age(view.now, one.since))
    return tuple(_latency(key, took.get(key), oldest.get(key)) for key in sorted({*took, *oldest}))


def _latency(key: tuple[str, str], took: WaitTimes | None, oldest: float | None) -> Latency:
    if took is None:
        return Latency(*key, oldest=oldest)
    return Latency(*key, took.count, took.p50, took.p95, took.p99, oldest)


def _since(view: PoolView, one: ExplainedWait) -> tuple[datetime, str]:
    return one.since or view.now, one.subject
