"""A simulated agent: the real `decide()`, with virtual deeds."""

import asyncio
from contextlib import suppress
from dataclasses import field

from bullpen import jobs
from bullpen.agent.decide import (
    ABSENT,
    CleanInstance,
    EndJob,
    Observation,
    SelfStopLimits,
    SendSignal,
    Step,
    Stop,
    Wait,
    decide,
)
from bullpen.agent.progress import AgentProgress, End, HeldJob, InstanceRecord, InstanceState, LeaseHolder
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.engines.memory.ci import MemoryCI
from bullpen.engines.memory.records import MemoryRecords
from bullpen.errors import NotFound, Refused, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job as steps
from bullpen.model.activity import Activity, Listening, unnamed
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import Result
from bullpen.model.job_policy import Assignment
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.served_set import served
from bullpen.model.signal import Heartbeat, Kind, Signal, direct_key
from bullpen.ports import Ports, Removal

LOOK_FOR_JOBS = 1.0  # seconds: a job may become free by time alone
REGISTER_AGAIN = 10.0  # seconds after a registration of a scale set that the CI dropped
RESULTS = {End.CANCELLED: Result.CANCELLED, End.TIMED_OUT: Result.TIMED_OUT, End.RELEASED: Result.CANCELLED}


@dataclass(slots=True)
class Temper:
    """How long an agent takes, and what goes wrong with it."""

    boots_in: float = 1.0
    registers_in: float = 0.2
    cleans_in: float = 0.1
    boot_failure: str = ""
    registration_failure: str = ""
    cleaning_failure: str = ""
    skew: float = 0.0  # seconds by which its clock is wrong
    version: str = ""  # of the CI's runner
    prepares_in: float = 0.0  # seconds from the moment that the runner of a set gets a job until the agent admits it
    activity: Activity | None = None  # the job that a CI with jobs of its own runs there
    admits_at: float = 0.0  # that job, by the event loop
    dropped: str = ""  # the runner whose registration the CI has removed by itself
    stirred: asyncio.Event = field(default_factory=asyncio.Event)

    def work(self, activity: Activity | None) -> None:
        """A job begins there, or with None ends, and a heartbeat says so at once."""
        self.activity, self.admits_at = activity, asyncio.get_running_loop().time() + self.prepares_in
        self.stirred.set()

    def drop(self, runner: str) -> None:
        """The CI removes the registration of a runner that waits, and the runner ends."""
        self.dropped = runner
        self.stirred.set()


