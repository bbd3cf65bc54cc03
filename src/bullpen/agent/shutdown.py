"""How an agent leaves, for whatever reason: it says so, ends everything below it, and gives back what it holds."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, UNKNOWN, NoRecord, SendSignal
from bullpen.agent.log_tail import Journal
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, SignalKind
from bullpen.agent.store.base import TEXT_LIMIT, AgentStore, StoreUnreachable
from bullpen.host.processes import TreeSurvived, end_tree, identify, mark_of

PATIENCE = 5.0  # seconds for everything below us to end


def leave(
    config: Config,
    store: AgentStore,
    record: InstanceRecord | NoRecord,
    progress: AgentProgress,
    reason: str,
    log: Journal,
    hang_up: Callable[[], None] = lambda: None,
) -> None:
    """Leave nothing running and no registration behind, as far as the store can be reached. `hang_up` says goodbye to
    a CI that has jobs of its own: what it runs here ends with a reason, and not when the CI gives us up."""
    log(f"stops: {reason}")
    _say(store, record, progress, log.closing(f"the agent has stopped: {reason}", TEXT_LIMIT), log)
    is_clear = True
    if progress.activity is not None:
        # To GitHub the job looks as if a user had cancelled it: the control plane must know that the machine left.
        try:
            store.beat(progress.job, datetime.now(UTC), progress.activity.text())
        except Exception as exc:
            log(f"cannot report that it leaves a job: {exc}")
    try:
        hang_up()
    except Exception as exc:
        log(f"cannot stop GitHub's runner: {exc!r}")
    try:
        end_tree(identify(os.getpid()), mark_of(config.instance_id), patience=PATIENCE)
    except TreeSurvived as exc:
        is_clear = False
        log(str(exc))
    try:
        if (job := progress.job) is not None and is_clear and store.jobs is not None:
            # What survived may still be at work: then the job waits until our lease runs out.
            store.jobs.give_back_job(job, f"its runner stopped: {reason}")
        store.deregister(progress.runner)
    except StoreUnreachable as exc:
        log(f"leaves its registration behind: {exc}")
    if is_clear and progress.activity is None and _is_over(record, progress):
        try:
            store.stop()
        except Exception as exc:
            log(f"cannot report that its worker has stopped: {exc}")
    store.close()


def last_report(record: InstanceRecord, progress: AgentProgress, text: str) -> SendSignal | None:
    """The signal that ends a wait for this instance; None if no process waits, or a failure was reported already."""
    if record.state is InstanceState.TERMINATED or _has_failed(record, progress):
        return None
    if record.state is InstanceState.IDLE:
        return SendSignal(SignalKind.CLEAN_FAILED, text)
    if record.state is InstanceState.CREATED and not progress.has_reported(SignalKind.OK, record.round):
        return SendSignal(SignalKind.FAILED, text)
    return SendSignal(SignalKind.REG_FAILED, text)


def _is_over(record: InstanceRecord | NoRecord, progress: AgentProgress) -> bool:
    """Whether our instance has ended. As long as it lives, those who wait for us, or replace us, judge by our beats."""
    known = progress.seen if record is UNKNOWN else record
    return known is ABSENT or (isinstance(known, InstanceRecord) and known.state is InstanceState.TERMINATED)


def _has_failed(record: InstanceRecord, progress: AgentProgress) -> bool:
    """What went wrong first is what explains it."""
    return progress.signal is not None and progress.signal[1] == record.round and progress.signal[0].is_failure


def _say(
    store: AgentStore, record: InstanceRecord | NoRecord, progress: AgentProgress, text: str, log: Journal
) -> None:
    known = progress.seen if record is UNKNOWN else record
    report = last_report(known, progress, text) if isinstance(known, InstanceRecord) else None
    if report is None or not isinstance(known, InstanceRecord):
        return
    try:
        store.report(report.kind, known, report.text)
    except Exception as exc:
        # Whatever went wrong may go wrong here as well; the rest of leaving matters more.
        log(f"cannot report that it stops: {exc}")
