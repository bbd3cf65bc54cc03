"""Workers and jobs for one test: real use cases on memory engines, and workers that keep their tokens."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import builders
from bullpen.config import Liveness as Rules
from bullpen.config import Settings
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.engines.memory.compute import CATALOGUE
from bullpen.errors import Conflict, InvalidTransition
from bullpen.liveness import LivenessController, LivenessPass
from bullpen.liveness.heartbeat import Recorded, record_heartbeat
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest
from bullpen.model import job as jobs
from bullpen.model.fleet import LaunchedMachine
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.times import later
from bullpen.model.transition import Check, Guard
from bullpen.model.worker import ACTIVE, Worker
from bullpen.ports import Ports, Sighting

BY = "a test"
REFUSED = (Conflict, InvalidTransition)


def settings(**rules: Any) -> Settings:
    return Settings(liveness=Rules(**rules))


@dataclass
class Crew:
    """A store, and access to it as the receiver of beats has."""

    settings: Settings = field(default_factory=Settings)
    memory: Memory = field(default_factory=Memory)
    ports: Ports = field(init=False)
    _processes: int = 0

    def __post_init__(self) -> None:
        self.ports = self.process()

    def process(self, skew: float = 0.0, rates: Rates | None = None) -> Ports:
        self._processes += 1
        faults = Faults(self._processes, rates or Rates())
        return self.memory.ports(LoopClock(skew=skew), SeededChance(self._processes), faults)

    def liveness(self, ports: Ports | None = None, **options: Any) -> LivenessController:
        return LivenessController(ports or self.process(), self.settings, **options)

    # ---- what stands in the store

    def worker(self, key: str = "w") -> Worker:
        return self.memory.tables.workers[key]

    def job(self, job_id: str = "j") -> Job:
        return self.memory.tables.jobs[job_id]

    def steps(self, record_id: str) -> list[str]:
        return [line.step for line in self.memory.tables.stories.get(record_id, ())]

    def requests(self) -> Counter[str]:
        found: Counter[str] = self.ports.records._faults.requests  # type: ignore[attr-defined]
        return found

    # ---- workers

    async def beats(self, key: str = "w", **fields: Any) -> Recorded:
        """A beat with the token that counts, unless another is given."""
        known = self.memory.tables.workers.get(key)
        given = {"token": known.token if known else 0, "lease": 15, **fields}
        instance_id = given.pop("instance_id", "")
        request = HeartbeatRequest(key=key, **given)
        return await record_heartbeat(self.ports, self.settings, request, instance_id=instance_id)

    async def answered(self, key: str = "w", **fields: Any) -> HeartbeatAnswer:
        answer = await self.beats(key, **fields)
        assert isinstance(answer, HeartbeatAnswer), answer
        return answer

    async def loses(self, *keys: str, liveness: LivenessController | None = None) -> None:
        """Let these be silent until they are inactive; every other active one beats on. Nothing is rescheduled."""
        sweeper = (liveness or self.liveness()).sweeper
        for _ in range(200):
            await asyncio.sleep(1.0)
            for other in [one for one in self.memory.tables.workers.values() if one.state is ACTIVE]:
                if other.id not in keys:
                    await self.beats(other.id)
            await sweeper.run_once()
            if all(self.worker(key).state is not ACTIVE for key in keys):
                return
        raise AssertionError(f"{keys} were never lost")

    # ---- jobs

    async def submits(self, job_id: str = "j", run_id: str = "run-1", **fields: Any) -> Job:
        event = jobs.Submitted(at=self.ports.clock.now(), by=BY, **fields)
        await self.ports.records.apply(jobs.submit(jobs.absent(job_id, run_id, ("true",)), event))
        return self.job(job_id)

    async def assigns(self, job_id: str = "j", key: str = "w", **fields: Any) -> Binding:
        """As the use case does it: the worker must be alive, in that epoch, in the same write."""
        now = self.ports.clock.now()
        worker, job = self.worker(key), self.job(job_id)
        assert job.avoid != key, f"{key} lost {job_id} before"
        verify_by = later(now, self.settings.liveness.verify)
        given = {"epoch": worker.epoch, "instance_id": worker.instance_id, "verify_by": verify_by, **fields}
        alive = Guard("state", "is", ACTIVE), Guard("epoch", "is", worker.epoch), Guard("deadline", "after", now)
        (job,) = await self.ports.records.apply(
            jobs.assign(job, jobs.Assigned(at=now, by=BY, worker=key, **given)), checks=[Check(Worker, key, alive)]
        )
        return Binding(job_id, job.fence)

    async def works(self, job_id: str = "j", key: str = "w", **fields: Any) -> Binding:
        """Submit, assign and bind."""
        await self.submits(job_id, **fields)
        binding = await self.assigns(job_id, key)
        await self.answered(key, bound=(binding,))
        return binding

    async def finishes(self, binding: Binding, key: str = "w", epoch: int = 1, result: str = "succeeded") -> Job:
        """Report a result as the holder of an assignment. Raises one of `REFUSED` if it is not, any more."""
        now = self.ports.clock.now()
        ran = jobs.Ran(
            at=now,
            by=BY,
            worker=key,
            epoch=epoch,
            fence=binding.fence,
            exit_code=0,
            result=jobs.Result(result),
            purge_at=later(now, 3600),
        )
        await self.ports.records.apply(jobs.finish(self.job(binding.job_id), ran))
        return self.job(binding.job_id)

    async def cancels(self, job_id: str = "j") -> None:
        asked = jobs.CancelAsked(at=self.ports.clock.now(), by=BY)
        await self.ports.records.apply(jobs.ask_to_cancel(self.job(job_id), asked))

    # ---- machines

    async def machine(self, instance_id: str = "i-1", run_id: str = "run-1") -> Instance:
        """A running instance of a run, whose machine lives."""
        yard, now = self.memory.yard, self.ports.clock.now()
        kind = CATALOGUE[0]
        usage = builders.a_plan().usage_class
        yard.machines[instance_id] = LaunchedMachine(instance_id, kind.name, usage, kind.cpu, kind.mem)
        yard.sightings[instance_id] = Sighting(instance_id, "p-1", now, alive=True)
        for change in builders.running(instance_id, run_id):
            await self.ports.records.apply(change)
        return self.memory.tables.instances[instance_id]


async def passes(liveness: LivenessController, count: int, every: float = 1.0) -> list[LivenessPass]:
    done = []
    for _ in range(count):
        done.append(await liveness.run_once())
        await asyncio.sleep(every)
    return done


def lost(done: Sequence[LivenessPass]) -> list[str]:
    return [key for one in done for key in one.sweep.lost]


def requeued(done: Sequence[LivenessPass]) -> list[str]:
    return [job for one in done for job in one.rescheduling.requeued]
