"""What an agent does next: what it sees and what it has done so far in, one action out. Pure.

    boot ── script ──▶ UD_OK ─────────────┐
                                          ▼
    idle, on offer ── claim ──▶ UD_CLAIM_SEEN ── register ──▶ UD_REG_OK ── jobs
          ▲                                                                  │ idle in a new round
          └── UD_CLEAN_OK ◀── clean, verify ◀── UD_REMOVE_REG_OK ◀── end jobs, deregister

The loop carries out the action, notes it in the `AgentProgress`, and asks again, until the answer is to wait.

The agent stops itself when its record, once seen, is gone or terminated, and a minute after its threshold: the control
plane had that minute to end the machine. An unreachable store alone is no reason to stop. The last known threshold
still counts, so that a machine whose control plane is gone does not run for ever; while a job runs, the longest runtime
counts. An agent that has attested waits as long as if it were on offer: the process that should have offered it may
have been killed, and another one finds a clean machine.

A job ends early when it has timed out, when the store says so, and when this worker does not hold it any more: after
its lease ran out the worker comes back in a new epoch, and other workers have the jobs of the old one.

After a notice that the machine will be taken away, no new job begins here and a claim is refused at once. The job that
runs goes on, because it may end in time.

GitHub gives its jobs to a runner of its own, which the agent starts and stops. Starting takes seconds, so a
registration may be under way. The runner is not stopped while a job runs on it, even if the instance is released. A
runner for one job is followed by the next in the same round, with a cleaning in between. If it cannot go on, the agent
stops, so that the control plane replaces the instance.

The runner of a scale set may be given a job until the moment it ends, and GitHub learns late that it has one. So the
agent withdraws it in another order: the server removes the registration first, then the runner has a minute to end by
itself or to report a job, and only then it is interrupted.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from math import inf

from bullpen.agent.progress import AgentProgress, End, InstanceRecord, InstanceState, Phase, SignalKind
from bullpen.lazy_dataclass import dataclass
from bullpen.model.signal_text import busy, has_runner

GRACE = 60.0
"""Seconds past a threshold in which the control plane ends an instance properly before it ends itself."""


class NoRecord(Enum):
    ABSENT = "absent"  # the store answered: there is no such record
    UNKNOWN = "unknown"  # the store did not answer


ABSENT, UNKNOWN = NoRecord


@dataclass(frozen=True, slots=True)
class Observation:
    """One look around. `ending` is why the machine itself is ending: a signal, its directory gone; `notice` says
    that the machine is going to be taken away, and why."""

    now: float  # wall clock, seconds since 1970
    monotonic: float
    record: InstanceRecord | NoRecord
    ending: str = ""
    notice: str = ""


@dataclass(frozen=True, slots=True)
class SelfStopLimits:
    appears_within: float  # seconds from start to the created threshold: until then an absent record is no alarm
    max_runtime: float  # seconds a job may run while the store cannot be reached
    idle: float  # seconds a clean instance may wait for its next owner


class Step(StrEnum):
    RUN_SCRIPT = "run the pre-runner script"
    REGISTER = "register with the CI"
    TAKE_JOB = "take a job"
    SETTLE_JOB = "report the job's end"
    HANG_UP = "stop listening for the CI's jobs"
    WITHDRAW = "have the registration removed, and let its runner end by itself"
    DEREGISTER = "deregister"


@dataclass(frozen=True, slots=True)
class SendSignal:
    kind: SignalKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class EndJob:
    """Kill the job with everything it started."""

    why: End


@dataclass(frozen=True, slots=True)
class CleanInstance:
    """Clean and verify; without `keep` what the keep-list covers goes too."""

    keep: bool = True


@dataclass(frozen=True, slots=True)
class Stop:
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until something changes, or for `seconds`; None: time alone changes nothing."""

    seconds: float | None = None


Action = Step | SendSignal | EndJob | CleanInstance | Stop | Wait


def decide(sight: Observation, progress: AgentProgress, limits: SelfStopLimits) -> Action:
    if reason := sight.ending or _reason_to_stop(sight, progress, limits):
        return Stop(reason)
    if progress.boot.phase is Phase.DUE:
        return Step.RUN_SCRIPT
    if end := _reason_to_end_the_job(sight, progress):
        return EndJob(end)
    action = _next(sight, sight.record, progress) if isinstance(sight.record, InstanceRecord) else None
    return action or Wait(_until_something_is_due(sight, progress, limits))


def _reason_to_end_the_job(sight: Observation, progress: AgentProgress) -> End | None:
    job = progress.job
    if job is None or job.exit_code is not None:
        return None
    if job.holder != progress.holder:
        return End.LOST
    is_late = sight.monotonic >= job.times_out_at and not job.is_over
    return progress.told or (End.TIMED_OUT if is_late else None)


