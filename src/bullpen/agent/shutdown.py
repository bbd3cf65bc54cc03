"""How an agent leaves, for whatever reason: it says so with the last lines of its log, ends everything below it, and
gives back what it holds."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT, UNKNOWN, NoRecord
from bullpen.agent.progress import AgentProgress, InstanceRecord, InstanceState, SignalKind
from bullpen.agent.store.base import AgentStore, StoreUnreachable
from bullpen.host.processes import TreeSurvived, end_tree, identify, mark_of
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal_text import SignalText

PATIENCE = 5.0  # seconds for everything below the agent to end
LINES = 30
LONGEST = 300  # characters of a line that are kept; all of it is written


class Journal:
    """The agent's log: hands every line on, and remembers the last ones."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._lines: deque[str] = deque(maxlen=LINES)

    def __call__(self, line: str) -> None:
        self._lines.append(line[:LONGEST])
        self._write(line)

    def closing(self, reason: str, limit: int) -> str:
        """The reason and, as far as there is room for them, the last lines before it."""
        head = f"{reason}; its last lines:\n"
        lines = "\n".join(self._lines)
        room = limit - len(head)
        return f"{head}{lines[-room:]}" if lines and room > 0 else reason[:limit]


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
    a CI that has jobs of its own: what it runs here ends with a reason, and not when the CI gives up the runner."""
    log(f"stops: {reason}")
    known, is_clear = progress.seen if record is UNKNOWN else record, True
    if isinstance(known, InstanceRecord) and (kind := last_report(known, progress)) is not None:
        try:
            said = SignalText.parse(reason)
            stopped = replace(said, words=f"the agent has stopped: {said.words}")
            store.report(kind, known, log.closing(str(stopped), REASON_LENGTH))
        except Exception as exc:
            # Whatever went wrong may go wrong here as well; the rest of leaving matters more.
            log(f"cannot report that it stops: {exc}")
    if (job_of_ci := progress.activity or progress.begun) is not None:
        # To GitHub the job looks as if a user had cancelled it: the control plane must know that the machine left.
        try:
            store.beat(progress.job, datetime.now(UTC), job_of_ci.text())
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
            # What survived may still be at work: then the job waits until the lease runs out.
            store.jobs.give_back_job(job, f"its runner stopped: {reason}")
        store.deregister(progress.runner)
    except StoreUnreachable as exc:
        log(f"leaves its registration behind: {exc}")
    # As long as the instance lives, what waits for this worker, or replaces it, judges by its beats.
    is_over = known is ABSENT or (isinstance(known, InstanceRecord) and known.state is InstanceState.TERMINATED)
    if is_clear and is_over and job_of_ci is None:
        try:
            store.stop()
        except Exception as exc:
            log(f"cannot report that its worker has stopped: {exc}")
    store.close()


def last_report(record: InstanceRecord, progress: AgentProgress) -> SignalKind | None:
    """The signal that ends a wait for this instance; None if no process waits, or a failure was reported already: what
    went wrong first is what explains it."""
    signal, round = progress.signal or (None, "")
    if record.state is InstanceState.TERMINATED or (signal and round == record.round and signal.is_failure):
        return None
    if record.state is InstanceState.IDLE:
        return SignalKind.CLEAN_FAILED
    if record.state is InstanceState.CREATED and not progress.has_reported(SignalKind.OK, record.round):
        return SignalKind.FAILED
    return SignalKind.REG_FAILED
