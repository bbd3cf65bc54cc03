"""What an agent decides for a scale set: one registration for each job, and a withdrawal that ends no job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.agent.decide import (
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
from bullpen.model.activity import Activity, Listening, names_job, parse, parse_listening, unnamed

LIMITS = SelfStopLimits(appears_within=60.0, max_runtime=1800.0, idle=420.0)
CLAIMED = InstanceRecord(InstanceState.CLAIMED, "set:m", "r1", 2000.0, trust_domain="t")
RUNNING = replace(CLAIMED, state=InstanceState.RUNNING)
RECALLED = replace(RUNNING, round="r2")
GIVEN_BACK = InstanceRecord(InstanceState.IDLE, "", "r2", 2000.0, trust_domain="t")
JOB = Activity("acme/widgets", "99", 1, "set:m", "pool.i-1.r1.1", "build")
SEEN = AgentProgress(began=0.0).booted(version="2.336.0").reported(SignalKind.CLAIM_SEEN, "r1", 0.0)
REGISTERING = SEEN.registering(CLAIMED, "pool.i-1.r1.1")
WAITS = Listening("pool.i-1.r1.1", 7, "d1")
LISTENING = REGISTERING.listening().following(waits=WAITS, begun=None, at=0.0)
SERVING = LISTENING.reported(SignalKind.REG_OK, "r1", 0.0).saw(RUNNING)
BEGUN = SERVING.following(waits=None, begun=unnamed("set:m", "pool.i-1.r1.1"), at=0.0)


def next_after(progress: AgentProgress, record: InstanceRecord = RUNNING, at: float = 0.0, **seen: str) -> Action:
    return decide(Observation(1000.0, at, record, **seen), progress, LIMITS)


def is_idle(action: Action) -> bool:
    return isinstance(action, Wait)


# ------------------------------------------------------------------------------------------------------------ heartbeat


def test_a_beat_names_the_registration_while_its_runner_waits_for_a_job() -> None:
    assert parse_listening(LISTENING.beats) == WAITS


@pytest.mark.parametrize(
    "progress",
    [SEEN, REGISTERING, SERVING.withdrawn(), SERVING.forgotten(), SERVING.hung_up(), BEGUN.forgotten()],
    ids=["before", "registering", "withdrawn", "forgotten", "hung up", "job ended"],
)
def test_no_other_beat_names_a_registration(progress: AgentProgress) -> None:
    assert progress.beats == ""


@pytest.mark.parametrize("progress", [BEGUN, BEGUN.withdrawn()])
def test_a_beat_says_that_its_runner_has_a_job_before_it_is_known_which_one(progress: AgentProgress) -> None:
    assert parse(progress.beats) == unnamed("set:m", "pool.i-1.r1.1")
    assert names_job(progress.beats)


def test_a_job_that_is_prepared_has_its_time_while_the_store_cannot_be_reached() -> None:
    begun = SERVING.following(waits=None, begun=unnamed("set:m", "pool.i-1.r1.1"), at=100.0).saw(GIVEN_BACK)
    late = Observation(GIVEN_BACK.threshold + 600.0, 100.0, UNKNOWN)
    assert isinstance(decide(late, SERVING.saw(GIVEN_BACK), LIMITS), Stop)
    assert is_idle(decide(late, begun, LIMITS))


def test_a_beat_names_the_job_that_runs() -> None:
    assert BEGUN.bound(JOB, 0.0).beats == JOB.text()


# ---------------------------------------------------------------------------------------------------------- one by one


def test_it_is_ready_only_once_its_runner_listens() -> None:
    assert is_idle(next_after(REGISTERING, CLAIMED))
    assert next_after(LISTENING, CLAIMED) == SendSignal(SignalKind.REG_OK)


def test_after_its_job_it_cleans_and_registers_again_in_the_same_round() -> None:
    progress = SERVING.forgotten()
    assert next_after(progress) == CleanInstance(keep=False)
    progress = progress.cleaning_began(RUNNING).cleaned()
    assert next_after(progress) is Step.REGISTER
    again = progress.registering(RUNNING, "pool.i-1.r1.2").listening().following(waits=WAITS, begun=None, at=0.0)
    assert is_idle(next_after(again))  # it was reported already


def test_it_does_not_register_again_before_its_time_in_the_same_round() -> None:
    progress = SERVING.asking_at("r1", 10.0).forgotten().cleaning_began(RUNNING).cleaned()
    waits = next_after(progress, at=4.0)
    assert waits == Wait(6.0)
    assert next_after(progress, at=10.0) is Step.REGISTER
    other = replace(CLAIMED, round="r3")
    assert next_after(progress.reported(SignalKind.CLAIM_SEEN, "r3", 4.0), other, at=4.0) is Step.REGISTER


def test_a_member_that_cannot_register_again_stops_also_after_a_recall() -> None:
    failed = SERVING.forgotten().cleaning_began(RUNNING).cleaned().registered(RUNNING, "no")
    assert next_after(failed) == Stop("no")
    recalled = SERVING.forgotten().cleaning_began(RECALLED).cleaned().registered(RECALLED, "no")
    assert next_after(recalled, RECALLED) == Stop("no")


def test_a_claim_that_cannot_register_reports_it() -> None:
    assert next_after(SEEN.registered(CLAIMED, "no"), CLAIMED) == SendSignal(SignalKind.REG_FAILED, "no")


# ----------------------------------------------------------------------------------------------------------- given back


@pytest.mark.parametrize("record", [GIVEN_BACK, RECALLED])
def test_its_registration_is_removed_before_its_runner_is_stopped(record: InstanceRecord) -> None:
    assert next_after(SERVING, record) is Step.WITHDRAW
    assert is_idle(next_after(SERVING.withdrawn(), record))


@pytest.mark.parametrize("record", [GIVEN_BACK, RECALLED])
def test_nothing_is_removed_or_stopped_while_a_job_begins(record: InstanceRecord) -> None:
    assert is_idle(next_after(BEGUN, record))
    assert is_idle(next_after(BEGUN.withdrawn(), record))


def test_given_back_it_cleans_and_attests_once_its_runner_has_ended() -> None:
    progress = SERVING.withdrawn().forgotten()
    assert next_after(progress, GIVEN_BACK) == SendSignal(SignalKind.REMOVE_REG_OK)
    progress = progress.reported(SignalKind.REMOVE_REG_OK, "r2", 0.0)
    assert next_after(progress, GIVEN_BACK) == CleanInstance()
    progress = progress.cleaning_began(GIVEN_BACK).cleaned()
    assert next_after(progress, GIVEN_BACK) == SendSignal(SignalKind.CLEAN_OK, "runner=2.336.0")


def test_recalled_it_cleans_and_registers_in_the_new_round() -> None:
    progress = SERVING.withdrawn().forgotten()
    assert next_after(progress, RECALLED) == CleanInstance(keep=False)
    progress = progress.cleaning_began(RECALLED).cleaned()
    assert next_after(progress, RECALLED) is Step.REGISTER
    progress = progress.registering(RECALLED, "pool.i-1.r2.2").listening()
    assert next_after(progress, RECALLED) == SendSignal(SignalKind.REG_OK)


def test_a_job_under_way_goes_on_when_it_is_recalled_and_that_is_no_failure() -> None:
    assert is_idle(next_after(BEGUN.bound(JOB, 0.0), RECALLED))


def test_a_job_under_way_is_reported_when_it_is_given_back() -> None:
    said = next_after(BEGUN.bound(JOB, 0.0), GIVEN_BACK)
    assert said == SendSignal(
        SignalKind.REMOVE_REG_FAILED, "busy: job build of acme/widgets, run 99, has not ended yet"
    )


def test_a_registration_that_github_keeps_for_a_job_is_reported_and_removed_later() -> None:
    held = SERVING.held().asking_at("r2", 5.0)
    busy = SendSignal(
        SignalKind.REMOVE_REG_FAILED, "busy: GitHub has given pool.i-1.r1.1 a job, which has not begun here yet"
    )
    assert next_after(held, GIVEN_BACK) == busy
    told = held.reported(SignalKind.REMOVE_REG_FAILED, "r2", 0.0)
    assert next_after(told, GIVEN_BACK, at=1.0) == Wait(4.0)
    assert next_after(told, GIVEN_BACK, at=5.0) is Step.WITHDRAW
    assert next_after(held, RECALLED, at=1.0) == Wait(4.0)
    assert next_after(held, RECALLED, at=5.0) is Step.WITHDRAW


def test_a_dead_runner_is_deregistered_without_waiting_for_it() -> None:
    assert next_after(REGISTERING.listening("no"), GIVEN_BACK) is Step.HANG_UP


def test_with_notice_a_runner_that_waits_is_withdrawn_and_does_not_come_back() -> None:
    assert next_after(SERVING, notice="spot") is Step.WITHDRAW
    assert is_idle(next_after(BEGUN, notice="spot"))
    assert is_idle(next_after(SERVING.withdrawn().forgotten(), notice="spot"))
