"""The views of `bullpen top`: which rows there are of a pool, their columns, and how each is sorted and searched."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from bullpen.cli.status_text import target_text
from bullpen.cli.text import ago
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import IDLE
from bullpen.model.ticket import parse_time
from bullpen.model.wait import WaitCause
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.queue import QueueAnswer
from bullpen.schema.run import RunSummary
from bullpen.schema.scale_set import ScaleSetAnswer
from bullpen.schema.status import PoolAnswer, PoolStatus, WaitingProvision

NONE = "-"
LATE = 20.0  # seconds: a heartbeat comes every 5

Sortable = Any


@dataclass(frozen=True, slots=True)
class TopData:
    """What `top` has read. `queue` is None while the waits were not read, or where a server does not list them."""

    status: PoolStatus
    queue: QueueAnswer | None = None

    @property
    def waits(self) -> int:
        """0 while they were not read."""
        return len(self.queue.waits) + self.queue.more if self.queue is not None else 0


@dataclass(frozen=True, slots=True)
class TopColumn:
    """`text` is what a row shows, `key` what it is sorted by."""

    title: str
    text: Callable[[Any, datetime], str]
    key: Callable[[Any], Sortable]


@dataclass(frozen=True, slots=True)
class TopView:
    """`subject` is what `why` explains of a row; empty for none. `spare` are columns that a narrow terminal goes
    without, the first ones first."""

    name: str
    rows: Callable[[TopData], Sequence[Any]]
    id_of: Callable[[Any], str]
    columns: tuple[TopColumn, ...]
    spare: tuple[str, ...]
    searched: Callable[[Any], str]
    empty: str
    subject: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """What a class has on offer, and its live instances by state."""

    pool: PoolAnswer
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class WaitRow:
    """What waits, and for what."""

    id: str
    run_id: str
    resource_class: str
    since: str | None
    cause: str
    because: str


def _pool_rows(found: TopData) -> list[PoolRow]:
    return [PoolRow(one, found.status.counts.get(one.resource_class, {})) for one in found.status.pools]


def _wait_rows(found: TopData) -> list[WaitRow]:
    if found.queue is not None:
        return [
            WaitRow(one.subject, one.run_id, one.resource_class, one.since, one.cause.value, one.because)
            for one in found.queue.waits
        ]
    return [*map(_provision_wait, found.status.waiting), *_set_waits(found.status.scale_sets)]


def _provision_wait(one: WaitingProvision) -> WaitRow:
    return WaitRow(
        one.id, one.run_id, one.resource_class, one.since, WaitCause.CAP.value, f"room under {one.waits_for}"
    )


def _set_waits(sets: Sequence[ScaleSetAnswer]) -> Iterator[WaitRow]:
    for one in sets:
        if one.waiting or one.why:
            yield WaitRow(one.name, "", one.resource_class, one.waits_since, NONE, one.why or "runners for its jobs")


def _count(state: str) -> TopColumn:
    title = "BOOTING" if state == "created" else state.upper()
    return TopColumn(title, lambda one, now: str(one.counts.get(state, 0)), lambda one: -one.counts.get(state, 0))


def _runners(one: RunSummary, now: datetime) -> str:
    return f"{one.held} of {one.wanted}"


def _jobs(one: RunSummary, now: datetime) -> str:
    counts = ((one.queued_jobs, "queued"), (one.running_jobs, "running"))
    return ", ".join(f"{count} {name}" for count, name in counts if count) or NONE


def _instance_state(one: InstanceAnswer, now: datetime) -> str:
    if one.leaving_at:
        return f"{one.state.value}, leaves"
    if one.state is IDLE and not one.attested:
        return "idle, cleaning"
    return f"{one.state.value}, job" if one.job else one.state.value


def _pulse(one: InstanceAnswer, now: datetime) -> str:
    """Only a late heartbeat has its age: it would change every second."""
    if one.silent:
        return f"lost {_ago(one.heartbeat_at, now)}"
    if one.heartbeat_at is None:
        return "none"
    return (
        "ok" if (now - parse_time(one.heartbeat_at)).total_seconds() < LATE else f"late {_ago(one.heartbeat_at, now)}"
    )


def _ago(at: str | None, now: datetime) -> str:
    return ago(parse_time(at), now).removesuffix(" ago") if at else NONE


def _time(name: str, at: str) -> TopColumn:
    return TopColumn(name, lambda one, now: _ago(getattr(one, at), now), lambda one: getattr(one, at) or "9")


def _field(title: str, name: str) -> TopColumn:
    return TopColumn(title, lambda one, now: str(getattr(one, name)) or NONE, lambda one: getattr(one, name))


VIEWS = (
    TopView(
        "pools",
        _pool_rows,
        lambda one: str(one.pool.resource_class),
        (
            TopColumn("POOL", lambda one, now: one.pool.resource_class, lambda one: one.pool.resource_class),
            TopColumn("CLAIMABLE", lambda one, now: str(one.pool.claimable), lambda one: -one.pool.claimable),
            TopColumn("TICKETS", lambda one, now: str(one.pool.tickets), lambda one: -one.pool.tickets),
            *map(_count, ("created", "idle", "claimed", "running")),
            TopColumn("TARGET", lambda one, now: target_text(one.pool, now), lambda one: -one.pool.idle_target),
        ),
        ("TICKETS", "CLAIMED", "IDLE", "BOOTING"),
        lambda one: str(one.pool.resource_class),
        "No class is configured.",
        lambda one: "",
    ),
    TopView(
        "runs",
        lambda found: found.status.runs,
        lambda one: str(one.id),
        (
            _field("RUN", "id"),
            TopColumn("STATE", lambda one, now: one.state.value, lambda one: one.state.value),
            TopColumn("RUNNERS", _runners, lambda one: -one.held),
            TopColumn(
                "CLASS", lambda one, now: " ".join(one.resource_classes) or NONE, lambda one: one.resource_classes
            ),
            TopColumn("JOBS", _jobs, lambda one: (-one.queued_jobs, -one.running_jobs)),
            _time("SINCE", "since"),
            _field("REPOSITORY", "repository"),
        ),
        ("REPOSITORY", "SINCE", "CLASS", "JOBS"),
        lambda one: f"{one.id} {one.state.value} {' '.join(one.resource_classes)} {one.repository}",
        "No run has runners, or waits for any. `bullpen provision` gets some.",
        lambda one: str(one.id),
    ),
    TopView(
        "instances",
        lambda found: found.status.instances,
        lambda one: str(one.id),
        (
            _field("INSTANCE", "id"),
            TopColumn("STATE", _instance_state, lambda one: one.state.value),
            _field("RUN", "run_id"),
            _field("CLASS", "resource_class"),
            _field("TYPE", "instance_type"),
            _time("UNTIL", "threshold"),
            TopColumn("HEARTBEAT", _pulse, lambda one: one.heartbeat_at or ""),
        ),
        ("TYPE", "CLASS", "UNTIL", "HEARTBEAT"),
        lambda one: f"{one.id} {one.state.value} {one.run_id} {one.resource_class} {one.instance_type}",
        "No instance lives. Raise an idle-target to keep some warm, or run `bullpen provision`.",
        lambda one: str(one.id),
    ),
    TopView(
        "waits",
        _wait_rows,
        lambda one: str(one.id),
        (
            _field("WAITS", "id"),
            _field("RUN", "run_id"),
            _field("CLASS", "resource_class"),
            _time("SINCE", "since"),
            _field("CAUSE", "cause"),
            _field("BECAUSE", "because"),
        ),
        ("CLASS", "RUN", "SINCE"),
        lambda one: f"{one.id} {one.run_id} {one.resource_class} {one.cause} {one.because}",
        "Nothing waits.",
        lambda one: str(one.id),
    ),
)
