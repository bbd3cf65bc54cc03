"""How reports of agents are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, later
from bullpen.model.signal import Heartbeat, Kind, Pulse, Signal

kinds = st.sampled_from(Kind)


def of(kind: Kind, round: str = "round-1") -> Signal:
    return Signal("i-1", kind, "run-1", round, seq=1)


def test_a_later_signal_of_a_round_implies_the_earlier_ones() -> None:
    assert of(Kind.REG_OK).proves(Kind.OK, "round-1")
    assert of(Kind.REG_OK).proves(Kind.CLAIM_SEEN, "round-1")
    assert of(Kind.CLEAN_OK).proves(Kind.REMOVE_REG_OK, "round-1")


def test_an_earlier_signal_implies_no_later_one() -> None:
    assert not of(Kind.CLAIM_SEEN).proves(Kind.REG_OK, "round-1")
    assert not of(Kind.REMOVE_REG_OK).proves(Kind.CLEAN_OK, "round-1")


@given(said=kinds, asked=kinds)
def test_a_signal_of_another_round_proves_nothing_and_fails_nothing(said: Kind, asked: Kind) -> None:
    assert not of(said, "round-0").proves(asked, "round-1")
    assert not of(said, "round-0").fails("round-1")


@given(said=kinds, asked=kinds)
def test_a_failure_proves_nothing(said: Kind, asked: Kind) -> None:
    assert of(said).fails("round-1") is said.is_failure
    assert not (of(said).fails("round-1") and of(said).proves(asked, "round-1"))


@given(said=kinds, asked=kinds)
def test_a_signal_proves_its_kind_and_those_before_it(said: Kind, asked: Kind) -> None:
    ladder = list(Kind)
    expected = not said.value.endswith("FAILED") and ladder.index(said) >= ladder.index(asked)
    assert of(said).proves(asked, "round-1") is expected


@pytest.mark.parametrize(("age", "recent"), [(0, True), (15, True), (15.001, False), (-15, True), (-15.001, False)])
def test_a_heartbeat_is_recent_within_the_time_before_and_after_now(age: float, recent: bool) -> None:
    pulse = Pulse(heartbeat=Heartbeat("i-1", later(-age), seq=1))
    assert pulse.is_recent(NOW, 15) is recent


def test_without_a_heartbeat_nothing_is_recent() -> None:
    assert not Pulse(signal=of(Kind.OK)).is_recent(NOW, 15)


@pytest.mark.parametrize(
    ("kind", "text", "is_busy"),
    [
        (Kind.REMOVE_REG_FAILED, "busy: job build of acme/widgets, run 4711, has not ended yet", True),
        (Kind.REMOVE_REG_FAILED, "the CI refused", False),
        (Kind.REMOVE_REG_FAILED, "the CI said busy: a job runs", False),
        (Kind.CLEAN_FAILED, "busy: a mount", False),
    ],
)
def test_only_a_failure_to_deregister_with_the_fact_busy_means_that_a_job_runs(
    kind: Kind, text: str, is_busy: bool
) -> None:
    assert Signal("i-1", kind, "run", "round", 1, text).is_busy is is_busy
