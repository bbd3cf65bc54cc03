"""What an agent has done so far: a frozen value that every deed replaces.

It names rounds, never "current": a deed done for an earlier owner must not pass for one done for this owner.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, StrEnum, auto
from math import inf
from typing import TYPE_CHECKING

from bullpen.lazy_dataclass import dataclass
from bullpen.model.limits import SET_PREFIX

if TYPE_CHECKING:
    from bullpen.model.activity import Activity, Listening


class InstanceState(StrEnum):
    """The states of an instance's record, as its agent reads them."""

    CREATED = "created"
    IDLE = "idle"
    CLAIMED = "claimed"
    RUNNING = "running"
    TERMINATED = "terminated"


SERVING = (InstanceState.CREATED, InstanceState.CLAIMED, InstanceState.RUNNING)
"""A run has the instance, or is about to."""


class SignalKind(StrEnum):
    """What an agent reports, in the order of a round. The control plane knows the same words."""

    OK = "UD_OK"
    FAILED = "UD_FAILED"
    CLAIM_SEEN = "UD_CLAIM_SEEN"
    REG_OK = "UD_REG_OK"
    REG_FAILED = "UD_REG_FAILED"
    REMOVE_REG_OK = "UD_REMOVE_REG_OK"
    REMOVE_REG_FAILED = "UD_REMOVE_REG_FAILED"
    CLEAN_OK = "UD_CLEAN_OK"
    CLEAN_FAILED = "UD_CLEAN_FAILED"

    @property
    def is_failure(self) -> bool:
        return self.endswith("_FAILED")

    @property
    def rank(self) -> int:
        return list(SignalKind).index(self)


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """The instance's record as its agent reads it. `threshold` is in seconds since 1970."""

    state: InstanceState
    run_id: str
    round: str
    threshold: float
    attested: bool = False
    trust_domain: str = ""
    has_job: bool = False  # a job of its run waits for a runner
    repository: str = ""  # whose run it is, where the CI has several

    @property
    def serves_set(self) -> bool:
        """Whether its owner is a scale set of the CI, not a run."""
        return self.run_id.startswith(SET_PREFIX)


class Phase(Enum):
    DUE = auto()
    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class RoundAttempt:
    """Something done once per round that may fail; `text` says why it did."""

    round: str
    phase: Phase
    text: str = ""


