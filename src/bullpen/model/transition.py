"""The one way to change a record: a pure step proposes a `Change`; a store writes it or raises `Conflict`.

A step gets a frozen record and an event, which carries the time and every random value. It returns the record
afterwards and the guards under which the write may land. A store writes only the difference, under

    version = before.version  AND  state = before.state  AND  every guard

so of two writers that read the same record only one lands. A record built from a ticket (which may be forged, stale or
written by an older program) is still checked against what is stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, fields, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Generic, Literal, NoReturn, Protocol, TypeVar, dataclass_transform

from bullpen.errors import Conflict, InvalidTransition
from bullpen.lazy_dataclass import dataclass


class Record(Protocol):
    """What every record has: an id, a state and a version that each landed step raises by one."""

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> StrEnum: ...
    @property
    def version(self) -> int: ...


S = TypeVar("S", bound=Record)
E = TypeVar("E", bound="AnyEvent")


class AnyEvent(Protocol):
    """What a step reads of every event: see `Event`."""

    @property
    def at(self) -> datetime: ...
    @property
    def by(self) -> str: ...
    @property
    def why(self) -> str: ...


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Frozen:
    """A frozen value with arguments by name, as a dataclass is. There are half a hundred kinds of events, and every
    command would wait for the code that `dataclass` generates and compiles for each."""

    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = cls.__annotations__
        cls._names = cls._names | own.keys()
        cls._defaults = cls._defaults | {name: getattr(cls, name) for name in own if hasattr(cls, name)}

    def __init__(self, **given: Any) -> None:
        values = self._defaults | given
        if values.keys() != self._names:
            wrong = ", ".join(sorted(values.keys() ^ self._names))
            raise TypeError(f"{type(self).__name__}: missing or unknown: {wrong}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in sorted(self._names))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Event(_Frozen):
    """Something that happened: when, by which process and why. It becomes a line of the record's story.

    Every subclass is frozen, with arguments by name.
    """

    at: datetime
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on a stored field, beyond the version: `is` a value, `in` some values, or `after` a time."""

    field: str
    test: Literal["is", "in", "after"]
    value: Any

    def holds(self, record: Record) -> bool:
        stored = getattr(record, self.field)
        match self.test:
            case "is":
                return bool(stored == self.value)
            case "in":
                return stored in self.value
            case "after":
                return stored is not None and bool(stored > self.value)

    def __str__(self) -> str:
        return f"{self.field} {self.test} {self.value!r}"


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on a record of the type `kind` that is not changed: it must hold in the same write."""

    kind: type[Any]
    id: str
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Debt:
    """Work that a record owes, written in the step that made it due: a crash leaves a debt, never a leak."""

    kind: StrEnum
    due_at: datetime


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One landed step of a record, as `bullpen why` shows it. A step that draws a round also names the run to which the
    record then belongs, and the repository of that run."""

    version: int
    step: str
    state: str
    at: datetime
    by: str
    why: str
    run_id: str = ""
    repository: str = ""


STORY_LENGTH = 16
"""How many steps a record remembers: two rounds of claim, commit, release and offer, and what went wrong between."""


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """A proposed step: the record before and after, the guards, and the line of the story.

    `draws_round` says that the step writes a fresh random round. A store that finds `after.round` already stored has
    found this very change, landed by an attempt whose answer was lost, and reports success. The fields of `always` are
    written even if `before` has them already: a ticket may say so wrongly.
    """

    step: str
    before: S
    after: S
    guards: tuple[Guard, ...]
    line: StoryLine | None
    draws_round: bool = False
    always: tuple[str, ...] = ()

    def difference(self) -> dict[str, Any]:
        """The fields that the write sets, by name; always contains the version."""
        names, values = _fields_of(type(self.after))
        pairs = zip(names, values(self.after), values(self.before), strict=True)
        return {name: new for name, new, old in pairs if new != old or name in self.always}


@lru_cache(maxsize=16)
def _fields_of(kind: type[Any]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    names = tuple(field.name for field in fields(kind))
    return names, attrgetter(*names)


@dataclass(frozen=True, slots=True)
class Transition(Generic[S, E]):
    """A named step with its source states and its target, callable as `step(record, event)`."""

    step: str
    sources: tuple[StrEnum, ...]
    target: StrEnum | None  # None: the record stays in its state
    draws_round: bool
    always: tuple[str, ...]
    silent: bool
    body: Callable[[S, E], tuple[S, tuple[Guard, ...]]]
    doc: str

    def __call__(self, subject: S, event: E) -> Change[S]:
        if subject.state not in self.sources:
            raise InvalidTransition(subject.id, self.step, subject.state)
        after, guards = self.body(subject, event)
        for guard in guards:
            if not guard.holds(subject):
                raise Conflict(f"{subject.id}: {self.step} needs {guard}", found=subject)
        version, target = subject.version + 1, self.target or subject.state
        after = replace(after, state=target, version=version)  # type: ignore[type-var]
        owned = (getattr(after, "run_id", ""), getattr(after, "repository", "")) if self.draws_round else ()
        told = (version, self.step, target.value, event.at, event.by, event.why, *owned)
        line = None if self.silent else StoryLine(*told)
        return Change(self.step, subject, after, guards, line, self.draws_round, self.always)


def transition(
    *sources: StrEnum,
    to: StrEnum | None,
    draws_round: bool = False,
    always: tuple[str, ...] = (),
    silent: bool = False,
) -> Callable[[Callable[[S, E], tuple[S, tuple[Guard, ...]]]], Transition[S, E]]:
    """Make a step of a function `(record, event) -> (record afterwards, guards)`. A `silent` one leaves no line."""

    def wrap(body: Callable[[S, E], tuple[S, tuple[Guard, ...]]]) -> Transition[S, E]:
        return Transition(body.__name__, sources, to, draws_round, always, silent, body, (body.__doc__ or "").strip())

    return wrap


def steps_in(names: Mapping[str, object]) -> tuple[Transition[Any, Any], ...]:
    """The steps of a module, in the order of the file."""
    return tuple(found for found in names.values() if isinstance(found, Transition))


def taking(record: S, event: Event, **more: Any) -> S:
    """The record with every field that the event has under the same name, and with `more`."""
    known, _ = _fields_of(type(record))
    taken = {name: value for name, value in vars(event).items() if name in known}
    return replace(record, **taken | more)  # type: ignore[type-var]
