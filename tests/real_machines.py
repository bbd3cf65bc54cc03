"""A pool of real processes for tests: SQLite, local compute and real agents, and nothing left running afterwards."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bullpen.config import Agent, Local, Settings, Timings
from bullpen.engines.local import LocalCompute
from bullpen.engines.sqlite.ci import SqliteCI
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.jobs import SqliteJobs
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.engines.sqlite.signals import SqliteSignals
from bullpen.engines.system import SystemChance, SystemClock
from bullpen.host.processes import ProcessIdentity, await_end, end_tree, identify, mark_of
from bullpen.model import instance as steps
from bullpen.model import job as job_steps
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.job import State as JobState
from bullpen.model.provision import Provision
from bullpen.model.provision import State as ProvisionState
from bullpen.model.signal import Kind, Signal
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.ports import Clock

PATIENCE = 240.0  # seconds; what is waited for takes milliseconds, so only a failing test takes so long
NEEDS = Requirements("small", UsageClass.ON_DEMAND)


class ShiftedClock:
    """The real time, and as much later as a test says."""

    def __init__(self) -> None:
        self.shift = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.shift


def quick_settings(**changes: Any) -> Settings:
    """Settings with a heartbeat that tests need not wait for."""
    return Settings(timings=Timings(heartbeat=0.2), **changes)


def with_script(script: str, timeout: float = 30.0, keep: tuple[str, ...] = ()) -> Settings:
    return quick_settings(agent=Agent(pre_runner_script=script, pre_runner_timeout=timeout, keep=keep))


def with_room(capacity: int, spot_capacity: int = 32) -> Settings:
    return quick_settings(local=Local(capacity=capacity, spot_capacity=spot_capacity))


def a_plan(count: int = 1, **changes: Any) -> FleetPlan:
    plan = FleetPlan("t-1", "p-1", "run-1", count, "small", UsageClass.ON_DEMAND, ("*",), 0, 0)
    return replace(plan, **changes)


class SubmittedJobs(SqliteJobs):
    """The jobs of a home, and the two calls that a test needs."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        super().__init__(database)
        self._clock = clock or SystemClock()

    async def submit(self, run_id: str, command: Sequence[str]) -> str:
        absent = job_steps.absent(f"j-{SystemChance().token()}", run_id, tuple(command))
        change = job_steps.submit(absent, job_steps.Submitted(at=self._clock.now(), by="submit"))
        await SqliteRecords(self._database).apply(change)
        return absent.id

    async def get(self, job_id: str) -> Job | None:
        return (await self.jobs([job_id])).get(job_id)