class End(Enum):
    """How it came that a job ended, or why it must."""

    RAN = auto()  # by itself
    CANCELLED = auto()  # a user asked for it
    TIMED_OUT = auto()
    RELEASED = auto()  # its run is over
    RETURNED = auto()  # it could not begin here, and another worker may have it
    LOST = auto()  # another worker has it, or it belongs to an earlier epoch of this one: its result does not count


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """As whom a job is held: the worker's key and its epoch."""

    worker: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job taken in a round. `began` is a monotonic reading; `exit_code` is None while it runs."""

    id: str
    fence: int
    round: str
    began: float
    holder: LeaseHolder = LeaseHolder()
    timeout: float = 0.0  # seconds; 0: none of its own
    exit_code: int | None = None
    end: End = End.RAN
    why: str = ""  # what to say about the exit code, where that says too little
    is_over: bool = False  # its command has ended, and what it leaves is being collected: it cannot time out any more

    @property
    def times_out_at(self) -> float:
        return self.began + (self.timeout or inf)


@dataclass(frozen=True, slots=True)
class AgentProgress:
    began: float  # monotonic reading at start
    seen: InstanceRecord | None = None  # the last record read; what holds while the store cannot be reached
    boot: RoundAttempt = RoundAttempt("", Phase.DUE)
    registration: RoundAttempt | None = None  # the CI knows the agent by the label of this round, or will, or refused
    runner: str = ""  # the name by which it knows the agent, where it has names of its own
    serves_set: bool = False  # that registration is for one job of a scale set
    waits: Listening | None = None  # its runner listens, and has not been given that job yet
    begun: Activity | None = None  # the CI has given its runner a job; until its hook asks, nothing else is known of it
    is_withdrawn: bool = False  # the CI has removed the registration, and its runner has not ended yet
    is_held: bool = False  # the CI did not remove it: it says that the runner has a job
    asks_at: tuple[str, float] = ("", 0.0)  # a round, and the monotonic reading at which to ask the CI again in it
    refused_job: str = ""  # a job of a set that was refused, and why: the next request reports it
    listens: bool = False  # a runner of the CI runs here, or its files lie here: it ends before the agent deregisters
    activity: Activity | None = None  # the job that the CI runs here
    activity_began: float = 0.0  # monotonic reading; of the job that has begun, before there is an activity
    is_ending: bool = False  # its last step is over, and the CI hears of that in a moment
    version: str = ""  # of the CI's runner
    is_hanging_up: bool = False  # the agent has begun to stop listening
    left_registered: str = ""  # why the registration stays at the CI for good: nothing here can remove it any more
    cleaning: RoundAttempt | None = None
    is_used: bool = False  # a job could have run here since the last cleaning
    kept_for: str = ""  # the trust domain whose kept entries are on the disk
    job: HeldJob | None = None
    told: End | None = None  # the store says that the job must end
    holder: LeaseHolder = LeaseHolder()  # as which worker, since the last beat
    signal: tuple[SignalKind, str] | None = None  # the last report and its round
    signalled_at: float = 0.0  # monotonic reading at that report

    @property
    def registered_for(self) -> str:
        """The round whose label the CI knows the agent by, or may know it by; empty if it does not know it."""
        attempt = self.registration
        return attempt.round if attempt and (attempt.phase is Phase.DONE or self.runner) else ""

    @property
    def beats(self) -> str:
        """What a heartbeat says of the CI's jobs: the one that runs, or that the runner of a set prepares one, or waits
        for one."""
        if (job := self.activity or self.begun) is not None:
            return job.text()
        return self.waits.text() if self.waits is not None and not self.is_withdrawn else ""

    def must_wait(self, round: str, now: float) -> bool:
        """Whether the CI is not to be asked yet in this round."""
        return self.asks_at[0] == round and now < self.asks_at[1]

    def has_reported(self, kind: SignalKind, round: str) -> bool:
        """True if `round` has come as far as `kind`. A failure implies what came before it, not what it failed at."""
        if self.signal is None or self.signal[1] != round:
            return False
        last = self.signal[0]
        return last is kind or (not kind.is_failure and last.rank > kind.rank + last.is_failure)

    # ------------------------------------------------------------------------------------------------ what deeds change

    def saw(self, record: InstanceRecord) -> AgentProgress:
        return replace(self, seen=record)

    def reported(self, kind: SignalKind, round: str, at: float) -> AgentProgress:
        return replace(self, signal=(kind, round), signalled_at=at)

    def booting(self) -> AgentProgress:
        return replace(self, boot=RoundAttempt("", Phase.UNDER_WAY))

    def booted(self, failure: str = "", *, version: str = "") -> AgentProgress:
        return replace(self, boot=RoundAttempt("", Phase.FAILED if failure else Phase.DONE, failure), version=version)

    def registered(self, record: InstanceRecord, failure: str = "", *, keeps: bool = False) -> AgentProgress:
        """The CI has answered. Even a refusal leaves the instance used: how far the attempt went is not known."""
        attempt = RoundAttempt(record.round, Phase.FAILED if failure else Phase.DONE, failure)
        kept_for = record.trust_domain if keeps else ""
        return replace(self, registration=attempt, is_hanging_up=False, cleaning=None, is_used=True, kept_for=kept_for)

    def registering(self, record: InstanceRecord, runner: str, *, keeps: bool = False) -> AgentProgress:
        """The CI may know the agent by this name from now on; until the runner listens, time passes."""
        begun = replace(self.registered(record, keeps=keeps), serves_set=record.serves_set)
        attempt = RoundAttempt(record.round, Phase.UNDER_WAY)
        return replace(begun, registration=attempt, runner=runner, listens=True, refused_job="")

    def listening(self, failure: str = "") -> AgentProgress:
        """What `registering` began is done, or has failed, also later."""
        assert self.registration is not None, "listening without having registered"
        phase = Phase.FAILED if failure else Phase.DONE
        return replace(self, registration=RoundAttempt(self.registration.round, phase, failure))

    def following(self, *, waits: Listening | None, begun: Activity | None, at: float) -> AgentProgress:
        """What the runner of a set is at."""
        began = at if begun is not None and self.begun is None else self.activity_began
        return replace(self, waits=waits, begun=begun, activity_began=began)

    def asking_at(self, round: str, at: float) -> AgentProgress:
        """The CI is not asked again in this round before that."""
        return replace(self, asks_at=(round, at))

    def held(self) -> AgentProgress:
        return replace(self, is_held=True)

    def withdrawn(self) -> AgentProgress:
        return replace(self, is_withdrawn=True, is_held=False)

    def refused(self, job: str) -> AgentProgress:
        return replace(self, refused_job=job)

    def hanging_up(self) -> AgentProgress:
        return replace(self, is_hanging_up=True)

    def hung_up(self, left_registered: str = "") -> AgentProgress:
        """Nothing listens any more. `left_registered` says why the registration stays at the CI, if it does."""
        left = left_registered or self.left_registered
        ended = replace(self, waits=None, begun=None, is_withdrawn=False, is_held=False)
        return replace(ended, is_hanging_up=False, left_registered=left, listens=False, activity=None)

    def forgotten(self) -> AgentProgress:
        """The CI has removed the runner by itself: a registration may have been for one job."""
        return self.deregistered().hung_up()

    def bound(self, activity: Activity | None, at: float) -> AgentProgress:
        return replace(self, activity=activity, activity_began=at, is_ending=False)

    def ending(self) -> AgentProgress:
        return replace(self, is_ending=True)

    def deregistered(self) -> AgentProgress:
        return replace(self, registration=None, is_hanging_up=False, runner="", serves_set=False)

    def cleaning_began(self, record: InstanceRecord) -> AgentProgress:
        return replace(self, cleaning=RoundAttempt(record.round, Phase.UNDER_WAY))

    def cleaned(self, failure: str = "", *, keep: bool = True) -> AgentProgress:
        assert self.cleaning is not None, "cleaned without having begun"
        if failure:
            return replace(self, cleaning=RoundAttempt(self.cleaning.round, Phase.FAILED, failure))
        attempt = RoundAttempt(self.cleaning.round, Phase.DONE)
        return replace(self, cleaning=attempt, is_used=False, kept_for=self.kept_for if keep else "")

    def beat(self, holder: LeaseHolder) -> AgentProgress:
        return replace(self, holder=holder)

    def took(self, job: HeldJob) -> AgentProgress:
        return replace(self, job=job, told=None)

    def told_to_end(self, end: End | None) -> AgentProgress:
        return replace(self, told=end)

    def job_is_over(self) -> AgentProgress:
        assert self.job is not None, "a job ended that was never taken"
        return replace(self, job=replace(self.job, is_over=True))

    def job_ended(self, exit_code: int, end: End = End.RAN, why: str = "") -> AgentProgress:
        assert self.job is not None, "a job ended that was never taken"
        return replace(self, job=replace(self.job, exit_code=exit_code, end=end, why=why))

    def job_settled(self) -> AgentProgress:
        return replace(self, job=None, told=None)
