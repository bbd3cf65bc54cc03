"""`dataclass` for frozen records, compiled on first use.

The standard library writes and compiles six methods for each frozen class while its module is imported. A command loads
more than a hundred such classes and makes instances of some, and so does each agent: that took a third of the time
until they began to work. Here all classes share the methods that need no code of their own, and `__init__` is compiled
when the first instance is made. Everything else is the standard library's: `field`, `fields`, `replace`, `asdict`,
slots and pattern matching.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from typing import Any, NoReturn
else:

    def dataclass(*, frozen=False, slots=False, repr=True, eq=True):
        """As `dataclasses.dataclass`. Classes that are not frozen, or have no slots, are left to it."""
        if frozen and slots and eq:
            return lambda cls: _frozen(cls, shows_fields=repr)
        return dataclasses.dataclass(frozen=frozen, slots=slots, repr=repr, eq=eq)


def _frozen(cls: type[Any], *, shows_fields: bool) -> type[Any]:
    own = cls.__dict__
    cls.__doc__ = cls.__doc__ or cls.__name__  # the standard library would inspect the signature to write one
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for one in fields(made):
        if not one.init or one.kw_only or one.name == "self":
            raise TypeError(f"{cls.__qualname__}.{one.name}: every field of such a class is an argument by position")
    compared = [one.name for one in fields(made) if one.compare]
    methods: dict[str, Any] = {
        "_compared": _values_of(compared),
        "__init__": _compiled_on_first_use(made),
        "__eq__": _is_equal,
        "__hash__": _hash,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _state,
        "__setstate__": _restore,
    }
    if shows_fields:
        methods["__repr__"] = _shown
    for name, method in methods.items():
        if name not in own or own[name] is None:  # Python sets `__hash__` to None beside an `__eq__`
            setattr(made, name, method)
    return made


def _compiled_on_first_use(cls: type[Any]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        compiled = _compiled(cls)
        cls.__init__ = compiled
        compiled(self, *args, **kwargs)

    return __init__


def _compiled(cls: type[Any]) -> Callable[..., None]:
    """An `__init__` with the arguments of the fields. It sets slots directly, because assignment is refused."""
    known: dict[str, Any] = {"_missing": MISSING}
    arguments, lines = ["self"], []
    for one in fields(cls):
        name, value = one.name, one.name
        known[f"_set_{name}"] = getattr(cls, name).__set__
        if one.default is not MISSING:
            known[f"_default_{name}"] = one.default
            arguments.append(f"{name}=_default_{name}")
        elif one.default_factory is not MISSING:
            known[f"_make_{name}"] = one.default_factory
            arguments.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            arguments.append(name)
        lines.append(f"    _set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    source = f"def __init__({', '.join(arguments)}):\n" + ("\n".join(lines) or "    pass")
    exec(source, known)
    compiled: Callable[..., None] = known["__init__"]
    compiled.__qualname__ = f"{cls.__qualname__}.__init__"  # in the message about a missing argument
    return compiled


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads these fields of a record, always as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda record: tuple(getattr(record, name) for name in names)


def _is_equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = self.__class__._compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self.__class__._compared(self))


def _shown(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_assignment(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
