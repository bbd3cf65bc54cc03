"""A frozen record behaves as one of the standard library, and its code is compiled when it is first used."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A record with every kind of field."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    marks: dict[str, int] = field(default_factory=dict, compare=False)
    secret: str = field(default="", repr=False)

    @property
    def doubled(self) -> int:
        return 2 * self.x


@dataclass(frozen=True, slots=True)
class Deep(Point):
    z: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True)
class Named:
    """A record with methods of its own."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(frozen=True, slots=True, repr=False)
class Quiet:
    password: str


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    """The same record as the standard library makes it."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    marks: dict[str, int] = field(default_factory=dict, compare=False)
    secret: str = field(default="", repr=False)


CALLS: list[Callable[[Any], Any]] = [
    lambda cls: cls(1),
    lambda cls: cls(1, 2, {"a": 1}, "s"),
    lambda cls: cls(y=3, x=1),
    lambda cls: cls(),
    lambda cls: cls(1, 2, {}, "", 5),
    lambda cls: cls(1, z=2),
    lambda cls: asdict(cls(1, 2)),
    lambda cls: replace(cls(1, 2), y=7),
    lambda cls: replace(cls(1), w=7),
    lambda cls: cls(1) == cls(1),
    lambda cls: cls(1, marks={"a": 1}) == cls(1),
    lambda cls: cls(1) == (1, 0),
    lambda cls: cls(1) != cls(2),
    lambda cls: len({cls(1), cls(1), cls(2)}),
    lambda cls: [one.name for one in fields(cls)],
    lambda cls: cls.__match_args__,
    lambda cls: cls.kind,
    lambda cls: setattr(cls(1), "x", 2),
    lambda cls: delattr(cls(1), "x"),
    lambda cls: cls(1).__dict__,
]


@pytest.mark.parametrize("call", CALLS)
def test_a_record_answers_as_one_of_the_standard_library(call: Callable[[Any], Any]) -> None:
    def answer(cls: Any) -> str:
        try:
            found = call(cls)
        except (TypeError, AttributeError) as exc:
            found = f"{type(exc).__name__}: {exc}"
        return str(found).replace("StandardPoint", "Point")

    assert answer(Point) == answer(StandardPoint)


def test_the_default_of_a_factory_is_made_for_each_record() -> None:
    assert Point(1).marks is not Point(1).marks


def test_a_record_that_extends_another_has_the_fields_of_both() -> None:
    assert repr(Deep(1, z=3)) == "Deep(x=1, y=0, marks={}, z=3)"
    assert Deep(1, z=3) != Point(1)
    assert Deep(4).doubled == 8


def test_records_without_fields_are_equal() -> None:
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_methods_that_a_class_defines_itself_stay() -> None:
    assert Named("A") == Named("a")
    assert len({Named("A"), Named("a")}) == 1
    assert repr(Named("A")) == "<A>"


def test_a_record_that_is_never_shown_does_not_show_its_fields() -> None:
    assert "hunter2" not in repr(Quiet("hunter2"))


def test_a_record_matches_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_is_equal(again: Callable[[Point], Point]) -> None:
    original = Point(1, 2, {"a": 1}, "s")
    assert again(original) == original
    assert again(original).marks == {"a": 1}
    with pytest.raises(FrozenInstanceError):
        again(original).x = 3  # type: ignore[misc]


def test_init_is_compiled_with_the_first_instance_and_not_before() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        value: int

    assert Fresh.__init__.__code__.co_flags & 0x04  # takes any arguments: it only knows how to compile
    Fresh(1)
    assert Fresh.__init__.__code__.co_varnames == ("self", "value")


@pytest.mark.parametrize("field_of", [field(init=False, default=7), field(kw_only=True)])
def test_a_field_that_is_no_argument_by_position_is_refused(field_of: Any) -> None:
    with pytest.raises(TypeError, match="every field of such a class is an argument by position"):
        dataclass(frozen=True, slots=True)(type("Odd", (), {"__annotations__": {"value": int}, "value": field_of}))


def test_one_compared_field_is_compared_as_several_are() -> None:
    @dataclass(frozen=True, slots=True)
    class Measured:
        value: float

    same = float("nan")
    assert Measured(same) == Measured(same)
