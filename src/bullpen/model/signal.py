"""What an agent reports: signals and heartbeats, and how the control plane reads them.

Neither is part of the instance record, because a heartbeat must not make a claim fail. A signal names its round, so
that one of an earlier owner proves nothing. It carries a sequence number, so that a late one never overwrites a newer
one. The number may run ahead by a bounded step only: after a huge one, the agent's next signals would all be too small.
The signals of a round have an order: a later one implies those before it.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model import worker as workers
from bullpen.model.signal_text import Fact, SignalText
from bullpen.model.transition import Change
from bullpen.model.worker import Worker


class Kind(StrEnum):
    """The signals of an agent, in the order of a round."""

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
        return self.value.endswith("_FAILED")

    @property
    def rank(self) -> int:
        return _LADDER[self]


_LADDER = {kind: rank for rank, kind in enumerate(Kind)}

SEQ_STEP = 10_000
"""How far a sequence number may run ahead of the stored one, or of 0. An agent counts its signals, a few in each round.
An agent of an earlier version also counts every second in which `serve` did not answer, for hours at most."""

SEQ_MOST = 10**9
"""No agent counts so far: a larger number comes from another process."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One report. `text` explains a failure, and may begin with a fact: see `signal_text`."""

    instance_id: str
    kind: Kind
    run_id: str
    round: str
    seq: int
    text: str = ""

    def follows(self, stored: int) -> bool:
        """True if it may take the place of the signal with the number `stored`, 0 if there is none."""
        return stored < self.seq <= stored + SEQ_STEP

    def proves(self, kind: Kind, round: str) -> bool:
        """True if this signal shows that `kind` was reached in `round`."""
        return self.round == round and not self.kind.is_failure and self.kind.rank >= kind.rank

    @property
    def is_busy(self) -> bool:
        """True if the agent could not deregister only because its runner executes a job."""
        return self.kind is Kind.REMOVE_REG_FAILED and SignalText.parse(self.text).fact is Fact.BUSY

    def fails(self, round: str) -> bool:
        """True if this signal reports a failure in `round`."""
        return self.round == round and self.kind.is_failure

    @property
    def failure(self) -> str:
        """What a failure reports, for people: without a fact, which only programs read."""
        return f"{self.kind}: {self.words}" if self.words else self.kind.value

    @property
    def words(self) -> str:
        """The text for people."""
        return SignalText.parse(self.text).words


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat: its time by the sender's clock, and a sequence number that each one raises."""

    instance_id: str
    at: datetime
    seq: int
    activity: str = ""  # the job of GitHub that runs, as `model.activity` writes it
    leaving: datetime | None = None  # when its machine is to be interrupted, as a spot machine is


DIRECT_LEASE = 60.0
"""Seconds of lease that a bare heartbeat grants."""


def direct_key(instance_id: str) -> str:
    """The key of the worker of an instance that sends bare heartbeats."""
    return f"{instance_id}/direct"


def beat_directly(heartbeat: Heartbeat, stored: Worker | None, forgotten_epoch: int = 0) -> Change[Worker] | None:
    """What a bare heartbeat does to the worker of `direct_key`: its `seq` becomes the token. None: it is not stored."""
    if stored is not None and stored.token >= heartbeat.seq:
        return None
    beat = workers.Beat(
        at=heartbeat.at,
        by=heartbeat.instance_id,
        token=stored.token if stored else 0,
        lease=DIRECT_LEASE,
        instance_id=heartbeat.instance_id,
        activity=heartbeat.activity,
        leaving=heartbeat.leaving,
    )
    change = workers.receive(stored, direct_key(heartbeat.instance_id), beat, forgotten_epoch)
    if not isinstance(change, Change):
        return None
    return replace(change, after=replace(change.after, token=heartbeat.seq))


@dataclass(frozen=True, slots=True)
class Pulse:
    """Both reports of one instance, as one read finds them; None where nothing was ever reported."""

    signal: Signal | None = None
    heartbeat: Heartbeat | None = None

    @property
    def departure(self) -> str:
        """Why the instance should not be offered: its machine is about to be interrupted. Empty if it stays."""
        at = self.heartbeat.leaving if self.heartbeat is not None else None
        return f"its machine is to be taken away at {at:%H:%M:%S}Z" if at is not None else ""

    def is_recent(self, now: datetime, within: float) -> bool:
        """True if the heartbeat is recent. One from the future shows a skewed clock, and proves nothing."""
        if self.heartbeat is None:
            return False
        age = now - self.heartbeat.at
        return timedelta(seconds=-within) <= age <= timedelta(seconds=within)
