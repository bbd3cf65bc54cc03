"""Loading the settings: command line over environment over `bullpen.toml` over the default.

Every setting has one dotted name, the table and key of the file: `timings.claim-grace`, `classes.small.idle-target`.
Its variable follows by rule: `BULLPEN_TIMINGS_CLAIM_GRACE`, `BULLPEN_CLASSES_SMALL_IDLE_TARGET`. A class in the file
adds to the built-in ones, and one of the same name takes from the built-in what it does not say itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.settings.contradictions import contradictions
from bullpen.settings.setting import known_settings
from bullpen.settings.sources import Value, Values, class_names, from_environment, from_file, from_options, parse_file

FILE = "bullpen.toml"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and each value with its origin by dotted name. `file` is None if none was read."""

    settings: Settings
    values: Values
    file: Path | None


def load(environ: Mapping[str, str], *, config: str = "", assignments: Iterable[str] = ()) -> Loaded:
    """Read all four places. `config` names the file, before `BULLPEN_CONFIG` and `./bullpen.toml`; `assignments` are
    `NAME=VALUE` of the command line.

    Raise ConfigError for whatever cannot be meant, and for settings that contradict each other.
    """
    named = config or environ.get("BULLPEN_CONFIG", "")
    file = Path(named or FILE) if named or Path(FILE).exists() else None
    document = parse_file(file) if file else {}
    classes = [*Settings().classes, *(class_names(document, file) if file else ())]
    known = known_settings(dict.fromkeys(classes))
    values = {name: Value(setting.default, "default") for name, setting in known.items() if setting.has_default}
    values |= from_file(document, file, known) if file else {}
    values |= from_environment(environ, known)
    values |= from_options(assignments, known)
    if missing := [name for name in known if name not in values]:
        remedy = "A class needs cpu (how many) and mem (in MiB)."
        raise ConfigError(f"{file}: {missing[0]} is not set and has no default", remedy=remedy)
    settings = _built(values)
    if wrong := list(contradictions(settings)):
        raise ConfigError(f"{_places(values)}: {'; '.join(wrong)}", remedy="Change one of the values named.")
    return Loaded(settings, {name: values[name] for name in known}, file)


def _built(values: Values) -> Settings:
    tree: dict[str, Any] = {"classes": {}}
    for name, (value, _) in values.items():
        table, _, key = name.rpartition(".")
        kind = table.removeprefix("classes.")
        branch = tree["classes"].setdefault(kind, {}) if kind != table else tree.setdefault(table, {})
        branch[key] = value
    return msgspec.convert(tree, Settings)


def _places(values: Values) -> str:
    """Where something was set at all: one of these places holds the contradiction."""
    return ", ".join(dict.fromkeys(found.origin for found in values.values() if found.origin != "default"))
