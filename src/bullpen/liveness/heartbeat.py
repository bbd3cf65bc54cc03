"""RecordHeartbeat: the one use case behind every beat, over HTTP or in this process.

A beat is one conditional write: the heartbeat item is the lease. The deadline is this process's clock plus the granted
lease; nothing that the worker says about time is used. Only a beat that names jobs reads or writes anything else:

    bound      the job is marked as taken up, if it is assigned to this worker, in this epoch, under this fence
    unbound    it is over at the worker; a result that never arrives after all is noticed by the verification timer
    running    nothing is written; the answer says which of them to stop

All of this may be done twice: a worker that lost our answer repeats its beat, and one killed between the beat and its
jobs leaves the rest to that repetition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.liveness.bindings import apply_bindings
from bullpen.liveness.request import HeartbeatRequest, check, granted
from bullpen.model.worker import ABSENT, Accepted, Beat, Rejected, State
from bullpen.ports import Ports

BY = "heartbeat"
MOST_BEATS = 1000  # in one batch
BEATS_PER_LEASE = 3  # one may be late, one lost
JITTER = 0.1  # so that workers that started together do not beat together
STRETCH = 2.0  # under load: a lease twice as long halves the beats


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The beat counts. `epoch` other than the worker knows says that it had been given up, as `resurrected` does.

    `stop` are jobs that it must end: cancelled ones, and those that are no longer, or never were, its own.
    """

    token: int
    epoch: int
    granted_lease: float
    next_in: float
    stop: tuple[str, ...]
    state: State
    resurrected: bool


@dataclass(frozen=True, slots=True)
class Rejection:
    """Nothing of the beat was applied; `code` is one of `model.worker.Code`, `token` the one that counts."""

    code: str
    state: State
    token: int


Recorded = HeartbeatAnswer | Rejection


async def record_heartbeat(
    ports: Ports, settings: Settings, request: HeartbeatRequest, *, overloaded: bool = False
) -> Recorded:
    """Receive one beat. Raise ConfigError, with nothing written, for one that cannot be meant."""
    (recorded,) = await record_heartbeats(ports, settings, [request], overloaded=overloaded)
    if isinstance(recorded, ConfigError):
        raise recorded
    return recorded


async def record_heartbeats(
    ports: Ports, settings: Settings, requests: Sequence[HeartbeatRequest], *, overloaded: bool = False
) -> list[Recorded | ConfigError]:
    """Receive beats in one write, each on its own; a bad one fails alone. `overloaded` grants longer leases."""
    if not 1 <= len(requests) <= MOST_BEATS:
        raise ConfigError(f"heartbeats: {len(requests)} in one request, must be 1 to {MOST_BEATS}")
    stretch = STRETCH if overloaded else 1.0
    wrong = [_mistake(request) for request in requests]
    good = [request for request, mistake in zip(requests, wrong, strict=True) if mistake is None]
    if settings.liveness.tracking:
        answers = await _receive(ports, settings, good, stretch)
    else:
        # Nothing is stored, and a worker that keeps its token goes on where it was once tracking is on again.
        answers = [_answer(ports, one.token, 0, granted(one.lease, settings.liveness, stretch)) for one in good]
    coming = iter(answers)
    return [next(coming) if mistake is None else mistake for mistake in wrong]


def _mistake(request: HeartbeatRequest) -> ConfigError | None:
    try:
        check(request)
    except ConfigError as mistake:
        return mistake
    return None


async def _receive(
    ports: Ports, settings: Settings, requests: Sequence[HeartbeatRequest], stretch: float
) -> list[Recorded]:
    if not requests:
        return []
    now = ports.clock.now()
    beats = [(one.key, _beat(one, now, granted(one.lease, settings.liveness, stretch))) for one in requests]
    received = await ports.workers.beat(beats)
    accepted = [(q, r) for q, r in zip(requests, received, strict=True) if isinstance(r, Accepted)]
    await _describe(ports, [request for request, _ in accepted])
    to_stop = iter(await apply_bindings(ports, settings, accepted, now))
    answers: list[Recorded] = []
    for outcome in received:
        if isinstance(outcome, Rejected):
            answers.append(Rejection(outcome.code.value, outcome.state, outcome.token))
            continue
        worker = outcome.worker
        answers.append(
            _answer(ports, worker.token, worker.epoch, worker.lease, next(to_stop), worker.state, outcome.resurrected)
        )
    return answers


def _beat(request: HeartbeatRequest, now: datetime, lease: float) -> Beat:
    return Beat(
        at=now,
        by=BY,
        token=request.token,
        lease=lease,
        request_id=request.request_id,
        instance_id=request.instance_id,
        domain=request.domain,
        leaving=request.leaving,
        activity=request.activity,
    )


def _answer(
    ports: Ports,
    token: int,
    epoch: int,
    lease: float,
    stop: tuple[str, ...] = (),
    state: State = ABSENT,
    resurrected: bool = False,
) -> HeartbeatAnswer:
    next_in = lease / BEATS_PER_LEASE * ports.chance.uniform(1 - JITTER, 1 + JITTER)
    return HeartbeatAnswer(token, epoch, lease, next_in, stop, state, resurrected)


async def _describe(ports: Ports, requests: Sequence[HeartbeatRequest]) -> None:
    """Cards are written on change only, also for a worker that sends its card each time."""
    cards = {request.key: request.card for request in requests if request.card is not None}
    stored = await ports.workers.cards(list(cards)) if cards else {}
    for key, card in cards.items():
        if stored.get(key) != card:
            await ports.workers.describe(key, card)
