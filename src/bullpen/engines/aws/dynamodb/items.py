"""Records as items of the one table, and back: pure, and shared with the agent.

    PK, SK              TYPE#<Kind>, ID#<id>
    a field             an attribute named in camelCase, typed by the dataclass; a new field needs nothing here
    absent              None, "" and False, where that is the field's default; `runId` is "" without a run
    times               UTC with six decimals, so that they sort as text
    story               a map of 16 slots, one line of the record's story in each

What follows from a record (its entries in the indexes, its time to live) is in `entries.py`. Every item is checked when
it is read: one that another program wrote is Refused, by key and attribute.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from bullpen.errors import Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance, provision, scale_set, worker
from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.signal import direct_key
from bullpen.model.ticket import parse_time
from bullpen.model.transition import STORY_LENGTH, StoryLine
from bullpen.model.worker import Worker

Value = dict[str, Any]  # as DynamoDB writes it: {"S": "text"}, {"N": "1"}, {"M": {...}}, ...
Item = dict[str, Value]
R = TypeVar("R")


def text(value: str) -> Value:
    return {"S": str(value)}


def number(value: float) -> Value:
    return {"N": repr(value)}


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---- values


YEARS = range(2000, 3000)
"""The years of Bullpen's times. What an instance writes of itself may name any other year, and sums with such a time
overflow."""

LARGEST, MOST_SECONDS = 10**30, 1e9
"""Beyond them a count does not fit into an item any more, and a time that many seconds away is none."""


def parse_moment(written: str) -> datetime:
    """Raise ValueError for anything else than a time in `YEARS`."""
    with suppress(OverflowError):
        if (at := parse_time(written)).year in YEARS:
            return at
    raise ValueError(f"time {written!r} is out of bounds")


def _parse_count(written: str) -> int:
    count = int(written)
    if abs(count) > LARGEST:
        raise ValueError(f"number {written} is out of bounds")
    return count


@dataclass(frozen=True, slots=True)
class Codec:
    """Both ways of one type. `decode` raises KeyError, TypeError or ValueError for what is something else."""

    encode: Callable[[Any], Value]
    decode: Callable[[Value], Any]


_PLAIN: dict[type[Any], Codec] = {
    str: Codec(text, lambda value: value["S"]),
    bool: Codec(lambda flag: {"BOOL": flag}, lambda value: value["BOOL"]),
    int: Codec(number, lambda value: _parse_count(value["N"])),
    float: Codec(number, lambda value: max(-MOST_SECONDS, min(float(value["N"]), MOST_SECONDS))),
    datetime: Codec(lambda at: text(moment(at)), lambda value: parse_moment(value["S"])),
}


def _codec(kind: Any, owed: type[StrEnum]) -> Codec:
    """Of a type as annotated. `owed` are the words of a debt, which each kind of record has of its own."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if get_origin(kind) is UnionType:  # X | None: None is absent
        (given,) = (each for each in get_args(kind) if each is not NoneType)
        return _codec(given, owed)
    if get_origin(kind) is tuple:
        members = _codec(get_args(kind)[0], owed)
        return Codec(
            lambda values: {"L": [members.encode(value) for value in values]},
            lambda value: tuple(members.decode(member) for member in value["L"]),
        )
    if is_dataclass(kind) and isinstance(kind, type):
        parts = _fields_of(kind, owed)
        return Codec(lambda part: {"M": _encode(parts, part)}, lambda value: kind(**_decode(parts, value["M"])))
    words = owed if kind is StrEnum else kind
    return Codec(lambda word: text(word.value), lambda value: words(value["S"]))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One field of a record as an attribute."""

    name: str
    attribute: str
    codec: Codec
    default: Any = MISSING

    def encode(self, value: Any) -> Value | None:
        """None: the attribute is absent."""
        blank = value is None or value is False or value == ""
        if blank and value == self.default and self.name != "run_id":
            return None
        return self.codec.encode(value)

    def decode(self, item: Mapping[str, Value]) -> Any:
        found = item.get(self.attribute)
        if found is None:
            if self.default is MISSING:
                raise ValueError(f"`{self.attribute}` is missing")
            return self.default
        try:
            return self.codec.decode(found)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as exc:
            raise ValueError(f"`{self.attribute}` is {str(found)[:80]}, which Bullpen cannot read") from exc


def _fields_of(record: type[Any], owed: type[StrEnum], names: Mapping[str, str] | None = None) -> dict[str, Attribute]:
    hints = get_type_hints(record)
    found = {}
    for each in fields(record):
        camel = re.sub(r"_(\w)", lambda initial: initial[1].upper(), each.name)
        attribute = (names or {}).get(each.name, camel)
        found[each.name] = Attribute(each.name, attribute, _codec(hints[each.name], owed), each.default)
    return found


def _encode(parts: Mapping[str, Attribute], record: Any) -> Item:
    values = ((part.attribute, part.encode(getattr(record, part.name))) for part in parts.values())
    return {attribute: value for attribute, value in values if value is not None}


def _decode(parts: Mapping[str, Attribute], item: Mapping[str, Value]) -> dict[str, Any]:
    return {part.name: part.decode(item) for part in parts.values()}


# ---- records


def _worker_to_key(id: str) -> str:
    """An instance that beats by itself lies under its own id: a heartbeat is found without knowing who sends it. Every
    other key has a slash inside or gets one at its end, so that it never meets the id of an instance."""
    instance_id, _, rest = id.partition("/")
    if id == direct_key(instance_id):
        return instance_id
    return id if rest and not id.endswith("/") else f"{id}/"


def _worker_of_key(id: str) -> str:
    return id.removesuffix("/") if "/" in id else direct_key(id)


@dataclass(frozen=True, slots=True)
class Shape:
    """How one kind of record lies in the table."""

    kind: str
    record: type[Any]
    fields: Mapping[str, Attribute]  # all but the id, which is in the key
    exists: str = "PK"  # the attribute that an item of this record has from its first write on
    to_key: Callable[[str], str] = str
    of_key: Callable[[str], str] = str
    unwritten: Mapping[str, Any] = field(default_factory=dict)  # what is so until the first write of the control plane


def _shape(
    kind: str, record: type[Any], *, owed: type[StrEnum] = StrEnum, names: Mapping[str, str] | None = None, **rest: Any
) -> Shape:
    parts = _fields_of(record, owed, names)
    del parts["id"]
    return Shape(kind, record, parts, **rest)


SHAPES: Mapping[type[Any], Shape] = {
    Instance: _shape("Instance", Instance, owed=instance.InstanceDebt),
    Provision: _shape("Provision", Provision, owed=provision.ProvisionDebt),
    Job: _shape("Job", Job),
    Control: _shape("Control", Control),
    ScaleSet: _shape("ScaleSet", ScaleSet, owed=scale_set.SetDebt),
    SetSession: _shape("SetSession", SetSession),
    Repository: _shape("Repository", Repository),
    Pause: _shape("Pause", Pause),
    Rotation: _shape("Rotation", Rotation),
    # The item is the heartbeat, and an agent that beats by itself writes it before the control plane has seen the
    # worker.
    Worker: _shape(
        "Heartbeat",
        Worker,
        # Its version is not called so: every beat changes it, and what index `live` holds must not change with it.
        names={"token": "seq", "beat_at": "updatedAt", "version": "rev"},
        exists="rev",
        to_key=_worker_to_key,
        of_key=_worker_of_key,
        unwritten={"state": worker.ACTIVE, "version": 0, "epoch": 1},
    ),
}


def key_of(record: type[Any], id: str) -> Item:
    shape = SHAPES[record]
    return raw_key(shape.kind, shape.to_key(id))


def raw_key(kind: str, id: str) -> Item:
    """The key of something that is no record: a signal, a registration, a marker."""
    return {"PK": text(f"TYPE#{kind}"), "SK": text(f"ID#{id}")}


def id_of(record: type[Any], item: Item) -> str:
    return SHAPES[record].of_key(raw_id(item))


def raw_id(item: Item) -> str:
    return str(item["SK"]["S"]).removeprefix("ID#")


def name_of(item: Item) -> str:
    """Where an item lies, for messages."""
    return f"{item['PK']['S']} / {item['SK']['S']}"


def encode(record: Any) -> Item:
    """Every attribute of the record's own; neither its key nor what follows from it."""
    return _encode(SHAPES[type(record)].fields, record)


