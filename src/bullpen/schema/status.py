"""The pool as a whole, and whether a server can serve it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta, field

from bullpen.model.control import State as ControlState
from bullpen.model.provision import Provision
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.instance import InstanceAnswer, instance_of_view
from bullpen.schema.pause import PauseAnswer, RotationAnswer, pauses_of, rotation_of
from bullpen.schema.run import RunSummary, run_summary_of
from bullpen.schema.scale_set import ScaleSetAnswer, scale_set_of
from bullpen.schema.worker import SilentWorker, silent_worker_of

if TYPE_CHECKING:
    from bullpen.inventory import Pool, Status
    from bullpen.ports.health import Limit
    from bullpen.settings.reloading import Reloader


class PoolAnswer(AnswerBody, frozen=True):
    """What a class has on offer: `claimable` counts instances of any usage class and trust domain. `tickets` includes
    expired ones where `ticketsIncludeExpired`: SQS counts a message until it is received."""

    resource_class: Annotated[str, Meta(description="Resource class.")]
    tickets: Annotated[int, Meta(description="Offers in the queue.")]
    tickets_include_expired: Annotated[
        bool, Meta(description="Whether `tickets` counts expired offers, as SQS does until they are received.")
    ]
    claimable: Annotated[
        int, Meta(description="Instances that a run could claim now, of any usage class and trust domain.")
    ]
    idle_target: Annotated[int, Meta(description="Instances that the class keeps on offer now.")] = 0
    schedule_entry: Annotated[
        str, Meta(description="Entry of the class's schedule that holds now; empty if none does.")
    ] = ""
    next_target: Annotated[
        int | None, Meta(description="The target after its next change; null if the schedule does not change it.")
    ] = None
    next_target_at: Annotated[Time | None, Meta(description="When the target changes next; null if it does not.")] = (
        None
    )


class DomainAnswer(AnswerBody, frozen=True):
    """The workers of a failure domain by state."""

    domain: Annotated[str, Meta(description="Failure domain.")]
    active: Annotated[int, Meta(description="Workers whose lease holds, or that are suspect.")]
    inactive: Annotated[int, Meta(description="Workers that were lost.")]


class ControlAnswer(AnswerBody, frozen=True):
    """Whether losses are held back: one for each failure domain, and one for the whole store."""

    name: Annotated[str, Meta(description="Failure domain, or the whole store.")]
    state: Annotated[ControlState, Meta(description="Whether losses are held back.")]
    why: Annotated[str, Meta(description="Why they are held back; empty if they are not.")]
    held_since: Annotated[Time | None, Meta(description="Since when they are held back; null if they are not.")]
    recovered_at: Annotated[Time | None, Meta(description="When heartbeats last resumed; null if they never stopped.")]


class WaitingProvision(AnswerBody, frozen=True):
    """A provision that waits for room under a cap, or for a resume. `waitsFor` is the setting of that cap."""

    id: Annotated[str, Meta(description="Id of the provision.")]
    run_id: Annotated[str, Meta(description="Run that it is for.")]
    count: Annotated[int, Meta(description="Runners that it asks for.")]
    resource_class: Annotated[str, Meta(description="Resource class.")]
    waits_for: Annotated[str, Meta(description="Setting of the cap that it waits for, or `a resume`.")]
    since: Annotated[Time | None, Meta(description="Since when it waits.")]


class FailingLoopAnswer(AnswerBody, frozen=True):
    """A loop of a server on this store of which every run has failed since a time, and the last error."""

    process: Annotated[str, Meta(description="Process that runs the loop.")]
    loop: Annotated[str, Meta(description="Name of the loop.")]
    since: Annotated[Time, Meta(description="Since when every run of it has failed.")]
    error: Annotated[str, Meta(description="Its last error.")]


class RateLimitAnswer(AnswerBody, frozen=True):
    """Requests that GitHub still allows the pool's credentials."""

    resource: Annotated[str, Meta(description="Kind of requests, as GitHub calls it.")]
    limit: Annotated[int, Meta(description="How many it allows until the limit resets.")]
    remaining: Annotated[int, Meta(description="How many of them are left.")]
    resets_at: Annotated[Time, Meta(description="When the limit resets.")]


class SettingsAnswer(AnswerBody, frozen=True):
    """`restartNeeded` are settings that changed in the file and take effect when the server is restarted. `refused` is
    the error in the file: while there is one, the server applies none of its changes."""

    file: Annotated[str, Meta(description="Settings file; empty if there is none.")] = ""
    restart_needed: Annotated[
        tuple[str, ...],
        Meta(description="Settings that changed in the file and take effect when the server is restarted."),
    ] = ()
    refused: Annotated[
        str,
        Meta(
            description="Error in the settings file. While there is one, the server applies none of its changes. Empty"
            " if there is none."
        ),
    ] = ""


