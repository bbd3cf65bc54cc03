"""The sources of settings: a file, the environment and the command line. Each source validates its values.

Unknown names and invalid values are refused with the source, the value, what is allowed and the most similar name: a
misspelt limit must not be ignored. The value of an unknown variable is not shown, because it may be another program's
token.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.settings.redaction import HIDDEN, shortened, shown, suggests_secret
from bullpen.settings.setting import CLASSES, FAMILIES, PREFIX, SCALE_SETS, Setting, nearest

LARGEST_FILE = 1 << 20  # bytes; a settings file has a few hundred
NOT_SETTINGS = (
    "BULLPEN_HOME",  # directory of the pool's state
    "BULLPEN_CONFIG",  # path of the settings file
    "BULLPEN_SERVER",  # URL of a `bullpen serve` that commands work on
    "BULLPEN_TOKEN",  # the token for it
    "BULLPEN_DEBUG",  # prints tracebacks
    "BULLPEN_REQUIRE_ENGINES",  # in tests a missing engine is a failure, not a skip
    # Set by agents for their jobs, which may call bullpen themselves:
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
    """The file as TOML, not yet validated. Raise ConfigError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as exc:
        remedy = "Set --config or BULLPEN_CONFIG to a readable file, or remove it."
        raise ConfigError(f"{file}: cannot be read ({exc.strerror})", remedy=remedy) from exc
    if len(content) > LARGEST_FILE:
        remedy = "Set --config or BULLPEN_CONFIG to a settings file."
        raise ConfigError(f"{file}: is larger than {LARGEST_FILE} bytes", remedy=remedy)
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError as exc:
        line = content[: exc.start].count(b"\n") + 1
        raise ConfigError(f"{file}: line {line} is not UTF-8", remedy="Save the file as UTF-8.") from exc
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"{file}: not valid TOML: {exc}", remedy="Correct the file at this position.") from exc


def table_names(document: Mapping[str, Any], origin: str, family: str) -> list[str]:
    """The tables of a family, such as the resource classes, that a file or a document like it contains."""
    tables: Any = document
    for key in family.split("."):
        tables = tables.get(key, {}) if isinstance(tables, Mapping) else {}
    names = list(tables) if isinstance(tables, Mapping) else []
    for name in names:
        if not re.fullmatch(limits.CLASS_NAME, name):
            kind = "class name" if family == CLASSES else "name of a table"
            raise ConfigError(f"{origin}: {family}: {shortened(name)}: a {kind} must be {limits.CLASS_NAME_ALLOWED}")
    return names


def from_file(document: Mapping[str, Any], origin: str, known: Known, above: str = "") -> Values:
    tables = {name.rpartition(".")[0] for name in known} | set(FAMILIES)
    found: Values = {}
    for key, value in document.items():
        name = f"{above}{key}"
        if name in known:
            found[name] = Value(known[name].checked(value, origin), origin)
        elif name not in tables:
            # The content of a table is not shown, because it may contain secrets.
            written = name if isinstance(value, dict | list) else f"{name} = {_guessed(name, value, known)}"
            raise _unknown(f"{origin}: {written}", name, [*known, *tables])
        elif not isinstance(value, dict):
            written = f"{name} = {_guessed(f'{name}.', value, known)}"
            raise ConfigError(f"{origin}: {written}: must be a table", remedy=f"Write [{name}].")
        else:
            found |= from_file(value, origin, known, f"{name}.")
    return found


def from_environment(environ: Mapping[str, str], known: Known) -> Values:
    """Every `BULLPEN_*` variable that is not empty. CI systems set empty variables for values that are not given."""
    by_variable: dict[str, Setting] = {}
    for setting in known.values():
        if (other := by_variable.setdefault(setting.variable, setting)) is not setting and setting.variable in environ:
            names = f"{other.name} and {setting.name}"
            raise ConfigError(f"{setting.variable}: is ambiguous: {names}", remedy="Set them in the file instead.")
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
            remedy = "Write it as in `--set timings.idle=600`."
            raise ConfigError(f"--set {written}: must be NAME=VALUE", remedy=remedy, field="--set")
        if name not in known:
            raise _unknown(f"--set {name}={_guessed(name, text, known)}", name, known)
        found[name] = Value(known[name].read(text, f"--set {name}"), "--set")
    return found


def _guessed(name: str, value: Any, known: Known) -> str:
    """The value of an unknown name. In a table with secrets the name may be a misspelt secret."""
    table = name.rpartition(".")[0]
    is_among_secrets = any(suggests_secret(other) for other in known if other.rpartition(".")[0] == table)
    return HIDDEN if is_among_secrets else shown(name, value)


def _unknown(where: str, name: str, known: Iterable[str]) -> ConfigError:
    meant = nearest(name, known)
    remedy = f"Did you mean {meant}?" if meant else "Run `bullpen config show` to list every setting."
    of_sets = (f"{SCALE_SETS}.", f"{PREFIX}GITHUB_SCALE_SETS_")
    if name.startswith(of_sets) and not meant.startswith(of_sets):
        remedy = f"Add the scale set to the file first, as [{SCALE_SETS}.NAME]."
    return ConfigError(f"{where}: no such setting", remedy=remedy)