@dataclass
class RealPool:
    """The engines of one home, and the steps of the control plane that a test takes by hand."""

    home: Path
    database: Database
    compute: LocalCompute
    records: SqliteRecords
    signals: SqliteSignals
    jobs: SubmittedJobs
    ci: SqliteCI
    clock: ShiftedClock
    rounds: list[str] = field(default_factory=list)
    strays: list[ProcessIdentity] = field(default_factory=list)  # processes without a mark, to be ended with the test

    def directory(self, instance_id: str) -> Path:
        return self.home / "instances" / instance_id

    def log(self, instance_id: str) -> str:
        return (self.directory(instance_id) / "agent.log").read_text()

    async def launch(self, run_id: str = "run-1") -> Instance:
        """One machine and its record."""
        answer: FleetAnswer = await self.compute.create_fleet(
            a_plan(run_id=run_id, client_token=SystemChance().token())
        )
        (machine,) = answer.machines
        now = self.clock.now()
        event = steps.Registered(
            at=now,
            by="test",
            run_id=run_id,
            round=self.a_round(),
            provision_id="p-1",
            until=now + timedelta(minutes=5),
            resource_class="small",
            instance_type=machine.instance_type,
            usage_class=machine.usage_class,
            cpu=machine.cpu,
            mem=machine.mem,
            trust_domain="default",
            image_generation=1,
        )
        (instance,) = await self.records.apply(steps.register(steps.absent(machine.id, now), event))
        assert isinstance(instance, Instance)
        return instance

    async def ready(self, run_id: str = "run-1") -> Instance:
        """A machine that runs for `run_id` and has registered."""
        instance = await self.launch(run_id)
        await self.reported(instance, Kind.REG_OK)
        return await self.commit(instance)

    async def commit(self, instance: Instance) -> Instance:
        members = (instance.id,)
        now = self.clock.now()
        decided = Provision(
            id="p-1",
            state=ProvisionState.COMMITTED,
            version=2,
            run_id=instance.run_id,
            want=1,
            needs=NEEDS,
            deadline=now,
            max_runtime=600.0,
            members=members,
        )
        event = steps.Committed(
            at=now, by="test", round=instance.round, provision=decided, until=now + timedelta(minutes=5)
        )
        return await self.apply(steps.commit(instance, event))

    async def release(self, instance: Instance) -> Instance:
        now = self.clock.now()
        until = now + timedelta(minutes=2)
        event = steps.Released(
            at=now, by="test", run_id=instance.run_id, round=self.a_round(), until=until, offer_due=now
        )
        return await self.apply(steps.release(instance, event))

    async def offer(self, instance: Instance, signal: Signal) -> Instance:
        now = self.clock.now()
        event = steps.Offered(at=now, by="test", signal=signal, until=now + timedelta(minutes=7))
        return await self.apply(steps.offer(instance, event))

    async def adopt(self, instance: Instance, signal: Signal) -> Instance:
        now = self.clock.now()
        event = steps.Adopted(at=now, by="test", signal=signal, until=now + timedelta(minutes=7))
        return await self.apply(steps.adopt(instance, event))

    async def claim(self, instance: Instance, run_id: str, needs: Requirements = NEEDS) -> Instance:
        now = self.clock.now()
        event = steps.Claimed(
            at=now,
            by="test",
            run_id=run_id,
            round=self.a_round(),
            provision_id="p-1",
            needs=needs,
            until=now + timedelta(minutes=5),
        )
        return await self.apply(steps.claim(instance, event))

    async def expire(self, instance: Instance) -> Instance:
        event = steps.Expired(at=self.clock.now(), by="test", round=instance.round)
        return await self.apply(steps.expire(instance, event))

    async def apply(self, change: Any) -> Instance:
        (instance,) = await self.records.apply(change)
        assert isinstance(instance, Instance)
        return instance

    async def run_job(self, run_id: str, *command: str) -> Job:
        return await self.job_ended(await self.jobs.submit(run_id, command))

    async def job_ended(self, job_id: str) -> Job:
        return await self.job_is(job_id, JobState.FINISHED)

    async def job_is(self, job_id: str, state: JobState) -> Job:
        while True:
            job = await self.jobs.get(job_id)
            if job is not None and job.state is state:
                return job
            await self.signals.wait(PATIENCE)

    async def reported(self, instance: Instance, kind: Kind) -> Signal:
        """The agent's last signal, once it is `kind` or a failure, in this record's round."""
        while True:
            pulse = (await self.signals.read([instance.id]))[instance.id]
            signal = pulse.signal
            if signal and signal.round == instance.round and (signal.kind is kind or signal.kind.is_failure):
                assert signal.kind is kind, signal.text
                return signal
            await self.signals.wait(PATIENCE)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look at the condition whenever the pool moves, which with its heartbeats is often."""
        while not condition():
            await self.signals.wait(0.1)

    async def agent(self, instance: Instance) -> ProcessIdentity:
        """The process of a machine."""
        pids = {sighting.id: sighting.pid for sighting in await self.compute.sightings()}
        process = identify(pids[instance.id] or 0)
        assert process is not None, "the agent does not run"
        return process

    async def ended(self, process: ProcessIdentity) -> None:
        assert await asyncio.to_thread(await_end, process, PATIENCE), f"{process} still runs"

    async def beats_on(self, instance: Instance) -> None:
        """Return when the agent has sent two more heartbeats."""

        async def count() -> int:
            heartbeat = (await self.signals.read([instance.id]))[instance.id].heartbeat
            return heartbeat.seq if heartbeat else 0

        first = await count()
        while await count() < first + 2:
            await self.signals.wait(0.1)

    def a_round(self) -> str:
        self.rounds.append(f"round-{len(self.rounds) + 1}")
        return self.rounds[-1]


@asynccontextmanager
async def a_pool(home: Path, settings: Settings | None = None) -> AsyncIterator[RealPool]:
    """The engines on a fresh home. Whatever happens, every process of its machines is ended at the end."""
    settings, clock, chance = settings or quick_settings(), ShiftedClock(), SystemChance()
    database = Database.open(home)
    compute = LocalCompute(database, home, settings, clock, chance)
    pool = RealPool(
        home,
        database,
        compute,
        SqliteRecords(database),
        SqliteSignals(database),
        SubmittedJobs(database, clock),
        SqliteCI(database),
        clock,
    )
    try:
        async with asyncio.timeout(PATIENCE + 10):
            yield pool
    finally:
        end_machines(home)
        for stray in pool.strays:
            end_tree(stray, mark_of("nobody"), patience=10.0)
        await compute.close()
        await database.close()


def end_machines(home: Path) -> None:
    """End every process of every machine of a home, by its mark."""
    instances = home / "instances"
    for instance_id in sorted(os.listdir(instances)) if instances.is_dir() else ():
        end_tree(None, mark_of(instance_id), patience=10.0)
