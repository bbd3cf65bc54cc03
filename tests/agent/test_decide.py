"""What the agent decides, for everything it may see."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bullpen.agent.decide import (
    ABSENT,
    GRACE,
    UNKNOWN,
    Action,
    CleanInstance,
    EndJob,
    NoRecord,
    Observation,
    SelfStopLimits,
    SendSignal,
    Step,
    Stop,
    Wait,
    decide,
)
from bullpen.agent.progress import (
    AgentProgress,
    End,
    HeldJob,
    InstanceRecord,
    InstanceState,
    LeaseHolder,
    Phase,
    RoundAttempt,
    SignalKind,
)
from bullpen.model import instance, signal

NOW = 1_000_000.0
LIMITS = SelfStopLimits(appears_within=660.0, max_runtime=1800.0, idle=420.0)


def a_record(state: InstanceState = InstanceState.CREATED, **changes: Any) -> InstanceRecord:
    owned = state in (InstanceState.CREATED, InstanceState.CLAIMED, InstanceState.RUNNING)
    return replace(InstanceRecord(state, "run-1" if owned else "", "r1", NOW + 600), **changes)


def a_sight(record: InstanceRecord | NoRecord, **changes: Any) -> Observation:
    return replace(Observation(NOW, 100.0, record), **changes)


def booted(**changes: Any) -> AgentProgress:
    return replace(AgentProgress(began=100.0).booting().booted(), **changes)


def registered(record: InstanceRecord) -> AgentProgress:
    return booted().registered(record).reported(SignalKind.REG_OK, record.round, at=100.0)


def next_of(record: InstanceRecord | NoRecord, progress: AgentProgress, **sight: Any) -> Action:
    return decide(a_sight(record, **sight), progress, LIMITS)


@dataclass
class Driven:
    """An agent whose every deed succeeds at once, or fails as told."""

    progress: AgentProgress = field(default_factory=lambda: AgentProgress(began=100.0))
    failing: tuple[str, ...] = ()
    keeps: bool = False
    deeds: list[str] = field(default_factory=list)

    def meets(self, record: InstanceRecord | NoRecord, **sight: Any) -> Action:
        """Let it do whatever it wants about a record; the action on which it rests."""
        if isinstance(record, InstanceRecord):
            self.progress = self.progress.saw(record)
        for _ in range(30):
            action = decide(a_sight(record, **sight), self.progress, LIMITS)
            if isinstance(action, Wait | Stop):
                return action
            self._carry_out(action, record)
        raise AssertionError(f"it never rests: {self.deeds[-6:]}")

    def _carry_out(self, action: Action, record: InstanceRecord | NoRecord) -> None:
        self.deeds.append(action.kind if isinstance(action, SendSignal) else type(action).__name__)
        if isinstance(action, Step):
            self.deeds[-1] = action.name
        progress = self.progress
        if action is Step.RUN_SCRIPT:
            self.progress = progress.booting().booted(self._failure("script"))
            return
        if isinstance(action, EndJob):
            self.progress = progress.job_ended(-9, action.why)
            return
        assert isinstance(record, InstanceRecord), f"{action} without a record"
        match action:
            case SendSignal(kind):
                self.progress = progress.reported(kind, record.round, at=100.0)
            case CleanInstance(keep):
                self.progress = progress.cleaning_began(record).cleaned(self._failure("clean"), keep=keep)
            case Step.REGISTER:
                self.progress = progress.registered(record, self._failure("register"), keeps=self.keeps)
            case Step.DEREGISTER:
                failure = self._failure("deregister")
                self.progress = progress.hung_up(failure) if failure else progress.deregistered()
            case Step.TAKE_JOB:
                self.progress = progress.took(HeldJob("j-1", 1, record.round, 100.0, progress.holder))
            case Step.SETTLE_JOB:
                self.progress = progress.job_settled()

    def _failure(self, deed: str) -> str:
        return f"{deed} went wrong" if deed in self.failing else ""


# ------------------------------------------------------------------------------------------------------------ the words


def test_the_agent_and_the_control_plane_use_the_same_words_in_the_same_order() -> None:
    assert [kind.value for kind in SignalKind] == [kind.value for kind in signal.Kind]
    assert [state.value for state in InstanceState] == [s.value for s in instance.State if s is not instance.ABSENT]
    assert [kind.is_failure for kind in SignalKind] == [kind.is_failure for kind in signal.Kind]


# ------------------------------------------------------------------------------------------------------------- one life


def test_a_created_instance_boots_registers_and_takes_jobs() -> None:
    agent = Driven()
    agent.meets(ABSENT)
    agent.meets(a_record())
    agent.meets(a_record(InstanceState.RUNNING, has_job=True))
    assert agent.deeds == ["RUN_SCRIPT", "UD_OK", "REGISTER", "UD_REG_OK", "TAKE_JOB"]


def test_a_pre_warmed_instance_reports_that_it_booted_and_waits() -> None:
    agent = Driven()
    agent.meets(a_record(run_id=""))
    agent.meets(a_record(InstanceState.IDLE, attested=True))
    assert agent.deeds == ["RUN_SCRIPT", "UD_OK"]


def test_a_released_instance_ends_its_job_deregisters_cleans_and_attests() -> None:
    agent = Driven(registered(a_record()).took(HeldJob("j-1", 1, "r1", 100.0)))
    agent.meets(a_record(InstanceState.IDLE, round="r2"))
    assert agent.deeds == ["EndJob", "SETTLE_JOB", "DEREGISTER", "UD_REMOVE_REG_OK", "CleanInstance", "UD_CLEAN_OK"]
    assert agent.progress.signal == (SignalKind.CLEAN_OK, "r2")


def test_a_claim_is_acknowledged_before_anything_else() -> None:
    agent = Driven(booted())
    agent.meets(a_record(InstanceState.CLAIMED, round="r3"))
    assert agent.deeds == ["UD_CLAIM_SEEN", "REGISTER", "UD_REG_OK"]


def test_a_claim_that_was_rolled_back_unseen_is_cleaned_and_attested_all_the_same() -> None:
    agent = Driven(booted())
    agent.meets(a_record(InstanceState.IDLE, round="r2"))
    assert agent.deeds == ["UD_REMOVE_REG_OK", "CleanInstance", "UD_CLEAN_OK"]


def test_an_instance_on_offer_rests() -> None:
    agent = Driven(
        booted().cleaning_began(a_record(round="r2")).cleaned().reported(SignalKind.CLEAN_OK, "r2", at=100.0)
    )
    assert isinstance(agent.meets(a_record(InstanceState.IDLE, round="r2", attested=True)), Wait)
    assert agent.deeds == []


def test_a_claimed_instance_takes_no_job_before_it_runs() -> None:
    record = a_record(InstanceState.CLAIMED, has_job=True)
    assert isinstance(next_of(record, registered(record)), Wait)


def test_one_job_at_a_time() -> None:
    record = a_record(InstanceState.RUNNING, has_job=True)
    assert isinstance(next_of(record, registered(record).took(HeldJob("j-1", 1, "r1", 100.0))), Wait)


# ------------------------------------------------------------------------------------------------------------- failures


def test_a_failed_script_is_reported_once_with_its_last_lines() -> None:
    failed = AgentProgress(began=100.0).booting().booted("exit 3: no disk")
    assert next_of(a_record(), failed) == SendSignal(SignalKind.FAILED, "exit 3: no disk")
    assert isinstance(next_of(a_record(), failed.reported(SignalKind.FAILED, "r1", at=100.0)), Wait)


@pytest.mark.parametrize(
    ("failing", "record", "last"),
    [
        ("script", a_record(), SignalKind.FAILED),
        ("script", a_record(InstanceState.CLAIMED), SignalKind.FAILED),
        ("register", a_record(), SignalKind.REG_FAILED),
        ("deregister", a_record(InstanceState.IDLE, round="r2"), SignalKind.REMOVE_REG_FAILED),
        ("clean", a_record(InstanceState.IDLE, round="r2"), SignalKind.CLEAN_FAILED),
    ],
)
def test_each_failure_ends_the_round_with_its_own_signal(
    failing: str, record: InstanceRecord, last: SignalKind
) -> None:
    start = registered(a_record()) if record.state is InstanceState.IDLE else AgentProgress(began=100.0)
    agent = Driven(start, failing=(failing,))
    agent.meets(record)
    assert agent.progress.signal == (last, record.round)


def test_what_was_not_cleaned_is_never_attested() -> None:
    agent = Driven(registered(a_record()), failing=("clean",))
    agent.meets(a_record(InstanceState.IDLE, round="r2"))
    assert SignalKind.CLEAN_OK not in agent.deeds


# -------------------------------------------------------------------------------------------- what the records rule out


def test_a_claim_in_the_middle_of_cleaning_is_acknowledged_and_waits_for_its_end() -> None:
    cleaning = registered(a_record()).deregistered().cleaning_began(a_record(InstanceState.IDLE, round="r2"))
    claim = a_record(InstanceState.CLAIMED, round="r3")
    assert next_of(claim, cleaning) == SendSignal(SignalKind.CLAIM_SEEN)
    assert isinstance(next_of(claim, cleaning.reported(SignalKind.CLAIM_SEEN, "r3", at=100.0)), Wait)


def test_a_claim_of_a_used_instance_registers_only_after_a_cleaning() -> None:
    agent = Driven(registered(a_record()))
    agent.meets(a_record(InstanceState.CLAIMED, round="r3", run_id="run-3"))
    assert agent.deeds == ["UD_CLAIM_SEEN", "DEREGISTER", "CleanInstance", "REGISTER", "UD_REG_OK"]


def test_a_claim_of_an_instance_that_cannot_be_cleaned_fails() -> None:
    agent = Driven(registered(a_record()), failing=("clean",))
    agent.meets(a_record(InstanceState.CLAIMED, round="r3", run_id="run-3"))
    assert agent.progress.signal == (SignalKind.REG_FAILED, "r3")
    assert "REGISTER" not in agent.deeds


def test_a_job_of_an_earlier_round_ends_before_the_next_owner_is_served() -> None:
    owned = a_record(InstanceState.RUNNING, round="r3")
    assert next_of(owned, registered(a_record()).took(HeldJob("j-1", 1, "r1", 100.0))) == EndJob(End.RELEASED)


# -------------------------------------------------------------------------------------------------------- trust domains


def test_what_was_kept_for_one_trust_domain_goes_before_another_moves_in() -> None:
    agent = Driven(booted(), keeps=True)
    agent.meets(a_record(InstanceState.CLAIMED, trust_domain="team-a"))
    agent.meets(a_record(InstanceState.IDLE, round="r2", trust_domain="team-a"))
    agent.deeds.clear()
    claim = a_record(InstanceState.CLAIMED, round="r3", trust_domain="team-b")
    assert next_of(claim, agent.progress.reported(SignalKind.CLAIM_SEEN, "r3", at=100.0)) == CleanInstance(keep=False)
    agent.meets(claim)
    assert agent.deeds == ["UD_CLAIM_SEEN", "CleanInstance", "REGISTER", "UD_REG_OK"]


def test_what_was_kept_stays_within_its_trust_domain() -> None:
    agent = Driven(booted(), keeps=True)
    for record in (
        a_record(InstanceState.CLAIMED),
        a_record(InstanceState.IDLE, round="r2"),
        a_record(InstanceState.CLAIMED, round="r3"),
    ):
        agent.meets(replace(record, trust_domain="team-a"))
    assert agent.deeds.count("CleanInstance") == 1


# ------------------------------------------------------------------------------------------------- when it stops itself


def test_a_terminated_record_stops_the_agent() -> None:
    assert isinstance(next_of(a_record(InstanceState.TERMINATED), booted()), Stop)


def test_a_record_that_was_seen_and_is_gone_stops_the_agent() -> None:
    assert isinstance(next_of(ABSENT, booted().saw(a_record())), Stop)


def test_a_record_that_never_appeared_stops_the_agent_only_after_the_start_up_allowance() -> None:
    allowed = 100.0 + LIMITS.appears_within + GRACE
    assert isinstance(next_of(ABSENT, booted(), monotonic=allowed - 1), Wait)
    assert isinstance(next_of(ABSENT, booted(), monotonic=allowed), Stop)


def test_a_store_that_never_answered_stops_nothing() -> None:
    assert next_of(UNKNOWN, booted(), now=NOW + 10**9, monotonic=10.0**9) == Wait(None)


@pytest.mark.parametrize(
    "state", [InstanceState.CREATED, InstanceState.IDLE, InstanceState.CLAIMED, InstanceState.RUNNING]
)
def test_a_minute_past_its_threshold_the_agent_stops(state: InstanceState) -> None:
    record = a_record(state, attested=state is InstanceState.IDLE)
    progress = registered(record) if record.run_id else booted()
    assert next_of(record, progress, now=record.threshold + GRACE - 1) == Wait(1.0)
    assert isinstance(next_of(record, progress, now=record.threshold + GRACE), Stop)


@pytest.mark.parametrize("seen", [True, False])
def test_attested_and_not_yet_offered_an_instance_waits_as_long_as_an_idle_one(seen: bool) -> None:
    record = a_record(InstanceState.IDLE, threshold=NOW + 120, round="r2")
    progress = booted().cleaning_began(record).cleaned().reported(SignalKind.CLEAN_OK, "r2", at=200.0).saw(record)
    sight = record if seen else UNKNOWN
    allowed = 200.0 + LIMITS.idle + GRACE
    assert next_of(sight, progress, now=NOW + 100_000, monotonic=allowed - 1) == Wait(1.0)
    assert isinstance(next_of(sight, progress, now=NOW + 100_000, monotonic=allowed), Stop)


def test_an_attestation_shortens_no_life() -> None:
    record = a_record(InstanceState.IDLE, threshold=NOW + 900, round="r2")
    progress = booted().cleaning_began(record).cleaned().reported(SignalKind.CLEAN_OK, "r2", at=100.0)
    assert next_of(record, progress, now=NOW + 900, monotonic=1000.0) == Wait(GRACE)


@pytest.mark.parametrize(
    "record",
    [
        a_record(InstanceState.IDLE, round="r3"),
        a_record(InstanceState.IDLE, round="r2", attested=True),
        a_record(round="r2"),
    ],
)
def test_only_an_attestation_of_this_round_that_awaits_its_offer_lengthens_a_life(record: InstanceRecord) -> None:
    progress = booted().cleaning_began(record).cleaned().reported(SignalKind.CLEAN_OK, "r2", at=100.0)
    assert isinstance(next_of(record, progress, now=record.threshold + GRACE), Stop)


def test_the_last_known_threshold_counts_while_the_store_is_unreachable() -> None:
    progress = booted().saw(a_record())
    assert isinstance(next_of(UNKNOWN, progress), Wait)
    assert isinstance(next_of(UNKNOWN, progress, now=NOW + 600 + GRACE), Stop)


def test_a_job_without_a_store_gets_the_longest_runtime() -> None:
    record = a_record(InstanceState.RUNNING)
    progress = registered(record).saw(record).took(HeldJob("j-1", 1, "r1", 100.0))
    late = record.threshold + GRACE + 1
    assert isinstance(next_of(UNKNOWN, progress, now=late, monotonic=1800.0), Wait)
    assert isinstance(next_of(UNKNOWN, progress, now=late, monotonic=100.0 + 1800.0 + GRACE), Stop)
    assert isinstance(next_of(record, progress, now=late, monotonic=1800.0), Stop)


def test_a_machine_that_is_ending_stops_whatever_its_record_says() -> None:
    assert next_of(a_record(), booted(), ending="SIGTERM") == Stop("SIGTERM")


# -------------------------------------------------------------------------------------------------------- ends of jobs


def with_job(**changes: Any) -> AgentProgress:
    record = a_record(InstanceState.RUNNING)
    job = replace(HeldJob("j-1", 1, "r1", 100.0, LeaseHolder("i-1/a", 1)), **changes)
    return registered(record).saw(record).beat(LeaseHolder("i-1/a", 1)).took(job)


@pytest.mark.parametrize("record", [a_record(InstanceState.RUNNING), UNKNOWN])
def test_a_job_that_has_timed_out_ends_even_without_a_store(record: InstanceRecord | NoRecord) -> None:
    progress = with_job(timeout=30.0)
    assert next_of(record, progress, monotonic=129.0) == Wait(1.0)
    assert next_of(record, progress, monotonic=130.0) == EndJob(End.TIMED_OUT)


@pytest.mark.parametrize("told", [End.CANCELLED, End.LOST])
def test_a_job_ends_when_the_store_says_so(told: End) -> None:
    assert next_of(a_record(InstanceState.RUNNING), with_job().told_to_end(told)) == EndJob(told)


@pytest.mark.parametrize("told", [End.CANCELLED, End.LOST])
def test_collecting_the_artifacts_of_a_job_ends_when_the_store_says_so_and_not_with_its_time(told: End) -> None:
    progress = with_job(timeout=30.0, is_over=True)
    assert next_of(a_record(InstanceState.RUNNING), progress.told_to_end(told)) == EndJob(told)
    assert isinstance(next_of(a_record(InstanceState.RUNNING), progress, monotonic=500.0), Wait)


@pytest.mark.parametrize("now_known_as", [LeaseHolder("i-1/a", 2), LeaseHolder("i-1/b", 1)])
def test_what_an_earlier_epoch_or_key_held_is_ended_and_not_reported_as_the_agent_s_own(
    now_known_as: LeaseHolder,
) -> None:
    progress = with_job().beat(now_known_as)
    assert next_of(a_record(InstanceState.RUNNING), progress) == EndJob(End.LOST)


def test_a_job_that_has_ended_is_reported_and_not_ended_again() -> None:
    progress = with_job(timeout=1.0).job_ended(0).beat(LeaseHolder("i-1/a", 2))
    assert next_of(a_record(InstanceState.RUNNING), progress, monotonic=500.0) is Step.SETTLE_JOB


# ----------------------------------------------------------------------------------------------- for everything it sees

rounds = st.sampled_from(["r1", "r2", "r3"])
times = st.floats(min_value=NOW - 3000, max_value=NOW + 3000)
records = st.builds(
    InstanceRecord,
    state=st.sampled_from(InstanceState),
    run_id=st.sampled_from(["", "run-1", "run-2"]),
    round=rounds,
    threshold=times,
    attested=st.booleans(),
    trust_domain=st.sampled_from(["", "a", "b"]),
    has_job=st.booleans(),
)
attempts = st.builds(RoundAttempt, rounds, st.sampled_from([Phase.UNDER_WAY, Phase.DONE, Phase.FAILED]), st.just("why"))
outcomes = st.builds(RoundAttempt, rounds, st.sampled_from([Phase.DONE, Phase.FAILED]), st.just("why"))
holders = st.builds(LeaseHolder, st.just("i-1/a"), st.integers(1, 2))
anything_done = st.builds(
    AgentProgress,
    began=st.just(100.0),
    seen=st.none() | records,
    boot=st.builds(RoundAttempt, st.just(""), st.sampled_from(Phase), st.just("why")),
    registration=st.none() | outcomes,
    cleaning=st.none() | attempts,
    is_used=st.booleans(),
    kept_for=st.sampled_from(["", "a", "b"]),
    job=st.none()
    | st.builds(
        HeldJob,
        *(st.just("j-1"), st.just(1), rounds, st.just(100.0)),
        holder=holders,
        timeout=st.sampled_from([0.0, 10.0, 1000.0]),
        exit_code=st.none() | st.just(0),
    ),
    told=st.none() | st.sampled_from(End),
    holder=holders,
    signal=st.none() | st.tuples(st.sampled_from(SignalKind), rounds),
)
anything_seen = st.one_of(records, st.sampled_from(NoRecord))
failures = st.lists(st.sampled_from(["script", "register", "deregister", "clean"]), unique=True).map(tuple)


@given(anything_seen, anything_done, times)
def test_there_is_an_answer_to_everything(
    record: InstanceRecord | NoRecord, progress: AgentProgress, now: float
) -> None:
    assert isinstance(
        decide(Observation(now, 150.0, record), progress, LIMITS),
        Step | SendSignal | EndJob | CleanInstance | Stop | Wait,
    )


@given(anything_seen, anything_done, failures)
def test_it_always_comes_to_rest(
    record: InstanceRecord | NoRecord, progress: AgentProgress, failing: tuple[str, ...]
) -> None:
    Driven(progress, failing=failing).meets(record)


@given(anything_done, times)
def test_an_unknown_record_moves_nothing_but_the_script_and_the_end_of_a_job(
    progress: AgentProgress, now: float
) -> None:
    action = decide(Observation(now, 150.0, UNKNOWN), progress, LIMITS)
    assert action is Step.RUN_SCRIPT or isinstance(action, EndJob | Wait | Stop)


@given(anything_done, times)
def test_an_unknown_record_never_stops_an_agent_within_its_threshold(progress: AgentProgress, now: float) -> None:
    if progress.seen is None or now < progress.seen.threshold + GRACE:
        assert not isinstance(decide(Observation(now, 150.0, UNKNOWN), progress, LIMITS), Stop)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(anything_seen, max_size=8), failures, st.booleans())
def test_in_no_history_does_a_used_instance_register_or_attest_before_a_cleaning_that_succeeded(
    history: list[InstanceRecord | NoRecord], failing: tuple[str, ...], keeps: bool
) -> None:
    agent = Driven(failing=failing, keeps=keeps)
    for record in history:
        agent.meets(record)
    is_used = False
    for deed in agent.deeds:
        if deed in ("REGISTER", "UD_CLEAN_OK"):
            assert not is_used
        is_used = deed == "REGISTER" or (is_used and not (deed == "CleanInstance" and "clean" not in failing))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(anything_seen, max_size=8), failures)
def test_in_no_history_is_a_job_taken_unregistered_or_a_runner_deregistered_under_its_job(
    history: list[InstanceRecord | NoRecord], failing: tuple[str, ...]
) -> None:
    agent = Driven(failing=failing)
    for record in history:
        agent.meets(record)
    is_registered = has_job = False
    for deed in agent.deeds:
        match deed:
            case "REGISTER":
                is_registered = "register" not in failing
            case "DEREGISTER":
                assert not has_job
                is_registered = "deregister" in failing
            case "TAKE_JOB":
                assert is_registered
                has_job = True
            case "SETTLE_JOB":
                has_job = False
