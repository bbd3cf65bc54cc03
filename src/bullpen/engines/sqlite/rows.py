"""How records lie in their tables: columns, values and back. Times are whole microseconds since 1970, UTC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import json

from bullpen.model import instance, provision
from bullpen.model.instance import Instance
from bullpen.model.provision import Fleet, Provision
from bullpen.model.ticket import Requirements, UsageClass
from bullpen.model.transition import Debt, StoryLine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Row = tuple[Any, ...]
R = TypeVar("R", Instance, Provision)


def to_micros(at: datetime) -> int:
    return (at - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def to_micros_or_null(at: datetime | None) -> int | None:
    return None if at is None else to_micros(at)


def _from_micros_or_null(micros: int | None) -> datetime | None:
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

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order in which `decode` takes them."""
        return tuple(column for field in self.fields.values() for column in field.columns)


def table_of(record: Any) -> Table[Any]:
    return INSTANCES if isinstance(record, Instance) else PROVISIONS


def _plain(column: str) -> Field:
    return Field((column,), lambda value: (value,))


def _time(column: str) -> Field:
    return Field((column,), lambda at: (to_micros_or_null(at),))


def _word(column: str) -> Field:
    # The bare text: sqlite3 asks its adapters about every subclass of str, which costs more than the write of it.
    return Field((column,), lambda member: (member.value,))


def _json(column: str) -> Field:
    return Field((column,), lambda value: (json.encode(value).decode(),))


def _encode_debt(debt: Debt | None) -> Row:
    return (None, None) if debt is None else (debt.kind.value, to_micros(debt.due_at))


_DEBT = Field(("owes_kind", "owes_due"), _encode_debt)


def _decode_debt(kinds: type[StrEnum], kind: str | None, due: int | None) -> Debt | None:
    return None if kind is None or due is None else Debt(kinds(kind), from_micros(due))


def _decode_instance(row: Row) -> Instance:
    id_, state, version, threshold, run_id, round_, provision_id, attested, *rest = row
    trust_domain, generation, resource_class, type_, usage, cpu, mem, offered_at, owes_kind, owes_due, purge_at = rest
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
        _from_micros_or_null(offered_at),
        _decode_debt(instance.Owed, owes_kind, owes_due),
        _from_micros_or_null(purge_at),
    )


def _decode_provision(row: Row) -> Provision:
    id_, state, version, run_id, want, _, needs, deadline, max_runtime, fleets, members, reason, *rest = row
    owes_kind, owes_due, purge_at = rest
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
        _from_micros_or_null(purge_at),
    )


INSTANCES: Table[Instance] = Table(
    "instances",
    {
        "id": _plain("id"),
        "state": _word("state"),
        "version": _plain("version"),
        "threshold": _time("threshold"),
        "run_id": _plain("run_id"),
        "round": _plain("round"),
        "provision_id": _plain("provision_id"),
        "attested": Field(("attested",), lambda attested: (int(attested),)),
        "trust_domain": _plain("trust_domain"),
        "image_generation": _plain("image_generation"),
        "resource_class": _plain("resource_class"),
        "instance_type": _plain("instance_type"),
        "usage_class": _word("usage_class"),
        "cpu": _plain("cpu"),
        "mem": _plain("mem"),
        "offered_at": _time("offered_at"),
        "owes": _DEBT,
        "purge_at": _time("purge_at"),
    },
    _decode_instance,
)

PROVISIONS: Table[Provision] = Table(
    "provisions",
    {
        "id": _plain("id"),
        "state": _word("state"),
        "version": _plain("version"),
        "run_id": _plain("run_id"),
        "want": _plain("want"),
        # The class beside the rest: open provisions are found by it.
        "needs": Field(("resource_class", "needs"), lambda needs: (needs.resource_class, json.encode(needs).decode())),
        "deadline": _time("deadline"),
        "max_runtime": _plain("max_runtime"),
        "fleets": _json("fleets"),
        "members": _json("members"),
        "reason": _plain("reason"),
        "owes": _DEBT,
        "purge_at": _time("purge_at"),
    },
    _decode_provision,
)

STORY_COLUMNS = "version, step, state, at, by, why"


def encode_line(line: StoryLine) -> Row:
    return line.version, line.step, line.state, to_micros(line.at), line.by, line.why


def decode_line(row: Row) -> StoryLine:
    version, step, state, at, by, why = row
    return StoryLine(version, step, state, from_micros(at), by, why)
