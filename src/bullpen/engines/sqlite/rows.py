"""Records as rows of their tables, and back.

    a field             a column of the same name, typed by the dataclass; a new field needs a column and nothing here
    times               whole microseconds since 1970, UTC
    enums, flags        their value, 0 or 1
    tuples, dataclasses JSON
    exceptions          stated with each table below: another name, or several columns for one field

A `Table` derives its columns once, when this module is loaded. Reading a row then costs one call for each column whose
value SQLite does not store as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from msgspec import json

from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance, provision, scale_set
from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import Place, Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.ticket import Requirements
from bullpen.model.times import EPOCH, MICROSECOND, from_micros, to_micros
from bullpen.model.transition import Debt, Record, StoryLine
from bullpen.model.worker import Card, Worker

Row = tuple[Any, ...]
R = TypeVar("R", bound=Record)


# ---- values


def to_micros_or_null(at: datetime | None) -> int | None:
    return None if at is None else (at - EPOCH) // MICROSECOND


def from_micros_or_null(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


class _Members(dict[str, StrEnum]):
    """The members of an enum by their values: a fraction of the cost of calling the enum."""

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__((member.value, member) for member in kind)
        self._kind = kind

    def __missing__(self, value: str) -> StrEnum:
        return self._kind(value)  # raises ValueError, which names the value and the enum


# ---- fields and tables


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """The columns that hold one field of a record. `decode` takes their values; None: the one value as it is."""

    columns: tuple[str, ...]
    encode: Callable[[Any], Row]
    decode: Callable[..., Any] | None = None


def _columns_for(kind: Any, column: str) -> FieldColumns:
    """The column of a field, by the type in its annotation."""
    if get_origin(kind) is UnionType:  # X | None: NULL
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if kind in (str, int, float):
        return FieldColumns((column,), lambda value: (value,))
    if kind is bool:
        return FieldColumns((column,), lambda flag: (int(flag),), lambda stored: stored == 1)
    if kind is datetime:
        return FieldColumns((column,), lambda at: (to_micros_or_null(at),), from_micros_or_null)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        # The bare text: sqlite3 asks its adapters about every subclass of str, which costs more than the write of it.
        return FieldColumns((column,), lambda member: (member.value,), _Members(kind).__getitem__)
    if get_origin(kind) is tuple or is_dataclass(kind):
        read = json.Decoder(kind).decode
        return FieldColumns(
            (column,),
            lambda value: (None if value is None else json.encode(value).decode(),),
            lambda stored: None if stored is None else read(stored),
        )
    raise TypeError(f"{column}: a column for {kind} must be stated")


class Table(Generic[R]):
    """One kind of record: its table, and the columns of each field."""

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        names: Mapping[str, str] | None = None,
        stated: Mapping[str, FieldColumns] | None = None,
        derived: Mapping[str, Callable[[R], Any]] | None = None,
    ) -> None:
        """`names` are columns named differently, `stated` fields that their types do not describe, `derived` columns
        that are no field but follow from the record, and are written with it."""
        hints = get_type_hints(record)
        self.name = name
        self.fields: Mapping[str, FieldColumns] = {
            name: (stated or {}).get(name) or _columns_for(hints[name], (names or {}).get(name, name))
            for name in (each.name for each in fields(record))  # type: ignore[arg-type]
        }
        self.derived: Mapping[str, Callable[[R], Any]] = derived or {}
        # The first column of every field, in the order of the fields; then the further columns of those with several.
        self.columns = tuple(field.columns[0] for field in self.fields.values())
        self._record = record
        self._single: list[tuple[int, Callable[[Any], Any]]] = []
        self._several: list[tuple[int, slice, Callable[..., Any]]] = []
        for index, field in enumerate(self.fields.values()):
            further = slice(len(self.columns), len(self.columns) + len(field.columns) - 1)
            self.columns += field.columns[1:]
            if field.decode is not None and len(field.columns) == 1:
                self._single.append((index, field.decode))
            elif field.decode is not None:
                self._several.append((index, further, field.decode))

    def decode(self, row: Row) -> R:
        """The record in a row of `columns`."""
        values = list(row[: len(self.fields)])
        for index, decode in self._single:
            values[index] = decode(values[index])
        for index, further, decode in self._several:
            values[index] = decode(values[index], *row[further])
        return self._record(*values)


# ---- the tables


def _debt_columns(kinds: type[StrEnum]) -> FieldColumns:
    members = _Members(kinds)

    def encode(debt: Debt | None) -> Row:
        return (None, None) if debt is None else (debt.kind.value, to_micros(debt.due_at))

    def decode(kind: str | None, due: int | None) -> Debt | None:
        return None if kind is None or due is None else Debt(members[kind], from_micros(due))

    return FieldColumns(("owes_kind", "owes_due"), encode, decode)


def _encode_place(place: Place | None) -> Row:
    return (None, None, None) if place is None else (place.cap, to_micros(place.since), to_micros(place.until))


def _decode_place(cap: str | None, since: int | None, until: int | None) -> Place | None:
    if cap is None or since is None or until is None:
        return None
    return Place(cap, from_micros(since), from_micros(until))


_REQUIREMENTS = json.Decoder(Requirements)

INSTANCES = Table(
    "instances",
    Instance,
    stated={"owes": _debt_columns(instance.InstanceDebt)},
    derived={"due_at": lambda record: to_micros_or_null(record.due_at)},
)

PROVISIONS = Table(
    "provisions",
    Provision,
    stated={
        # The class beside the rest: open provisions are found by it.
        "needs": FieldColumns(
            ("needs", "resource_class"),
            lambda needs: (json.encode(needs).decode(), needs.resource_class),
            lambda needs, resource_class: _REQUIREMENTS.decode(needs),
        ),
        "owes": _debt_columns(provision.ProvisionDebt),
        "place": FieldColumns(("waits_for", "waits_since", "waits_until"), _encode_place, _decode_place),
    },
    derived={"due_at": lambda record: to_micros_or_null(record.due_at)},
)

WORKERS = Table("workers", Worker)

JOBS = Table("jobs", Job, names={"index": "job_index"})  # `index` is a word of SQL

CONTROLS = Table("controls", Control)

SCALE_SETS = Table("scale_sets", ScaleSet, stated={"owes": _debt_columns(scale_set.SetDebt)})

SET_SESSIONS = Table("set_sessions", SetSession)

REPOSITORIES = Table("repositories", Repository)

PAUSES = Table("pauses", Pause)

ROTATIONS = Table("rotations", Rotation)


# ---- beside the records


STORY_COLUMNS = "version, step, state, at, by, why, run_id, repository"

_CARD = json.Decoder(Card)


def encode_line(line: StoryLine) -> Row:
    return line.version, line.step, line.state, to_micros(line.at), line.by, line.why, line.run_id, line.repository


def decode_line(row: Row) -> StoryLine:
    version, step, state, at, *told = row
    return StoryLine(version, step, state, from_micros(at), *told)


def encode_card(card: Card) -> str:
    return json.encode(card).decode()


def decode_card(text: str) -> Card:
    return _CARD.decode(text)