class StatusAnswer(AnswerBody, frozen=True, kw_only=True):
    """The pool in numbers. `counts` has live instances by resource class and state. `hold` says why no worker is
    declared lost now; empty if workers are. Of a great many silent workers or waiting provisions, it names some."""

    counts: Annotated[dict[str, dict[str, int]], Meta(description="Live instances by resource class and state.")]
    pools: Annotated[list[PoolAnswer], Meta(description="What each resource class has on offer.")]
    workers: Annotated[list[DomainAnswer], Meta(description="Workers by failure domain.")]
    silent_workers: Annotated[
        list[SilentWorker], Meta(description="Workers that missed their lease; of a great many, some.")
    ]
    hold: Annotated[str, Meta(description="Why no worker is declared lost now; empty if workers are.")]
    controls: Annotated[list[ControlAnswer], Meta(description="Whether losses are held back, by failure domain.")]
    waiting: Annotated[
        list[WaitingProvision], Meta(description="Provisions that wait for room under a cap; of a great many, some.")
    ]
    failing_loops: Annotated[
        list[FailingLoopAnswer], Meta(description="Loops of servers on this store of which every run fails.")
    ]
    scale_sets: Annotated[list[ScaleSetAnswer], Meta(description="Runner scale sets, by name.")] = field(
        default_factory=list
    )
    pauses: Annotated[list[PauseAnswer], Meta(description="Pauses in force; that of the whole pool first.")] = field(
        default_factory=list
    )
    rotations: Annotated[list[RotationAnswer], Meta(description="Rotations under way, by class.")] = field(
        default_factory=list
    )


S = TypeVar("S", bound=StatusAnswer)


class ServerStatus(StatusAnswer, frozen=True, kw_only=True):
    """With the loops of the server that answers, and its settings."""

    loops: Annotated[dict[str, bool], Meta(description="Whether each loop of this server runs.")]
    settings: Annotated[SettingsAnswer, Meta(description="This server's settings file.")]


class PoolStatus(StatusAnswer, frozen=True, kw_only=True):
    """With the home or the table of the pool, the runs that it serves, every instance that lives or whose end is owed,
    and what GitHub still allows. Of a great many runs, it names the first 1,000 by id."""

    location: str
    runs: list[RunSummary]
    instances: list[InstanceAnswer]
    limits: list[RateLimitAnswer]


class ReadyAnswer(AnswerBody, frozen=True):
    """`failing` has the loops of which every run has failed since a time. They do not make a server unready.
    `/v1/status`, which needs a token, has their errors."""

    ready: Annotated[bool, Meta(description="Whether the server can serve.")]
    store: Annotated[bool, Meta(description="Whether the store can be read and written.")]
    loops: Annotated[dict[str, bool], Meta(description="Whether each loop runs.")]
    failing: Annotated[
        dict[str, Time],
        Meta(description="Loops of which every run has failed, and since when. They do not make a server unready."),
    ] = field(default_factory=dict)


class AliveAnswer(AnswerBody, frozen=True):
    alive: Annotated[bool, Meta(description="Always true.")]


def server_status_of(status: "Status", loops: Mapping[str, bool], reloader: "Reloader | None") -> ServerStatus:
    return _status_of(ServerStatus, status, loops=dict(loops), settings=filled(SettingsAnswer, reloader))


def pool_status_of(status: "Status", limits: "Sequence[Limit]" = (), location: str = "") -> PoolStatus:
    return _status_of(
        PoolStatus,
        status,
        location=location,
        runs=[run_summary_of(one) for one in status.runs],
        instances=[instance_of_view(one) for one in status.instances],
        limits=[filled(RateLimitAnswer, one) for one in limits],
    )


def domains_of(census: Mapping[tuple[str, str], int]) -> list[DomainAnswer]:
    """Workers by failure domain, from their number by domain and state."""
    names = sorted({domain for domain, _ in census})
    return [DomainAnswer(name, census.get((name, ACTIVE), 0), census.get((name, INACTIVE), 0)) for name in names]


def _status_of(kind: type[S], status: "Status", **others: Any) -> S:
    counts: dict[str, dict[str, int]] = {}
    for (name, state), count in status.counts.items():
        counts.setdefault(name, {})[state.value] = count
    return kind(
        counts=counts,
        pools=[_pool_of(one) for one in status.pools],
        workers=[filled(DomainAnswer, one, domain=one.name) for one in status.domains],
        silent_workers=[silent_worker_of(one) for one in status.silent],
        hold=status.hold,
        controls=[filled(ControlAnswer, one, name=one.id) for one in status.controls],
        waiting=[_waiting_of(one) for one in status.waiting],
        failing_loops=[filled(FailingLoopAnswer, one) for one in status.failing],
        scale_sets=[scale_set_of(one) for one in status.sets],
        pauses=pauses_of(status.pauses),
        rotations=[rotation_of(one.rotation, one.left) for one in status.rotations],
        **others,
    )


def _pool_of(one: "Pool") -> PoolAnswer:
    target = one.target
    return filled(
        PoolAnswer,
        one,
        tickets_include_expired=one.counts_expired,
        idle_target=target.target,
        schedule_entry=target.entry,
        next_target=None if target.until is None else target.then,
        next_target_at=time_of(target.until),
    )


def _waiting_of(one: Provision) -> WaitingProvision:
    since = time_of(one.place.since if one.place else None)
    return WaitingProvision(one.id, one.run_id, one.want, one.needs.resource_class, one.waits_for, since)
