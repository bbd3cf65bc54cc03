"""What an agent decides where jobs are GitHub's: pure, as `test_decide` has it for our own."""

from __future__ import annotations

from dataclasses import replace

from bullpen.agent.decide import (
    GRACE,
    UNKNOWN,
    Action,
    CleanInstance,
    Observation,
    SelfStopLimits,
    SendSignal,
    Step,
    Stop,
    Wait,
    decide,
)
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, SignalKind
from bullpen.model.activity import Activity

LIMITS = SelfStopLimits(appears_within=60.0, max_runtime=1800.0, idle=420.0)
CLAIMED = InstanceRecord(InstanceState.CLAIMED, "4711", "r1", 2000.0, trust_domain="t")
RUNNING = replace(CLAIMED, state=InstanceState.RUNNING)
GIVEN_BACK = InstanceRecord(InstanceState.IDLE, "", "r2", 2000.0, trust_domain="t")
JOB = Activity("acme/widgets", "4711", 1, "4711", "pool.i-1.r1", "build")
BOOTED = AgentProgress(began=0.0).booting().booted(version="2.336.0")
SEEN = BOOTED.reported(SignalKind.CLAIM_SEEN, "r1", 0.0)
REGISTERING = SEEN.registering(CLAIMED, "pool.i-1.r1")
LISTENING = REGISTERING.listening()
SERVING = LISTENING.reported(SignalKind.REG_OK, "r1", 0.0).saw(RUNNING)


def next_after(progress: AgentProgress, record: InstanceRecord = RUNNING, **seen: str) -> Action:
    return decide(Observation(1000.0, 0.0, record, **seen), progress, LIMITS)


def is_idle(action: Action) -> bool:
    return isinstance(action, Wait)


# ---------------------------------------------------------------------------------------------------------- registering


def test_a_claim_is_registered() -> None:
    assert next_after(SEEN, CLAIMED) is Step.REGISTER


def test_while_it_registers_there_is_nothing_to_do() -> None:
    assert is_idle(next_after(REGISTERING, CLAIMED))


def test_it_is_ready_once_its_runner_listens() -> None:
    assert next_after(LISTENING, CLAIMED) == SendSignal(SignalKind.REG_OK)


def test_a_runner_that_never_listened_is_a_failed_registration() -> None:
    assert next_after(REGISTERING.listening("no"), CLAIMED) == SendSignal(SignalKind.REG_FAILED, "no")


def test_a_runner_that_cannot_go_on_ends_the_agent() -> None:
    assert next_after(SERVING.listening("GitHub refuses runner version 2.1.0")) == Stop(
        "GitHub refuses runner version 2.1.0"
    )


def test_a_registration_without_a_token_has_failed() -> None:
    assert next_after(SEEN.registered(CLAIMED, "no token"), CLAIMED) == SendSignal(SignalKind.REG_FAILED, "no token")


def test_the_runner_s_version_is_reported_with_the_boot_and_with_the_attestation() -> None:
    created = replace(CLAIMED, state=InstanceState.CREATED)
    assert next_after(BOOTED, created) == SendSignal(SignalKind.OK, "runner=2.336.0")
    clean = SEEN.reported(SignalKind.REMOVE_REG_OK, "r2", 0.0).cleaning_began(GIVEN_BACK).cleaned()
    assert next_after(clean, GIVEN_BACK) == SendSignal(SignalKind.CLEAN_OK, "runner=2.336.0")


def test_where_jobs_are_bullpen_s_own_no_version_is_reported() -> None:
    assert next_after(AgentProgress(began=0.0).booted(), replace(CLAIMED, state=InstanceState.CREATED)) == SendSignal(
        SignalKind.OK
    )


# ----------------------------------------------------------------------------------------------------------- given back


def test_given_back_it_hangs_up_then_deregisters_then_cleans() -> None:
    progress = SERVING
    assert next_after(progress, GIVEN_BACK) is Step.HANG_UP
    progress = progress.hanging_up()
    assert is_idle(next_after(progress, GIVEN_BACK))
    progress = progress.hung_up()
    assert next_after(progress, GIVEN_BACK) is Step.DEREGISTER
    progress = progress.deregistered()
    assert next_after(progress, GIVEN_BACK) == SendSignal(SignalKind.REMOVE_REG_OK)
    assert next_after(progress.reported(SignalKind.REMOVE_REG_OK, "r2", 0.0), GIVEN_BACK) == CleanInstance()


def test_a_registration_that_is_left_behind_is_reported_in_every_later_round_and_not_followed_by_a_cleaning() -> None:
    left = SERVING.hanging_up().hung_up("no token")
    assert next_after(left, GIVEN_BACK) == SendSignal(SignalKind.REMOVE_REG_FAILED, "no token")
    later = replace(GIVEN_BACK, round="r3")
    told = left.reported(SignalKind.REMOVE_REG_FAILED, "r2", 0.0)
    assert is_idle(next_after(told, GIVEN_BACK))
    assert next_after(told, later) == SendSignal(SignalKind.REMOVE_REG_FAILED, "no token")


def test_a_registration_that_was_left_behind_before_the_release_is_reported_at_the_release() -> None:
    left = SERVING.listening("no token").hung_up("no token")
    assert next_after(left) == Stop("no token")
    assert next_after(left, GIVEN_BACK) == SendSignal(SignalKind.REMOVE_REG_FAILED, "no token")