class SimulatedAgent:
    def __init__(self, id: str, memory: Memory, ports: Ports, settings: Settings, temper: Temper) -> None:
        assert isinstance(ports.ci, MemoryCI)
        assert isinstance(ports.records, MemoryRecords)
        self._id = id
        self._memory = memory
        self._ports = ports
        self._ci = ports.ci
        self._bell = ports.records.listener(id)
        self._settings = settings
        self._temper = temper
        self._seq = 0
        self._key = direct_key(id)
        self._job_ends = 0.0
        self._exit_code = 0
        self._runner: Listening | None = None  # registered with a scale set
        self._register_at = 0.0
        timings = settings.timings
        self._limits = SelfStopLimits(timings.provision + timings.claim_grace, timings.max_runtime, timings.idle)

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        pulse = loop.create_task(self._beat())
        progress = AgentProgress(began=loop.time())
        while True:
            found = (await self._ports.records.instances([self._id])).get(self._id)
            seen = _as_read(found, await self._has_job(found)) if found else None
            progress = progress.saw(seen) if seen else progress
            progress = self._follow(progress)
            if progress.job is not None:
                progress = await self._look_at_job(progress, progress.job)
            now = self._ports.clock.now().timestamp()
            action = decide(Observation(now, loop.time(), seen or ABSENT), progress, self._limits)
            match action:
                case Stop():
                    pulse.cancel()
                    self._memory.yard.end(self._id)
                    return
                case Wait(seconds):
                    await self._bell.wait(self._patience(3600.0 if seconds is None else max(seconds, 0.001), progress))
                case _:
                    progress = await self._do(action, seen, progress)

    def _follow(self, progress: AgentProgress) -> AgentProgress:
        """Bind and unbind the job of the CI. A registration of a scale set is for one job, and ends with it."""
        temper, runner, now = self._temper, self._runner, asyncio.get_running_loop().time()
        has_ended = (progress.activity or progress.begun) is not None and temper.activity is None
        if runner is not None:
            begun = unnamed(temper.activity.label, runner.listens) if temper.activity is not None else None
            progress = progress.following(waits=None, begun=begun, at=now)
        if progress.activity != temper.activity and now >= temper.admits_at:
            progress = progress.bound(temper.activity, now)
        if runner is None or not (has_ended or temper.dropped == runner.listens):
            return progress
        self._register_at = now if has_ended else now + REGISTER_AGAIN
        self._end_runner()
        return progress.hung_up().deregistered() if progress.is_hanging_up else progress.forgotten()

    def _end_runner(self) -> None:
        self._runner = None
        self._temper.stirred.set()

    async def _register_for_set(self, record: InstanceRecord, progress: AgentProgress) -> AgentProgress:
        """Ask for a registration, and start a runner with it."""
        temper, hub, loop = self._temper, self._memory.hub, asyncio.get_running_loop()
        assert hub is not None, "only GitHub has scale sets"
        await asyncio.sleep(max(temper.registers_in, self._register_at - loop.time()))
        if temper.registration_failure:
            return progress.registered(record, temper.registration_failure)
        try:
            given = await self._ci.register(self._id, record.run_id, record.round)
        except (NotFound, Refused, Unavailable):  # as the server answers: not yet
            await asyncio.sleep(LOOK_FOR_JOBS)
            return progress
        found = (await self._ports.records.instances([self._id])).get(self._id)
        scale_set = (await self._ports.records.scale_sets()).get(set_of_run_id(record.run_id) or "")
        has_moved_on = found is None or found.round != record.round
        # As the server does: it asks for the set by its id, and another owner's set of the name has another one.
        own = hub.sets.sets.get(scale_set.ci_id) if scale_set is not None else None
        if has_moved_on or scale_set is None or own is None or given.runner not in own.runners:
            hub.set_runners.remove(given.runner)
            return progress
        self._runner = Listening(given.runner, given.id, served(scale_set).digest)
        temper.dropped = ""
        progress = progress.registering(record, given.runner).listening()
        hub.set_runners.connect(given.jit)
        temper.stirred.set()
        return progress

    async def _hang_up(self, progress: AgentProgress) -> AgentProgress:
        """The CI removes the registration first. A job that it gave to the runner meanwhile goes on."""
        runner = self._runner
        if runner is not None and await self._ci.remove(runner.listens) is Removal.BUSY:
            return progress
        if self._temper.activity is not None:
            return progress
        self._end_runner()
        return progress.hung_up()

    def _patience(self, seconds: float, progress: AgentProgress) -> float:
        if progress.job is not None:
            return min(seconds, max(self._job_ends - asyncio.get_running_loop().time(), 0.001))
        may_change = progress.activity is not None or self._runner is not None or self._memory.tables.jobs
        return min(seconds, LOOK_FOR_JOBS) if may_change else seconds

    async def _has_job(self, found: Instance | None) -> bool:
        if found is None or found.state is not RUNNING or not self._memory.tables.jobs:
            return False
        return bool(await self._ports.jobs.queued(found.run_id, self._ports.clock.now(), 1))

    async def _look_at_job(self, progress: AgentProgress, held: HeldJob) -> AgentProgress:
        """What has become of the job here, and in the store."""
        stored = (await self._ports.jobs.jobs([held.id])).get(held.id)
        own = (held.holder.worker, held.holder.epoch, held.fence)
        if stored is None or (stored.worker, stored.epoch, stored.fence) != own:
            progress = progress.told_to_end(End.LOST)
        elif stored.cancelling:
            progress = progress.told_to_end(End.CANCELLED)
        over = held.exit_code is None and asyncio.get_running_loop().time() >= self._job_ends
        return progress.job_ended(self._exit_code) if over else progress

    async def _take_job(self, record: InstanceRecord, progress: AgentProgress) -> AgentProgress:
        taken = await jobs.take(self._ports, self._settings, self._key)
        if taken is None:
            await asyncio.sleep(LOOK_FOR_JOBS)
            return progress
        now = asyncio.get_running_loop().time()
        # `sleep SECONDS` takes so long, everything else no time; `false` fails. All say what they are.
        program, *arguments = taken.command
        self._job_ends = now + (float(arguments[0]) if program == "sleep" else 0.0)
        self._exit_code = 1 if program == "false" else 0
        await self._ports.logs.append(taken.id, taken.fence, 0, f"{' '.join(taken.command)}\n".encode())
        at = self._ports.clock.now()
        bound = steps.Holder(at=at, by=self._id, worker=taken.worker, epoch=taken.epoch, fence=taken.fence)
        await self._ports.records.apply_each([steps.bind(taken, bound)])
        holder = LeaseHolder(taken.worker, taken.epoch)
        return progress.beat(holder).took(HeldJob(taken.id, taken.fence, record.round, now, holder, taken.timeout))

    async def _settle_job(self, progress: AgentProgress) -> AgentProgress:
        job = progress.job
        assert job is not None and job.exit_code is not None, "no job to settle"  # noqa: PT018 - one thing said in two
        if job.end is not End.LOST:
            await jobs.finish(
                self._ports,
                self._settings,
                job.id,
                Assignment(job.holder.worker, job.holder.epoch, job.fence),
                exit_code=job.exit_code,
                result=RESULTS.get(job.end, Result.NONE),
            )
        return progress.job_settled()

    async def _do(
        self, action: Step | SendSignal | EndJob | CleanInstance, record: InstanceRecord | None, progress: AgentProgress
    ) -> AgentProgress:
        temper = self._temper
        if action is Step.RUN_SCRIPT:
            await asyncio.sleep(temper.boots_in)
            return progress.booting().booted(temper.boot_failure, version=temper.version)
        if isinstance(action, EndJob):
            return progress.job_ended(-9, action.why)
        assert record is not None, f"{action} without a record"
        match action:
            case SendSignal(kind, text):
                self._seq += 1
                signal = Signal(self._id, Kind(kind.value), record.run_id, record.round, self._seq, text)
                await self._ports.signals.report(signal)
                return progress.reported(kind, record.round, asyncio.get_running_loop().time())
            case Step.REGISTER if set_of_run_id(record.run_id) is not None and self._memory.hub is not None:
                return await self._register_for_set(record, progress)
            case Step.HANG_UP | Step.WITHDRAW:
                return await self._hang_up(progress)
            case Step.REGISTER:
                await asyncio.sleep(temper.registers_in)
                if not temper.registration_failure:
                    await self._ci.register(self._id, record.run_id, record.round)
                return progress.registered(record, temper.registration_failure)
            case Step.DEREGISTER:
                await self._ci.remove(self._id)
                return progress.deregistered()
            case CleanInstance(keep):
                progress = progress.cleaning_began(record)
                await asyncio.sleep(temper.cleans_in)
                return progress.cleaned(temper.cleaning_failure, keep=keep)
            case Step.TAKE_JOB:
                return await self._take_job(record, progress)
            case Step.SETTLE_JOB:
                return await self._settle_job(progress)
            case _:
                raise AssertionError(f"no such deed: {action}")

    async def _beat(self) -> None:
        seq = 0
        while True:
            seq += 1
            temper = self._temper
            activity, left = temper.activity, temper.admits_at - asyncio.get_running_loop().time()
            if activity is not None and left > 0:
                activity = unnamed(activity.label, activity.runner)
            said = activity.text() if activity else self._runner.text() if self._runner else ""
            await self._ports.signals.beat(Heartbeat(self._id, self._ports.clock.now(), seq, said))
            if not self._settings.on_github:
                await asyncio.sleep(self._settings.timings.heartbeat)
                continue
            with suppress(TimeoutError):
                heartbeat = self._settings.timings.heartbeat
                async with asyncio.timeout(min(heartbeat, left) if left > 0 else heartbeat):
                    await temper.stirred.wait()
            temper.stirred.clear()


def _as_read(found: Instance, has_job: bool) -> InstanceRecord:
    return InstanceRecord(
        state=InstanceState(found.state.value),
        run_id=found.run_id,
        round=found.round,
        threshold=found.threshold.timestamp(),
        attested=found.attested,
        trust_domain=found.trust_domain,
        has_job=has_job,
    )