def _until_something_is_due(sight: Observation, progress: AgentProgress, limits: SelfStopLimits) -> float | None:
    left, job = _until_next_judgement(sight, progress, limits), progress.job
    if progress.asks_at[1] > sight.monotonic:
        left = min(inf if left is None else left, progress.asks_at[1] - sight.monotonic)
    if job is None or not job.timeout or job.is_over or job.exit_code is not None:
        return left
    return min(inf if left is None else left, job.times_out_at - sight.monotonic)


def _reason_to_stop(sight: Observation, progress: AgentProgress, limits: SelfStopLimits) -> str:
    if sight.record is ABSENT and progress.seen is not None:
        return "its record is gone"
    if isinstance(sight.record, InstanceRecord) and sight.record.state is InstanceState.TERMINATED:
        return "its record is terminated"
    left = _until_next_judgement(sight, progress, limits)
    if left is None or left > 0:
        return ""
    if sight.record is ABSENT:
        return f"no record appeared within {limits.appears_within + GRACE:g} s"
    return "its threshold passed a minute ago"


def _until_next_judgement(sight: Observation, progress: AgentProgress, limits: SelfStopLimits) -> float | None:
    """Seconds until the agent stops itself if nothing changes; None if time alone never makes it."""
    if sight.record is ABSENT:
        return progress.began + limits.appears_within + GRACE - sight.monotonic
    known = sight.record if isinstance(sight.record, InstanceRecord) else progress.seen
    if known is None:
        return None
    left = known.threshold + GRACE - sight.now
    if sight.record is UNKNOWN and (began := _job_began(progress)) is not None:
        # The record may have moved on to a later threshold, unknown here: the job gets what it may need at most.
        left = max(left, began + limits.max_runtime + GRACE - sight.monotonic)
    if _awaits_its_offer(known, progress):
        left = max(left, progress.signalled_at + limits.idle + GRACE - sight.monotonic)
    return left


def _job_began(progress: AgentProgress) -> float | None:
    if progress.activity is not None or progress.begun is not None:
        return progress.activity_began
    return progress.job.began if progress.job is not None else None


def _awaits_its_offer(record: InstanceRecord, progress: AgentProgress) -> bool:
    """Attested in this round, while the record still carries the threshold of its cleaning."""
    return (
        record.state is InstanceState.IDLE
        and not record.attested
        and not progress.is_used
        and progress.signal == (SignalKind.CLEAN_OK, record.round)
    )


