"""Whatever happens to messages, sessions, processes, requests and GitHub itself: every job that GitHub does not cancel
runs, on one runner, and in time where the cap and GitHub let it; no set has more members than it may have, and nothing
stays registered but the minimum.

13,000 jobs in 26 histories. Messages go wrong and processes are killed in all of them; each mix adds an incident of its
own, with two seeds.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from random import Random

import pytest

from bullpen.engines.memory import Rates
from bullpen.engines.memory.faults import CALM
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.model.instance import LIVE
from bullpen.operate import drain, pause, resume, rotate
from bullpen.ports import Conclusion
from bullpen.sim import invariants
from bullpen.sim.agent import Temper
from bullpen.sim.process import Process
from bullpen.sim.world import World
from fixtures import records
from scale_sets.fixtures import a_set_world, hub_of, members, push, serve, set_of, settings_of, until_done
from scale_sets.outage import Outage
from scale_sets.watched import WatchedRuns

pytestmark = pytest.mark.slow

JOBS = 500
MINUTES = 10.0  # in which they are pushed
REPLICAS = 3
TROUBLES = SetTroubles(
    lost=0.05,
    late=0.1,
    doubled=0.1,
    unreadable_entry=0.05,
    unreadable_body=0.03,
    unreadable=0.01,
    unassigned=0.05,
    false_end=0.02,
    dropped=0.01,
    empty=0.05,
    unannounced=0.3,
    idle_end=0.3,
    ghost=0.01,
    busy_known_after=30.0,
    statistics_lag=0.5,
)
BAD_NETWORK = Rates(latency=(0.0, 0.2), lost_request=0.02, lost_answer=0.02, throttled=0.02)


@dataclass(frozen=True)
class Mix:
    """What a history adds to the troubles of all. Rates of incidents are per push."""

    min: int = 0
    max: int = 40
    longest: float = 60.0  # seconds of a job
    waits: float | None = 60.0  # seconds that no job waits for longer; None: the cap or GitHub makes them wait
    idle_target: int = 5
    boots_in: float = 1.0  # seconds of a machine
    rates: Rates = CALM  # on the way of `serve` to the store and to GitHub
    index_lag: float = 0.0
    frees_on_close: bool = True
    stops: float = 0.0  # a process of `serve` stops and another one starts, as in an update
    pauses: float = 0.0  # a process of `serve` stands still for longer than its lease
    cancels: float = 0.0  # a run is cancelled, whatever its jobs do
    phantoms: int = 0  # GitHub counts so many jobs that do not exist
    deletes: float = 0.0  # GitHub loses the set
    orders: float = 0.0  # an operator pauses the class for a while, drains a member, or rotates the class
    outages: tuple[float, ...] = ()  # seconds for which GitHub does not answer, one after the other


MIXES = {
    "a bad network": Mix(rates=BAD_NETWORK, index_lag=1.0, waits=180.0),
    "a cold pool on a bad network": Mix(
        max=60, rates=BAD_NETWORK, index_lag=1.0, pauses=0.02, idle_target=0, boots_in=40.0, waits=180.0
    ),
    "paused processes": Mix(pauses=0.06),
    "cancelled jobs": Mix(cancels=0.15),
    "a minimum": Mix(min=3, pauses=0.02),
    "a cap": Mix(max=8, longest=30.0, waits=None, index_lag=1.0, stops=0.06, pauses=0.06),
    "a cap on a bad network": Mix(max=10, longest=30.0, waits=None, rates=BAD_NETWORK, index_lag=1.0, cancels=0.05),
    "phantoms": Mix(max=25, longest=30.0, waits=120.0, phantoms=6),
    "deleted sets": Mix(deletes=0.02),
    "orders of operators": Mix(min=4, waits=None, orders=0.1),
    "orders of operators on a bad network": Mix(
        min=1, waits=None, rates=BAD_NETWORK, index_lag=1.0, pauses=0.02, boots_in=20.0, orders=0.1
    ),
    "outages": Mix(waits=None, outages=(45.0, 400.0)),
    "everything": Mix(
        min=1,
        max=25,
        longest=30.0,
        waits=None,
        rates=BAD_NETWORK,
        index_lag=1.0,
        frees_on_close=False,
        pauses=0.02,
        cancels=0.05,
        phantoms=2,
        deletes=0.01,
        outages=(200.0,),
    ),
}


class History:
    """Pushes at random moments, while processes of `serve` are killed and started again, and incidents happen."""

    def __init__(self, world: World, mix: Mix, seed: int) -> None:
        self.world, self.mix, self.random = world, mix, Random(seed)
        self.outage = Outage(world)
        self.runs: dict[str, datetime] = {}  # when each was pushed
        self.cancelled: set[str] = set()
        self.paused = self.deleted = self.stopped = 0
        self.ordered: list[asyncio.Task[None]] = []
        self._started = 0
        self._stops: dict[str, asyncio.Event] = {}
        self._serving = {f"web-{n}": self._serve(f"web-{n}") for n in range(REPLICAS)}

    async def play(self) -> None:
        left, outages = JOBS, asyncio.create_task(self._outages())
        while left > 0:
            await asyncio.sleep(self.random.expovariate(JOBS / 4 / (MINUTES * 60)))
            count = min(left, self.random.choice([1, 1, 2, 4, 12]))
            run = push(self.world, count, lasts=self.random.uniform(3, self.mix.longest))
            self.runs[run] = self.world.clock.now()
            left -= count
            self._incidents(is_late=left < JOBS / 4)
            assert invariants.always(self.world.memory) == []
        await outages
        await asyncio.gather(*self.ordered)

    def _incidents(self, *, is_late: bool) -> None:
        """Those of the mix happen once at least."""
        hub, mix = hub_of(self.world), self.mix
        if self._happens(0.06):
            name = self.random.choice(list(self._serving))
            self._serving.pop(name).kill()
            self._replace(name)
        if self._happens(0.02):
            for one in hub.sets.sets.values():
                hub.sets.drop(one.id)
        if self._happens(mix.stops) or (mix.stops and is_late and not self.stopped):
            name = self.random.choice(list(self._serving))
            del self._serving[name]
            self._stops[name].set()
            self.stopped += 1
            self._replace(name)
        if self._happens(mix.pauses) or (mix.pauses and is_late and not self.paused):
            self._pause(self.random.choice(list(self._serving.values())))
        if self._happens(mix.cancels) or (mix.cancels and is_late and not self.cancelled):
            self.cancelled.add(run := self.random.choice([*self.runs][-5:]))
            hub.cancel(hub.runs[run])
        if self._happens(mix.deletes) or (mix.deletes and is_late and not self.deleted):
            self.deleted += len(hub.sets.sets)
            for id in list(hub.sets.sets):
                hub.sets.delete(id)
        if self._happens(mix.orders) or (mix.orders and is_late and not self.ordered):
            self.ordered.append(asyncio.create_task(self._order()))
        for one in hub.sets.sets.values():
            one.phantoms = mix.phantoms

    async def _order(self) -> None:
        ports, settings = self.world.ports(rates=CALM), self.world.settings
        order = self.random.choice(["pause", "drain", "rotate"])
        if order == "pause":
            name = self.random.choice(["small", ""])
            await pause(ports, settings, name, "an incident", operator="ada")
            await asyncio.sleep(self.random.uniform(1, 90))
            await resume(ports, settings, name, operator="bob")
        elif order == "rotate":
            await rotate(ports, settings, "small", operator="ada")
        elif some := members(self.world):
            await drain(ports, settings, [self.random.choice(some).id], operator="ada")

    async def _outages(self) -> None:
        for seconds in self.mix.outages:
            await asyncio.sleep(self.random.uniform(60, 60 * MINUTES / 2))
            self.outage.begin()
            await asyncio.sleep(seconds)
            self.outage.end()

    def _pause(self, process: Process) -> None:
        process.pause()
        self.paused += 1
        loop = asyncio.get_running_loop()
        loop.call_later(self.random.uniform(1, 3) * self.world.settings.timings.lease, process.resume)

    def _replace(self, name: str) -> None:
        """Start another process where one was killed or stops."""
        self._started += 1
        name = f"{name.partition('.')[0]}.{self._started}"
        self._serving[name] = self._serve(name)

    def _serve(self, name: str) -> Process:
        stop = self._stops[name] = asyncio.Event()
        return serve(self.world, name, skew=self.random.uniform(-5, 5), between=self.outage.between, stop=stop)

    def _happens(self, rate: float) -> bool:
        return rate > 0.0 and self.random.random() < rate


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
async def test_every_job_runs_once_and_nothing_stays_registered(mix: Mix, seed: int) -> None:
    settings = settings_of(idle_target=mix.idle_target, min=mix.min, max=mix.max)
    fields = {"seed": seed, "rates": mix.rates, "index_lag": mix.index_lag}
    async with a_set_world(settings, temper=lambda n: Temper(boots_in=mix.boots_in), **fields) as world:
        hub, watched = hub_of(world), WatchedRuns(world)
        hub.sets.troubles, hub.sets.frees_on_close = TROUBLES, mix.frees_on_close
        history = History(world, mix, seed)
        await history.play()
        hub.sets.troubles = SetTroubles()
        await until_done(world, *history.runs, within=7200.0)

        runs = [hub.runs[run] for run in history.runs if run not in history.cancelled]
        kept = {(run.id, job.spec.name) for run in runs for job in run.jobs}
        assert {job.conclusion for run in runs for job in run.jobs} == {Conclusion.SUCCESS}
        assert {(run, name) for run, _, name in watched.began} >= kept
        began = [(job.started_at, history.runs[run.id]) for run in runs for job in run.jobs]
        waits = [(at - pushed).total_seconds() for at, pushed in began if at is not None]
        assert len(waits) == len(kept)
        assert mix.waits is None or max(waits) <= mix.waits
        assert set(watched.began.values()) == {1}
        assert watched.ended_under_a_job == []
        assert watched.most_members <= mix.max
        if mix.max < 20:
            assert watched.most_members == mix.max, "the cap was not reached"
        assert bool(mix.stops) == bool(history.stopped)
        assert bool(mix.pauses) == bool(history.paused)
        assert bool(mix.cancels) == bool(history.cancelled)
        assert bool(mix.deletes) == bool(history.deleted)
        assert bool(mix.orders) == bool(history.ordered)

        if mix.phantoms:  # they cost one probe, or what is registered anyway, and no machine more
            set_of(world).phantoms = mix.phantoms  # GitHub has none of a set that was created since the last push
            await asyncio.sleep(800)
            assert set_of(world).phantoms == mix.phantoms
            assert len(members(world)) == max(1, mix.min)
            set_of(world).phantoms = 0
        await asyncio.sleep(750)
        assert len(members(world)) == len(set_of(world).runners) == mix.min
        assert len(world.memory.registrations) == mix.min
        assert [one for one in records(world, *LIVE) if one.run_id and one not in members(world)] == []
        assert invariants.always(world.memory) == []
