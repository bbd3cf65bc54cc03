"""Loading of the settings: command line over environment over `bullpen.toml` over the defaults.

Every setting has one dotted name, the table and key of the file: `timings.claim-grace`, `classes.small.idle-target`.
The variable follows by rule: `BULLPEN_TIMINGS_CLAIM_GRACE`, `BULLPEN_CLASSES_SMALL_IDLE_TARGET`. A class in the file
adds to the built-in classes; one with the name of a built-in class keeps the built-in values that it does not set.
Scale sets exist only if the file has them: `github.scale-sets.medium.min` is `BULLPEN_GITHUB_SCALE_SETS_MEDIUM_MIN`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT

from bullpen.config import Settings
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.settings.setting import CLASSES, SCALE_SETS, known_settings, put
from bullpen.settings.sources import Value, Values, from_environment, from_file, from_options, parse_file, table_names
from bullpen.settings.validation import contradictions

FILE = "bullpen.toml"


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from another source, with tables and keys as in the file. Messages name the source by `origin`."""

    origin: str
    document: Mapping[str, Any]


NOTHING = Layer("", {})


@dataclass(frozen=True, slots=True)
class Publication:
    """The settings that refresh published in the pool's table, with tables and keys as in the file; empty if there are
    none. `version` is the version of Bullpen that published them."""

    document: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and each value with its origin by dotted name. `file` is None if no file was read."""

    settings: Settings
    values: Values
    file: Path | None


def load(
    environ: Mapping[str, str],
    *,
    config: str = "",
    assignments: Iterable[str] = (),
    above: Layer = NOTHING,
    beneath: Layer = NOTHING,
    looks_here: bool = True,
) -> Loaded:
    """Read all four sources.

    The file is `config`, else `BULLPEN_CONFIG`, else `./bullpen.toml` if `looks_here`. `assignments` are the
    `NAME=VALUE` of the command line. `above` wins over all sources, and all sources win over `beneath`.

    Raise ConfigError for an invalid value, and for settings that contradict each other.
    """
    file = settings_file(environ, config, looks_here=looks_here)
    values = collect(environ, file, assignments, above, beneath)
    if missing := [name for name, found in values.items() if found.value is NODEFAULT]:
        remedy = "Set cpu (number of processors) and mem (MiB) of the class."
        if missing[0].startswith(f"{SCALE_SETS}."):
            remedy = 'Set it to "trusted" (no pull requests) or to "any" (their runners never serve trusted runs).'
        raise ConfigError(f"{file or above.origin}: {missing[0]} is required and not set", remedy=remedy)
    settings = _built(values)
    if wrong := list(contradictions(settings)):
        raise ConfigError(f"{_places(values)}: {'; '.join(wrong)}", remedy="Change one of these values.")
    return Loaded(settings, values, file)


def settings_file(environ: Mapping[str, str], config: str, *, looks_here: bool) -> Path | None:
    named = config or environ.get("BULLPEN_CONFIG", "")
    return Path(named or FILE) if named or (looks_here and Path(FILE).exists()) else None


def collect(
    environ: Mapping[str, str], file: Path | None, assignments: Iterable[str], above: Layer, beneath: Layer
) -> Values:
    """Every setting with its value and origin, each validated separately. A setting that is not set and has no default
    is NODEFAULT."""
    layers = [beneath, Layer(str(file), parse_file(file)) if file else NOTHING]

    def tables(family: str) -> list[str]:
        return [name for one in (*layers, above) for name in table_names(one.document, one.origin, family)]

    known = known_settings(dict.fromkeys([*Settings().classes, *tables(CLASSES)]), dict.fromkeys(tables(SCALE_SETS)))
    values = {name: Value(setting.default, "default") for name, setting in known.items()}
    for one in layers:
        values |= from_file(one.document, one.origin, known)
    values |= from_environment(environ, known)
    values |= from_options(assignments, known)
    values |= from_file(above.document, above.origin, known)
    return {name: values[name] for name in known}


def _built(values: Values) -> Settings:
    tree: dict[str, Any] = {}
    for name, (value, _) in values.items():
        put(tree, name, value)
    return msgspec.convert(tree, Settings)


def _places(values: Values) -> str:
    """The sources that set anything: one of them contains the contradiction."""
    return ", ".join(dict.fromkeys(found.origin for found in values.values() if found.origin != "default"))
