"""RecordHeartbeat: the one use case behind every beat, over HTTP or in this process.

A beat is one conditional write: the heartbeat item is the lease. The deadline is this process's clock plus the granted
lease; no time that the worker sends is used. Only a beat that names jobs reads or writes anything else:

    bound      the job is marked as taken up, if it is assigned to this worker, in this epoch, under this fence
    unbound    it is over at the worker; if its result never arrives, the verification timer notices
    running    nothing is written; the answer says which of them to stop

All of this may be done twice: a worker that lost the answer repeats its beat, and one killed between the beat and its
jobs leaves the rest to that repetition.
"""

from collections.abc import Sequence
from datetime import datetime

from bullpen.config import Liveness, Settings
from bullpen.errors import ConfigError
from bullpen.liveness.bindings import apply_bindings
from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest, validated
from bullpen.model import limits
from bullpen.model.worker import ABSENT, ACTIVE, Accepted, Beat, Rejected, State
from bullpen.ports import Chance, Ports

BY = "heartbeat"
BEATS_PER_LEASE = 3  # one may be late, one lost
JITTER = 0.1  # so that workers that started together do not beat together
STRETCH = 2.0  # under load: a lease twice as long halves the beats

Recorded = HeartbeatAnswer | Rejected


async def record_heartbeat(
    ports: Ports, settings: Settings, request: HeartbeatRequest, *, instance_id: str = "", overloaded: bool = False
) -> Recorded:
    """Receive one beat, of a worker on this instance if it is on any. Raise ConfigError, with nothing written, for one
    that is not valid."""
    beats = [(validated(request), instance_id)]
    (recorded,) = await record_validated(ports, settings, beats, overloaded=overloaded)
    return recorded


async def record_heartbeats(
    ports: Ports, settings: Settings, requests: Sequence[HeartbeatRequest], *, overloaded: bool = False
) -> list[Recorded | ConfigError]:
    """Receive beats in one write, each on its own; one that is not valid fails alone."""
    if not 1 <= len(requests) <= limits.BEATS:
        raise ConfigError(f"heartbeats: {len(requests)} in one request, must be 1 to {limits.BEATS}")
    checked = [_validated_or_mistake(request) for request in requests]
    good = [(one, "") for one in checked if not isinstance(one, ConfigError)]
    recorded = iter(await record_validated(ports, settings, good, overloaded=overloaded))
    return [one if isinstance(one, ConfigError) else next(recorded) for one in checked]


async def record_validated(
    ports: Ports, settings: Settings, beats: Sequence[tuple[HeartbeatRequest, str]], *, overloaded: bool = False
) -> list[Recorded]:
    """Receive beats that were decoded, each with the id of the worker's instance (empty: on none), in one write.
    `overloaded` grants longer leases."""
    stretch = STRETCH if overloaded else 1.0
    rules = settings.liveness
    if not rules.tracking:
        # Nothing is stored, and a worker that keeps its token goes on where it was once tracking is on again.
        standing = [Accepted(0, one.token, granted(one.lease, rules, stretch)) for one, _ in beats]
        return [_answer(ports.chance, one, ABSENT) for one in standing]
    now = ports.clock.now()
    events = [
        (one.key, _event(one, instance_id, now, granted(one.lease, rules, stretch))) for one, instance_id in beats
    ]
    received = await ports.workers.beat(events) if events else []
    stops = await _apply_the_rest(ports, settings, beats, received, now)
    return [
        outcome if isinstance(outcome, Rejected) else _answer(ports.chance, outcome, ACTIVE, stops.get(place, ()))
        for place, outcome in enumerate(received)
    ]


def granted(lease: float | None, rules: Liveness, stretch: float = 1.0) -> float:
    """The lease that a valid request gets, in seconds: asked for too little or too much, the nearest allowed."""
    asked = (lease or rules.default_lease) * stretch
    return min(max(asked, rules.min_lease), rules.max_lease)


def _validated_or_mistake(request: HeartbeatRequest) -> HeartbeatRequest | ConfigError:
    try:
        return validated(request)
    except ConfigError as mistake:
        return mistake


def _event(request: HeartbeatRequest, instance_id: str, now: datetime, lease: float) -> Beat:
    # By place: twice as fast as by name.
    return Beat(
        now,
        BY,
        request.token,
        lease,
        request.request_id,
        instance_id,
        request.domain,
        request.leaving,
        request.activity,
    )


async def _apply_the_rest(
    ports: Ports,
    settings: Settings,
    beats: Sequence[tuple[HeartbeatRequest, str]],
    received: Sequence[Accepted | Rejected],
    now: datetime,
) -> dict[int, tuple[str, ...]]:
    """What accepted beats say besides that the worker lives: nothing, in nearly all of them. Returns the jobs to stop,
    by the place of the beat."""
    accepted = {
        place: (request, outcome)
        for place, ((request, _), outcome) in enumerate(zip(beats, received, strict=True))
        if isinstance(outcome, Accepted)
        and (request.metadata or request.bound or request.unbound or request.running or outcome.resurrected)
    }
    if not accepted:
        return {}
    await _describe(ports, [request for request, _ in accepted.values()])
    stops = await apply_bindings(ports, settings, list(accepted.values()), now)
    return dict(zip(accepted, stops, strict=True))


async def _describe(ports: Ports, requests: Sequence[HeartbeatRequest]) -> None:
    """Metadata is written on change only, also for a worker that sends it each time."""
    cards = {request.key: request.metadata.card for request in requests if request.metadata is not None}
    stored = await ports.workers.cards(list(cards)) if cards else {}
    for key, card in cards.items():
        if stored.get(key) != card:
            await ports.workers.describe(key, card)


def _answer(chance: Chance, beat: Accepted, state: State, stop: tuple[str, ...] = ()) -> HeartbeatAnswer:
    next_in = beat.lease / BEATS_PER_LEASE * chance.uniform(1 - JITTER, 1 + JITTER)
    return HeartbeatAnswer(beat.token, beat.epoch, beat.lease, next_in, stop, state, beat.resurrected)
