"""The places that settings come from: a file, the environment, the command line. Each checks what it holds.

Whatever is not understood is refused with the place, the value, what is allowed and the nearest known name: a misspelt
limit must not silently be no limit. Only an unknown variable is named without its value, which may be anything: a
token of some other program.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bullpen.config import NAME
from bullpen.errors import ConfigError
from bullpen.settings.redaction import HIDDEN, shortened, shown, suggests_secret
from bullpen.settings.setting import PREFIX, Setting, nearest

LARGEST_FILE = 1 << 20  # bytes; a settings file has a few hundred
NOT_SETTINGS = (
    "BULLPEN_HOME",  # where the state is: it decides which pool, not how it behaves
    "BULLPEN_CONFIG",  # where the settings are
    "BULLPEN_DEBUG",  # show tracebacks
    "BULLPEN_REQUIRE_ENGINES",  # tests: an engine that is missing is a failure, not a skip
    # What an agent tells its jobs, which may call bullpen themselves:
    "BULLPEN_INSTANCE",
    "BULLPEN_TASK",
    "BULLPEN_JOB_ID",
    "BULLPEN_RUN_ID",
)


class Value(NamedTuple):
    """A value and where it comes from: `default`, the file, the variable or the option."""

    value: Any
    origin: str


Known = dict[str, Setting]
Values = dict[str, Value]


def parse_file(file: Path) -> dict[str, Any]:
    """The file as TOML, its settings not yet checked."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as exc:
        remedy = "Name a readable file with --config or BULLPEN_CONFIG, or none at all."
        raise ConfigError(f"{file}: cannot be read ({exc.strerror})", remedy=remedy) from exc
    if len(content) > LARGEST_FILE:
        raise ConfigError(f"{file}: more than {LARGEST_FILE} bytes", remedy="Name a settings file with --config.")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as exc:
        line = content[: exc.start].count(b"\n") + 1
        raise ConfigError(f"{file}: line {line} is not UTF-8", remedy="Save the file as UTF-8.") from exc
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"{file}: not valid TOML: {exc}", remedy="Correct the file there.") from exc


def class_names(document: Mapping[str, Any], origin: str) -> list[str]:
    """The resource classes that a file, or whatever has its form, speaks of."""
    tables = document.get("classes", {})
    names = list(tables) if isinstance(tables, dict) else []
    for name in names:
        if not re.match(NAME, name):
            allowed = "1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
            raise ConfigError(f"{origin}: classes: {shortened(name)}: a class name must be {allowed}")
    return names


def from_file(document: Mapping[str, Any], origin: str, known: Known, above: str = "") -> Values:
    tables = {name.rpartition(".")[0] for name in known} | {"classes"}
    found: Values = {}
    for key, value in document.items():
        name = f"{above}{key}"
        if name in known:
            found[name] = Value(known[name].checked(value, origin), origin)
        elif name not in tables:
            # A table is not shown: it has names of its own, and may have secrets under them.
            written = name if isinstance(value, dict | list) else f"{name} = {_guessed(name, value, known)}"
            raise _unknown(f"{origin}: {written}", name, [*known, *tables])
        elif not isinstance(value, dict):
            written = f"{name} = {_guessed(f'{name}.', value, known)}"
            raise ConfigError(f"{origin}: {written}: must be a table", remedy=f"Write [{name}].")
        else:
            found |= from_file(value, origin, known, f"{name}.")
    return found


def from_environment(environ: Mapping[str, str], known: Known) -> Values:
    """Every `BULLPEN_*` variable that is set and not empty. CI systems pass on empty ones where nothing was meant."""
    by_variable: dict[str, Setting] = {}
    for setting in known.values():
        if (other := by_variable.setdefault(setting.variable, setting)) is not setting and setting.variable in environ:
            names = f"{other.name} and {setting.name}"
            raise ConfigError(f"{setting.variable}: stands for both {names}", remedy="Set them in the file.")
    found: Values = {}
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or not text:
            continue
        if variable not in by_variable:
            raise _unknown(variable, variable, [*by_variable, *NOT_SETTINGS])
        setting = by_variable[variable]
        found[setting.name] = Value(setting.read(text, variable), variable)
    return found


def from_options(assignments: Iterable[str], known: Known) -> Values:
    """`NAME=VALUE` as given to --set."""
    found: Values = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            written = shown(assignment, assignment)
            raise ConfigError(f"--set {written}: must be NAME=VALUE", remedy="Such as timings.idle=600.")
        if name not in known:
            raise _unknown(f"--set {name}={_guessed(name, text, known)}", name, known)
        found[name] = Value(known[name].read(text, f"--set {name}"), "--set")
    return found


def _guessed(name: str, value: Any, known: Known) -> str:
    """The value of a name that nobody knows. In a table that has secrets it may be one of them, misspelt."""
    table = name.rpartition(".")[0]
    is_among_secrets = any(suggests_secret(other) for other in known if other.rpartition(".")[0] == table)
    return HIDDEN if is_among_secrets else shown(name, value)


def _unknown(where: str, name: str, known: Iterable[str]) -> ConfigError:
    meant = nearest(name, known)
    remedy = f"Did you mean {meant}?" if meant else "`bullpen config show` lists every setting."
    return ConfigError(f"{where}: no such setting", remedy=remedy)