def _next(sight: Observation, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    notice = sight.notice
    if notice and _is_being_verified(record, progress):
        # Instead of an acknowledgement: the provision looks for another machine while there is time.
        return _once(SendSignal(SignalKind.REG_FAILED, notice), record, progress)
    if record.state is InstanceState.CLAIMED and (progress.signal is None or progress.signal[1] != record.round):
        # Before anything that takes time: a claim without an answer is soon given to another instance as well.
        return SendSignal(SignalKind.CLAIM_SEEN)
    if progress.job is not None and progress.job.exit_code is not None:
        return Step.SETTLE_JOB
    if progress.boot.phase is Phase.FAILED:
        return _once(SendSignal(SignalKind.FAILED, progress.boot.text), record, progress)
    if progress.boot.phase is not Phase.DONE:
        return None
    if record.state is InstanceState.CREATED and not progress.has_reported(SignalKind.OK, record.round):
        return SendSignal(SignalKind.OK, has_runner(progress.version))
    if progress.cleaning is not None and progress.cleaning.phase is Phase.UNDER_WAY:
        return None
    if record.state is InstanceState.IDLE:
        return _give_back(sight, record, progress)
    return _serve(sight, record, progress) if record.run_id else None


def _is_being_verified(record: InstanceRecord, progress: AgentProgress) -> bool:
    """A provision claimed or created this instance, and does not know yet that it is ready."""
    is_on_its_way = record.state in (InstanceState.CLAIMED, InstanceState.CREATED) and bool(record.run_id)
    return is_on_its_way and not progress.has_reported(SignalKind.REG_OK, record.round)


def _serve(sight: Observation, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    """The instance has an owner: register under its label, then take its jobs."""
    notice = sight.notice
    if progress.job is not None and progress.job.round != record.round:
        return EndJob(End.RELEASED)
    if progress.registered_for not in ("", record.round):
        return _deregister(sight, record, progress)
    attempt = progress.registration
    if attempt is not None and attempt.round == record.round and attempt.phase is Phase.FAILED:
        return _cannot_serve(attempt.text, record, progress)
    if attempt is not None and attempt.phase is Phase.UNDER_WAY:
        return None
    if progress.runner and not progress.listens:
        # It ended as if the CI had removed it. That is made sure before the agent registers under another name.
        return _deregister(sight, record, progress)
    if notice and progress.activity is None:
        # A runner that listens would be given a job that cannot end in time.
        return _deregister(sight, record, progress) if progress.runner else None
    if not progress.registered_for:
        if _meets_leftovers(record, progress):
            return _prepare(record, progress)
        return None if progress.must_wait(record.round, sight.monotonic) else Step.REGISTER
    if not progress.has_reported(SignalKind.REG_OK, record.round):
        return SendSignal(SignalKind.REG_OK)
    if record.state is InstanceState.RUNNING and record.has_job and progress.job is None and not notice:
        return Step.TAKE_JOB
    return None


def _cannot_serve(why: str, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    """Report it to the process that waits. After a first REG_OK none waits any more: then the agent stops. For the
    member of a set none waits in any later round either."""
    is_member = record.serves_set and record.state is InstanceState.RUNNING
    if is_member or progress.has_reported(SignalKind.REG_OK, record.round):
        return Stop(why)
    return _once(SendSignal(SignalKind.REG_FAILED, why), record, progress)


def _meets_leftovers(record: InstanceRecord, progress: AgentProgress) -> bool:
    """The records see to it that a claim meets only cleaned instances; the agent does not rely on it. And what was kept
    for one trust domain goes before another one moves in."""
    return progress.is_used or progress.kept_for not in ("", record.trust_domain)


def _prepare(record: InstanceRecord, progress: AgentProgress) -> Action | None:
    if progress.cleaning is not None and progress.cleaning.round == record.round:
        # It failed, for a cleaning that succeeds leaves nothing to prepare.
        return _cannot_serve(progress.cleaning.text, record, progress)
    return CleanInstance(keep=progress.kept_for == record.trust_domain)


def _give_back(sight: Observation, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    """No run owns the instance: end its jobs, deregister, clean, and attest in this round."""
    if progress.job is not None:
        return EndJob(End.RELEASED)
    if progress.registered_for:
        return _deregister(sight, record, progress)
    if record.attested and not progress.is_used:
        return None
    if not progress.has_reported(SignalKind.REMOVE_REG_OK, record.round):
        return SendSignal(SignalKind.REMOVE_REG_OK)
    if progress.cleaning is None or progress.cleaning.round != record.round:
        return CleanInstance()
    if progress.cleaning.phase is Phase.FAILED:
        return _once(SendSignal(SignalKind.CLEAN_FAILED, progress.cleaning.text), record, progress)
    return _once(SendSignal(SignalKind.CLEAN_OK, has_runner(progress.version)), record, progress)


def _deregister(sight: Observation, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    if (activity := progress.activity) is not None:
        attempt = progress.registration
        if attempt is not None and attempt.phase is Phase.FAILED:
            return Stop(attempt.text)  # its runner is dead: the job will not end here
        if progress.is_ending:
            return None  # the control plane may have heard of the end of the job before the agent did
        words = f"job {activity.job} of {activity.repository}, run {activity.run}, has not ended yet"
        return _busy(words, record, progress)
    if progress.is_hanging_up:
        return None
    if progress.listens:
        return _withdraw(sight, record, progress) if progress.serves_set else Step.HANG_UP
    if progress.left_registered:
        return _once(SendSignal(SignalKind.REMOVE_REG_FAILED, progress.left_registered), record, progress)
    return Step.DEREGISTER


def _withdraw(sight: Observation, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    """Not while its runner has a job, or may have one: neither a look nor a removal stops a runner."""
    attempt = progress.registration
    if attempt is not None and attempt.phase is Phase.FAILED:
        return Step.HANG_UP  # its runner is dead: nothing can begin there
    if progress.is_withdrawn or progress.begun is not None:
        return None
    if not progress.is_held:
        return Step.WITHDRAW
    words = f"GitHub has given {progress.runner} a job, which has not begun here yet"
    waits = progress.must_wait(record.round, sight.monotonic)
    return _busy(words, record, progress) or (None if waits else Step.WITHDRAW)


def _busy(words: str, record: InstanceRecord, progress: AgentProgress) -> Action | None:
    """Report it to the process that waits for the instance. None waits while the instance goes on serving its set."""
    if record.serves_set and record.state is InstanceState.RUNNING:
        return None
    return _once(SendSignal(SignalKind.REMOVE_REG_FAILED, busy(words)), record, progress)


def _once(report: SendSignal, record: InstanceRecord, progress: AgentProgress) -> SendSignal | None:
    return None if progress.has_reported(report.kind, record.round) else report