def test_given_back_while_it_registers_it_hangs_up_and_deregisters_as_well() -> None:
    assert next_after(REGISTERING, GIVEN_BACK) is Step.HANG_UP
    assert next_after(REGISTERING.hanging_up().hung_up(), GIVEN_BACK) is Step.DEREGISTER


def test_given_back_after_its_runner_broke_it_deregisters_as_well() -> None:
    assert next_after(REGISTERING.listening("no"), GIVEN_BACK) is Step.HANG_UP


def test_a_claim_of_another_run_waits_until_the_old_registration_is_gone() -> None:
    other = replace(CLAIMED, run_id="4712", round="r3")
    seen = SERVING.reported(SignalKind.CLAIM_SEEN, "r3", 0.0)
    assert next_after(seen, other) is Step.HANG_UP
    assert next_after(seen.hanging_up().hung_up(), other) is Step.DEREGISTER


def test_a_job_that_runs_is_not_stopped_by_the_release_and_that_is_reported_once() -> None:
    busy = SERVING.bound(JOB, 0.0)
    said = next_after(busy, GIVEN_BACK)
    assert said == SendSignal(
        SignalKind.REMOVE_REG_FAILED, "busy: job build of acme/widgets, run 4711, has not ended yet"
    )
    assert is_idle(next_after(busy.reported(SignalKind.REMOVE_REG_FAILED, "r2", 0.0), GIVEN_BACK))


def test_a_job_whose_last_step_is_over_is_awaited_without_a_report() -> None:
    assert is_idle(next_after(SERVING.bound(JOB, 0.0).ending(), GIVEN_BACK))
    assert not is_idle(next_after(SERVING.bound(JOB, 0.0).ending().bound(JOB, 1.0), GIVEN_BACK))


def test_once_that_job_has_ended_it_goes_on_as_usual() -> None:
    free = SERVING.reported(SignalKind.REMOVE_REG_FAILED, "r2", 0.0)
    assert next_after(free, GIVEN_BACK) is Step.HANG_UP
    assert next_after(free.hung_up().deregistered(), GIVEN_BACK) == SendSignal(SignalKind.REMOVE_REG_OK)


def test_under_a_job_too_the_threshold_ends_the_agent() -> None:
    overdue = replace(RUNNING, threshold=1000.0 - GRACE)
    assert isinstance(next_after(SERVING.bound(JOB, 0.0), overdue), Stop)


def test_a_runner_that_died_under_its_job_is_not_waited_for() -> None:
    dead = SERVING.bound(JOB, 0.0).listening("ended while its job ran")
    assert next_after(dead, GIVEN_BACK) == Stop("ended while its job ran")
    assert next_after(dead) == Stop("ended while its job ran")


def test_a_job_that_runs_while_the_store_is_away_gets_what_it_may_need() -> None:
    overdue = SERVING.saw(replace(RUNNING, threshold=0.0))
    sight = Observation(1000.0, 100.0, UNKNOWN)
    assert isinstance(decide(sight, overdue, LIMITS), Stop)
    assert decide(sight, overdue.bound(JOB, 50.0), LIMITS) == Wait(50.0 + LIMITS.max_runtime + GRACE - 100.0)


def test_a_runner_that_seems_forgotten_is_deregistered_and_cleaned_before_the_next_one() -> None:
    progress = SERVING.hung_up()
    assert next_after(progress) is Step.DEREGISTER
    progress = progress.deregistered()
    assert next_after(progress) == CleanInstance(keep=False)
    progress = progress.cleaning_began(RUNNING).cleaned()
    assert next_after(progress) is Step.REGISTER


# ------------------------------------------------------------------------------------------------------ one job at most


def test_after_its_one_job_it_cleans_and_registers_again_in_the_same_round() -> None:
    progress = SERVING.forgotten()
    assert next_after(progress) == CleanInstance(keep=False)
    progress = progress.cleaning_began(RUNNING)
    assert is_idle(next_after(progress))
    progress = progress.cleaned()
    assert next_after(progress) is Step.REGISTER
    progress = progress.registering(RUNNING, "pool.i-1.r1.1").listening()
    assert is_idle(next_after(progress))  # it was reported already


def test_what_it_may_keep_is_kept_between_jobs_of_one_trust_domain() -> None:
    keeping = SEEN.registering(CLAIMED, "pool.i-1.r1", keeps=True).listening().reported(SignalKind.REG_OK, "r1", 0.0)
    assert next_after(keeping.forgotten()) == CleanInstance(keep=True)


def test_a_machine_that_cannot_be_cleaned_between_jobs_ends() -> None:
    assert next_after(SERVING.forgotten().cleaning_began(RUNNING).cleaned("dirty")) == Stop("dirty")


# -------------------------------------------------------------------------------------------------------------- notices


def test_with_notice_a_free_runner_hangs_up_and_does_not_come_back() -> None:
    assert next_after(SERVING, notice="spot") is Step.HANG_UP
    assert next_after(SERVING.hung_up(), notice="spot") == Step.DEREGISTER
    assert is_idle(next_after(SERVING.hung_up().deregistered(), notice="spot"))


def test_with_notice_a_job_that_runs_may_end() -> None:
    assert is_idle(next_after(SERVING.bound(JOB, 0.0), notice="spot"))
