"""Notices that EC2 will take the machine: how they are heard, and what an agent that has one does and does not do."""

from __future__ import annotations

import select
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.aws.imds import NoMetadata
from bullpen.agent.aws.interruption import REBALANCE, SPOT, Notice, Notices
from bullpen.agent.config import Config
from bullpen.agent.decide import Action, Observation, SelfStopLimits, SendSignal, Step, Wait, decide
from bullpen.agent.loop import AgentLoop
from bullpen.agent.progress import (
    AgentProgress,
    InstanceRecord,
    InstanceState,
    LeaseHolder,
    Phase,
    RoundAttempt,
    SignalKind,
)
from bullpen.agent.store.base import Grant
from bullpen.agent.wakeup import ThreadWakeup

AT = "2026-11-15T12:02:00Z"
WHEN = datetime(2026, 11, 15, 12, 2, tzinfo=UTC)
NOTICE = Notice("spot interruption", WHEN)
RECORD = InstanceRecord(InstanceState.CLAIMED, "run-1", "a1", threshold=1e12)
BOOTED = replace(AgentProgress(began=0.0), boot=RoundAttempt("", Phase.DONE))


class Service:
    """In place of the metadata service: what it has to say, path by path."""

    def __init__(self, **said: str) -> None:
        self.said: dict[str, list[str]] = {}
        self.failure: NoMetadata | None = None

    def texts(self, path: str, *names: str) -> list[str] | None:
        if self.failure is not None:
            raise self.failure
        return self.said.get(path)


@pytest.fixture
def bell() -> Iterator[ThreadWakeup]:
    bell = ThreadWakeup()
    yield bell
    bell.close()


def rings(bell: ThreadWakeup) -> bool:
    return bool(select.select([bell], [], [], 0)[0]) and bool(bell.drain())


def test_no_notice_is_no_news(bell: ThreadWakeup) -> None:
    notices = Notices(Service(), bell)  # type: ignore[arg-type]
    notices.ask()
    assert notices.notice is None
    assert not rings(bell)


@pytest.mark.parametrize(
    ("path", "said", "words"),
    [(SPOT, ["terminate", AT], f"terminate this machine at {AT}"), (REBALANCE, [AT], "rebalance recommendation")],
)
def test_a_notice_wakes_the_loop_once_and_has_its_time(
    bell: ThreadWakeup, path: str, said: list[str], words: str
) -> None:
    service = Service()
    service.said[path] = said
    notices = Notices(service, bell)  # type: ignore[arg-type]
    notices.ask()
    assert notices.notice is not None
    assert notices.notice.at == WHEN
    assert words in notices.notice.text
    assert rings(bell)
    notices.ask()
    assert not rings(bell)


def test_an_interruption_counts_more_than_advice(bell: ThreadWakeup) -> None:
    service = Service()
    service.said[REBALANCE] = ["2026-11-15T11:00:00Z"]
    notices = Notices(service, bell)  # type: ignore[arg-type]
    notices.ask()
    service.said[SPOT] = ["stop", AT]
    notices.ask()
    assert notices.notice is not None
    assert notices.notice.at == WHEN
    assert rings(bell)


def test_a_service_that_does_not_answer_takes_no_notice_back(bell: ThreadWakeup) -> None:
    service = Service()
    service.said[SPOT] = ["stop", AT]
    notices = Notices(service, bell)  # type: ignore[arg-type]
    notices.ask()
    service.failure = NoMetadata("away")
    notices.ask()
    assert notices.notice is not None


# ------------------------------------------------------------------------------------------------------------- deciding


def decided(record: InstanceRecord, progress: AgentProgress, notice: str = "EC2 takes it") -> Action:
    return decide(Observation(0.0, 0.0, record, notice=notice), progress, SelfStopLimits(60.0, 60.0, 60.0))


@pytest.mark.parametrize("state", [InstanceState.CLAIMED, InstanceState.CREATED])
@pytest.mark.parametrize(
    "progress", [BOOTED, BOOTED.registered(RECORD), replace(BOOTED, boot=RoundAttempt("", Phase.UNDER_WAY))]
)
def test_a_provision_that_waits_for_a_machine_with_a_notice_is_refused_at_once_and_once(
    state: InstanceState, progress: AgentProgress
) -> None:
    record = replace(RECORD, state=state)
    assert decided(record, progress) == SendSignal(SignalKind.REG_FAILED, "EC2 takes it")
    assert isinstance(decided(record, progress.reported(SignalKind.REG_FAILED, "a1", 0.0)), Wait)


def test_a_notice_after_the_acknowledgement_refuses_too() -> None:
    progress = BOOTED.reported(SignalKind.CLAIM_SEEN, "a1", 0.0)
    assert decided(RECORD, progress) == SendSignal(SignalKind.REG_FAILED, "EC2 takes it")


def test_a_machine_with_a_notice_takes_no_job() -> None:
    running = replace(RECORD, state=InstanceState.RUNNING, has_job=True)
    progress = BOOTED.registered(running).reported(SignalKind.REG_OK, "a1", 0.0)
    assert decided(running, progress, notice="") == Step.TAKE_JOB
    assert isinstance(decided(running, progress), Wait)


def test_a_machine_with_a_notice_that_is_released_still_leaves_properly() -> None:
    idle = replace(RECORD, state=InstanceState.IDLE, run_id="", round="a2")
    assert decided(idle, BOOTED.registered(RECORD)) == Step.DEREGISTER


def test_a_runner_that_its_run_knows_is_not_refused() -> None:
    progress = BOOTED.registered(RECORD).reported(SignalKind.REG_OK, "a1", 0.0)
    assert isinstance(decided(RECORD, progress), Wait)


# -------------------------------------------------------------------------------------------------------------- beating


class Beats:
    """In place of a store: when each beat says that the machine leaves."""

    jobs = None

    def __init__(self) -> None:
        self.leaving: list[Any] = []

    def beat(self, job: object, leaving: datetime | None, activity: str) -> Grant:
        self.leaving.append(leaving)
        return Grant(LeaseHolder("worker", 1), next_in=60.0)

    def has_changed(self) -> bool:
        return False


def test_a_notice_is_in_the_next_beat_which_comes_at_once(tmp_path: Path, bell: ThreadWakeup) -> None:
    config = Config("i-1", tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, ())
    store, notices = Beats(), Notices(Service(), bell)  # type: ignore[arg-type]
    agent = AgentLoop(config, store, bell, print, notices)  # type: ignore[arg-type]
    agent._progress = AgentProgress(seen=RECORD, holder=LeaseHolder("worker", 1), began=0.0)
    agent._record, agent._must_read = RECORD, False
    agent._keep_in_touch()
    agent._keep_in_touch()
    notices.notice = NOTICE
    assert agent._sight().notice == NOTICE.text
    agent._keep_in_touch()
    agent._sight()
    agent._keep_in_touch()
    assert store.leaving == [None, WHEN]
