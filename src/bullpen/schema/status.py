"""The pool as a whole, and whether a server can serve it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import field

from bullpen.inventory import Status
from bullpen.model.control import State as ControlState
from bullpen.model.provision import Provision
from bullpen.model.worker import ACTIVE, INACTIVE
from bullpen.ports.health import Limit
from bullpen.schema.base import AnswerBody, filled, time_of
from bullpen.schema.instance import InstanceAnswer, instance_of_view
from bullpen.schema.run import RunSummary, run_summary_of
from bullpen.schema.worker import SilentWorker, silent_worker_of
from bullpen.settings.reloading import Reloader


class PoolAnswer(AnswerBody, frozen=True):
    """What a class has on offer: `claimable` counts instances of any usage class and trust domain. `tickets` includes
    expired ones where `ticketsIncludeExpired`: SQS counts a message until it is received."""

    resource_class: str
    tickets: int
    tickets_include_expired: bool
    claimable: int


class DomainAnswer(AnswerBody, frozen=True):
    """The workers of a failure domain by state."""

    domain: str
    active: int
    inactive: int


class ControlAnswer(AnswerBody, frozen=True):
    """Whether losses are held back: one for each failure domain, and one for the whole store."""

    name: str
    state: ControlState
    why: str
    held_since: str | None
    recovered_at: str | None


class WaitingProvision(AnswerBody, frozen=True):
    """A provision that waits for room under a cap. `waitsFor` is the setting of that cap."""

    id: str
    run_id: str
    count: int
    resource_class: str
    waits_for: str
    since: str | None


class FailingLoopAnswer(AnswerBody, frozen=True):
    """A loop of a server on this store of which every run has failed since a time, and the last error."""

    process: str
    loop: str
    since: str
    error: str


class RateLimitAnswer(AnswerBody, frozen=True):
    """Requests that GitHub still allows the pool's credentials."""

    resource: str
    limit: int
    remaining: int
    resets_at: str


class SettingsAnswer(AnswerBody, frozen=True):
    """`restartNeeded` are settings that changed in the file and take effect when the server is restarted. `refused` is
    what is wrong with the file as it stands: then the server has taken over nothing of it."""

    file: str = ""
    restart_needed: tuple[str, ...] = ()
    refused: str = ""


class StatusAnswer(AnswerBody, frozen=True, kw_only=True):
    """The pool in numbers. `counts` has live instances by resource class and state. `hold` says why no worker is
    declared lost now; empty if workers are. Of a great many silent workers or waiting provisions, it names some."""

    counts: dict[str, dict[str, int]]
    pools: list[PoolAnswer]
    workers: list[DomainAnswer]
    silent_workers: list[SilentWorker]
    hold: str
    controls: list[ControlAnswer]
    waiting: list[WaitingProvision]
    failing_loops: list[FailingLoopAnswer]


S = TypeVar("S", bound=StatusAnswer)


class ServerStatus(StatusAnswer, frozen=True, kw_only=True):
    """With the loops of the server that answers, and its settings."""

    loops: dict[str, bool]
    settings: SettingsAnswer


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

    ready: bool
    store: bool
    loops: dict[str, bool]
    failing: dict[str, str] = field(default_factory=dict)


class AliveAnswer(AnswerBody, frozen=True):
    alive: bool


def server_status_of(status: Status, loops: Mapping[str, bool], reloader: Reloader | None) -> ServerStatus:
    return _status_of(ServerStatus, status, loops=dict(loops), settings=filled(SettingsAnswer, reloader))


def pool_status_of(status: Status, limits: Sequence[Limit] = (), location: str = "") -> PoolStatus:
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


def _status_of(kind: type[S], status: Status, **others: Any) -> S:
    counts: dict[str, dict[str, int]] = {}
    for (name, state), count in status.counts.items():
        counts.setdefault(name, {})[state.value] = count
    return kind(
        counts=counts,
        pools=[filled(PoolAnswer, one, tickets_include_expired=one.counts_expired) for one in status.pools],
        workers=[filled(DomainAnswer, one, domain=one.name) for one in status.domains],
        silent_workers=[silent_worker_of(one) for one in status.silent],
        hold=status.hold,
        controls=[filled(ControlAnswer, one, name=one.id) for one in status.controls],
        waiting=[_waiting_of(one) for one in status.waiting],
        failing_loops=[filled(FailingLoopAnswer, one) for one in status.failing],
        **others,
    )


def _waiting_of(one: Provision) -> WaitingProvision:
    since = time_of(one.place.since if one.place else None)
    return WaitingProvision(one.id, one.run_id, one.want, one.needs.resource_class, one.waits_for, since)