class ForeignItem(Refused):
    """Another program wrote this item: it holds no record that Bullpen can read."""


def decode(record: type[R], item: Item) -> R:
    """The record in an item. Raise ForeignItem, naming the item and the attribute, if it holds none."""
    shape: Shape = SHAPES[record]
    bare = shape.unwritten if shape.exists not in item else {}
    try:
        found = {name: bare[name] if name in bare else part.decode(item) for name, part in shape.fields.items()}
    except ValueError as exc:
        raise ForeignItem(
            f"DynamoDB item {name_of(item)}: {exc}",
            remedy="Another program wrote it: repair or delete it, or give Bullpen a table of its own.",
        ) from exc
    made: R = shape.record(id=id_of(record, item), **found)
    return made


def encode_part(part: Any) -> Value:
    """Anything else that is a dataclass, such as a worker's card, as a map."""
    return _codec(type(part), StrEnum).encode(part)


def decode_part(kind: type[R], value: Value) -> R:
    """Raise ValueError if it is something else."""
    return Attribute("part", "part", _codec(kind, StrEnum), MISSING).decode({"part": value})  # type: ignore[no-any-return]


# ---- the story


_LINE = _codec(StoryLine, StrEnum)


def encode_line(line: StoryLine) -> Value:
    written = _LINE.encode(line)
    if not line.run_id:
        del written["M"]["runId"]  # most lines name no run, and a story has 16 of them
    return written


def slot_of(line: StoryLine) -> str:
    return str(line.version % STORY_LENGTH)


def decode_story(item: Item) -> list[StoryLine]:
    """Oldest first. A line that cannot be read is left out: a story explains, it decides nothing."""
    lines = []
    for value in item.get("story", {}).get("M", {}).values():
        try:
            lines.append(_LINE.decode(value))
        except (KeyError, TypeError, ValueError):
            continue
    return sorted(lines, key=lambda line: line.version)
