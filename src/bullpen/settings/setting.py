"""One setting: dotted name, variable, default and allowed values, and the reading of a value or a text for it."""

import tomllib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect, structs

from bullpen.config import ResourceClass, ScaleSetSettings, Settings
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.settings.redaction import shown

PREFIX = "BULLPEN_"
CLASSES, SCALE_SETS = "classes", "github.scale-sets"
FAMILIES = (CLASSES, SCALE_SETS)
"""Tables of tables whose names the user chooses."""
TABLES = 100
"""Entries of a list of tables, such as the schedule of a class: more are a mistake of the program that writes them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """`name` is table and key of the file, `type` is validated by msgspec. A required setting has NODEFAULT."""

    name: str
    type: Any
    default: Any

    @property
    def variable(self) -> str:
        """The environment variable, which follows from the name by rule."""
        return PREFIX + self.name.translate(str.maketrans(".-", "__")).upper()

    def checked(self, value: Any, origin: str) -> Any:
        """The value as the settings store it, or ConfigError with the source, the value and what is allowed."""
        match inspect.type_info(self.type):
            case inspect.VarTupleType(item_type=inspect.StructType(cls=struct)):
                self._check_tables(value, struct, origin)
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as exc:
            found = f"{self.name} = {shown(self.name, value)}"
            raise ConfigError(f"{origin}: {found}: must be {described(self.type)}") from exc

    def read(self, text: str, origin: str) -> Any:
        """The value of a text from a variable or the command line, where lists are written with commas."""
        kind = inspect.type_info(self.type)
        value: Any = text
        has_tables = isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType)
        if has_tables or isinstance(kind, inspect.BoolType | inspect.IntType | inspect.FloatType | inspect.DictType):
            value = _parsed(text)
        elif isinstance(kind, inspect.VarTupleType):
            value = [part.strip() for part in text.split(",") if part.strip()]
        return self.checked(value, origin)

    def _check_tables(self, value: Any, struct: type[msgspec.Struct], origin: str) -> None:
        """Raise ConfigError that names the entry, counted from 1, and its field."""
        if not isinstance(value, list | tuple) or not all(isinstance(one, dict) for one in value):
            found = f"{origin}: {self.name} = {shown(self.name, value)}"
            raise ConfigError(
                f"{found}: must be {described(self.type)}", remedy=f"Write each one below [[{self.name}]]."
            )
        if len(value) > TABLES:
            raise ConfigError(f"{origin}: {self.name} has {len(value)} entries: must be at most {TABLES}")
        for place, table in enumerate(value, 1):
            where = f"{self.name}[{place}]"
            known = {
                key.encode_name: Setting(f"{where}.{key.encode_name}", key.type, key.default)
                for key in structs.fields(struct)
            }
            for key, given in table.items():
                if key not in known:
                    allowed = ", ".join(known)
                    meant = nearest(key, known)
                    remedy = f"Did you mean {meant}? An entry has {allowed}." if meant else f"An entry has {allowed}."
                    raise ConfigError(f"{origin}: {where}.{key}: no such setting", remedy=remedy)
                known[key].checked(given, origin)
            for key, setting in known.items():
                if setting.default is msgspec.NODEFAULT and key not in table:
                    raise ConfigError(
                        f"{origin}: {setting.name} is required and not set",
                        remedy=f"It must be {described(setting.type)}.",
                    )


def known_settings(classes: Iterable[str], scale_sets: Iterable[str] = ()) -> dict[str, Setting]:
    """Every setting by its dotted name, in the order of `config.py`, for these resource classes and scale sets."""
    defaults = Settings()
    known: list[Setting] = []
    for section in structs.fields(Settings):
        if section.name != CLASSES:
            known += _fields(section.encode_name, section.type, getattr(defaults, section.name))
    for name in scale_sets:
        known += _fields(f"{SCALE_SETS}.{name}", ScaleSetSettings, None)
    for name in classes:
        known += _fields(f"{CLASSES}.{name}", ResourceClass, defaults.classes.get(name))
    return {setting.name: setting for setting in known if setting.name not in FAMILIES}


def put(tree: dict[str, Any], name: str, value: Any) -> None:
    """Write the value of a setting into a tree like that of the file. The name of a class may contain dots."""
    table, _, key = name.rpartition(".")
    family = next((one for one in FAMILIES if table.startswith(f"{one}.")), "")
    tables = [*family.split("."), table.removeprefix(f"{family}.")] if family else [table]
    for one in tables:
        tree = tree.setdefault(one, {})
    tree[key] = value


def _fields(table: str, struct: type[msgspec.Struct], filled: msgspec.Struct | None) -> list[Setting]:
    return [
        Setting(f"{table}.{key.encode_name}", key.type, key.default if filled is None else getattr(filled, key.name))
        for key in structs.fields(struct)
    ]


def _parsed(text: str) -> Any:
    """The TOML value of a text; if it is not exactly one value, the text itself, which the validation refuses."""
    try:
        match tomllib.loads(f"value = {text.strip()}"):
            case {"value": value, **others} if not others:
                return value
    except (tomllib.TOMLDecodeError, RecursionError):
        pass
    return text


def described(type_: Any) -> str:
    """What a type allows, for messages."""
    match inspect.type_info(type_):
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}" if high is not None else f"a whole number from {low}"
        case inspect.BoolType():
            return "true or false"
        case inspect.FloatType(le=high) if high is not None and high <= 1000:
            return f"a number, more than 0 and at most {high:g}"
        case inspect.FloatType(le=high):
            return f"a number of seconds, more than 0 and at most {high}"
        case inspect.VarTupleType(item_type=inspect.StructType(fields=fields)):
            return f"a list of tables with {', '.join(one.encode_name for one in fields)}"
        case inspect.UnionType():
            return "a text or a list of texts"
        case inspect.VarTupleType():
            return "a list of texts"
        case inspect.DictType(value_type=inspect.VarTupleType()):
            return "a table of lists of texts"
        case inspect.DictType(value_type=inspect.FloatType(le=high)):
            return f"a table of numbers from 0 to {high}"
        case inspect.DictType():
            return "a table of texts"
        case inspect.LiteralType(values=allowed):
            return f"one of {', '.join(map(str, allowed))}"
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return "3 to 32 letters, digits and dashes, the first a letter"  # aws.pool, the only text with a pattern
    return "a text"


def nearest(name: str, known: Iterable[str]) -> str:
    """The most similar known name, or an empty text."""
    import difflib  # needed only for an error message

    known = list(known)
    last = [candidate for candidate in known if candidate.endswith(f".{name}")]
    return next(iter(last or difflib.get_close_matches(name, known, n=1, cutoff=0.6)), "")
