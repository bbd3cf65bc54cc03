"""How records lie in their tables: columns, values and back. Times are whole microseconds since 1970, UTC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import json

from bullpen.model import instance, provision
from bullpen.model.instance import Instance
from bullpen.model.provision import Fleet, Place, Provision
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.transition import Debt, Record, StoryLine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Row = tuple[Any, ...]
R = TypeVar("R", bound=Record)


def to_micros(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def to_micros_or_null(at: datetime | None) -> int | None:
    return None if at is None else to_micros(at)


def from_micros_or_null(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


@dataclass(frozen=True, slots=True)
class Field:
    """The columns that hold one field of a record, and their values."""

    columns: tuple[str, ...]
    encode: Callable[[Any], Row]


@dataclass(frozen=True, slots=True, eq=False)
class Table(Generic[R]):
    """One kind of record."""

    name: str
    fields: Mapping[str, Field]
    decode: Callable[[Row], R]
    derived: Mapping[str, Callable[[R], Any]] = field(default_factory=dict)  # columns that follow from the record

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order in which `decode` takes them."""
        return tuple(column for field in self.fields.values() for column in field.columns)


def plain_field(column: str) -> Field:
    return Field((column,), lambda value: (value,))


def time_field(column: str) -> Field:
    return Field((column,), lambda at: (to_micros_or_null(at),))


def word_field(column: str) -> Field:
    # The bare text: sqlite3 asks its adapters about every subclass of str, which costs more than the write of it.
    return Field((column,), lambda member: (member.value,))


def flag_field(column: str) -> Field:
    return Field((column,), lambda flag: (int(flag),))


def json_field(column: str) -> Field:
    return Field((column,), lambda value: (json.encode(value).decode(),))


def _encode_debt(debt: Debt | None) -> Row:
    return (None, None) if debt is None else (debt.kind.value, to_micros(debt.due_at))


_DEBT = Field(("owes_kind", "owes_due"), _encode_debt)


def _decode_debt(kinds: type[StrEnum], kind: str | None, due: int | None) -> Debt | None:
    return None if kind is None or due is None else Debt(kinds(kind), from_micros(due))


def _encode_place(place: Place | None) -> Row:
    return (None, None, None) if place is None else (place.cap, to_micros(place.since), to_micros(place.until))


def _decode_place(cap: str | None, since: int | None, until: int | None) -> Place | None:
    if cap is None or since is None or until is None:
        return None
    return Place(cap, from_micros(since), from_micros(until))


def _decode_instance(row: Row) -> Instance:
    id_, state, version, threshold, run_id, round_, provision_id, attested, *rest = row
    trust_domain, generation, resource_class, type_, usage, cpu, mem, offered_at, *rest = rest
    owes_kind, owes_due, purge_at, repository = rest
    return Instance(
        id_,
        instance.State(state),
        version,
        from_micros(threshold),
        run_id,
        round_,
        provision_id,
        attested == 1,
        trust_domain,
        generation,
        resource_class,
        type_,
        UsageClass(usage),
        cpu,
        mem,
        from_micros_or_null(offered_at),
        _decode_debt(instance.Owed, owes_kind, owes_due),
        from_micros_or_null(purge_at),
        repository,
    )


def _decode_provision(row: Row) -> Provision:
    id_, state, version, run_id, want, _, needs, deadline, max_runtime, fleets, members, reason, *rest = row
    owes_kind, owes_due, purge_at, *place = rest
    return Provision(
        id_,
        provision.State(state),
        version,
        run_id,
        want,
        json.decode(needs, type=Requirements),
        from_micros(deadline),
        max_runtime,
        json.decode(fleets, type=tuple[Fleet, ...]),
        json.decode(members, type=tuple[str, ...]),
        reason,
        _decode_debt(provision.Owed, owes_kind, owes_due),
        from_micros_or_null(purge_at),
        _decode_place(*place),
    )


INSTANCES: Table[Instance] = Table(
    "instances",
    {
        "id": plain_field("id"),
        "state": word_field("state"),
        "version": plain_field("version"),
        "threshold": time_field("threshold"),
        "run_id": plain_field("run_id"),
        "round": plain_field("round"),
        "provision_id": plain_field("provision_id"),
        "attested": flag_field("attested"),
        "trust_domain": plain_field("trust_domain"),
        "image_generation": plain_field("image_generation"),
        "resource_class": plain_field("resource_class"),
        "instance_type": plain_field("instance_type"),
        "usage_class": word_field("usage_class"),
        "cpu": plain_field("cpu"),
        "mem": plain_field("mem"),
        "offered_at": time_field("offered_at"),
        "owes": _DEBT,
        "purge_at": time_field("purge_at"),
        "repository": plain_field("repository"),
    },
    _decode_instance,
    {"due_at": lambda record: to_micros_or_null(record.due_at)},
)

PROVISIONS: Table[Provision] = Table(
    "provisions",
    {
        "id": plain_field("id"),
        "state": word_field("state"),
        "version": plain_field("version"),
        "run_id": plain_field("run_id"),
        "want": plain_field("want"),
        # The class beside the rest: open provisions are found by it.
        "needs": Field(("resource_class", "needs"), lambda needs: (needs.resource_class, json.encode(needs).decode())),
        "deadline": time_field("deadline"),
        "max_runtime": plain_field("max_runtime"),
        "fleets": json_field("fleets"),
        "members": json_field("members"),
        "reason": plain_field("reason"),
        "owes": _DEBT,
        "purge_at": time_field("purge_at"),
        "place": Field(("waits_for", "waits_since", "waits_until"), _encode_place),
    },
    _decode_provision,
    {"due_at": lambda record: to_micros_or_null(record.due_at)},
)

STORY_COLUMNS = "version, step, state, at, by, why"


def encode_line(line: StoryLine) -> Row:
    return line.version, line.step, line.state, to_micros(line.at), line.by, line.why


def decode_line(row: Row) -> StoryLine:
    version, step, state, at, by, why = row
    return StoryLine(version, step, state, from_micros(at), by, why)
