"""Reading the inputs: all are validated before any work, and each error names the input, its value and what is allowed.

GitHub passes a composite action everything that the workflow has under `with`, including misspelt names, which are
refused here. An input that the workflow does not set arrives as an empty text; an empty text is never a value.
"""

import difflib
import json
from collections.abc import Mapping
from typing import Any

from bullpen.action.aliases import ALIASES, Alias
from bullpen.action.input_specs import INPUTS, MODES, NO_MODES, PROVISION
from bullpen.action.input_types import Unreadable
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass

UNCHANGED = "Use the action unchanged: its action.yml passes the inputs on."
SHOWN = 60  # characters of a value in a message: enough to recognise it


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The parsed inputs. `given` has the values by Bullpen's names, `spoken` the names that the workflow used, and
    `word` its name for the mode."""

    mode: str
    word: str
    given: Mapping[str, Any]
    spoken: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.given.get(name, otherwise)


class Refusals(ConfigError):
    """All errors in the inputs at once, so that a workflow can be corrected in one go. `word` is the workflow's name
    for the mode; empty if it is not one."""

    def __init__(self, found: list[ConfigError], word: str = "") -> None:
        super().__init__(
            "; ".join(map(str, found)), remedy=" ".join(dict.fromkeys(e.remedy for e in found if e.remedy))
        )
        self.found = found
        self.word = word


def secrets_of(document: Mapping[str, str]) -> list[str]:
    """Values that must not be printed: secrets, values of misspelt names, which may be secrets, and credentials in the
    server's URL."""
    public = {name for name, one in INPUTS.items() if not one.secret} | {
        name for name, one in ALIASES.items() if not one.secret
    }
    found = [value.strip() for name, value in document.items() if name not in public and value.strip()]
    credentials, at, _ = document.get("server", "").strip().rpartition("@")
    if at:
        credentials = credentials.split("//", 1)[-1]
        found += [credentials, credentials.partition(":")[2] or credentials]
    return found


def document_of(text: str) -> dict[str, str]:
    """The inputs from GitHub's `toJSON(inputs)`, names in lower case, because GitHub ignores their case."""
    try:
        found = json.loads(text)
    except ValueError as exc:
        raise ConfigError("the inputs are not valid JSON", remedy=UNCHANGED) from exc
    if not isinstance(found, dict):
        raise ConfigError("the inputs are not a JSON object", remedy=UNCHANGED)
    return {str(name).lower(): "" if value is None else str(value) for name, value in found.items()}


def read(document: Mapping[str, str]) -> StepInputs:
    """The parsed inputs. Raise Refusals."""
    wrong: list[ConfigError] = [_unknown(name) for name in document if name not in INPUTS and name not in ALIASES]
    filled = {name: value.strip() for name, value in document.items() if value.strip()}
    mode, word = _mode(filled.get("mode", ""), wrong)
    raw: dict[str, tuple[str, str]] = {}  # Bullpen's name → the value, and the workflow's name
    notes: list[str] = []
    for name, value in filled.items():
        if name in INPUTS and name != "mode":
            _take(raw, name, value, name, wrong)
    for name, value in filled.items():
        if name in ALIASES:
            for own, meant in _meaning(ALIASES[name], value, notes, wrong).items():
                _take(raw, own, meant, name, wrong)
    given = {}
    for name, (value, said) in raw.items():
        if mode not in INPUTS[name].modes and name not in ("label-by", "label"):
            notes.append(f"{said} has no effect with mode {word}")
            continue
        try:
            given[name] = INPUTS[name].type.read(value)
        except Unreadable as exc:
            wrong.append(_refusal(name, said, value, str(exc)))
    if wrong:
        raise Refusals(wrong, word if word in MODES else "")
    return StepInputs(mode, word, given, {name: said for name, (_, said) in raw.items()}, tuple(notes))


def _mode(word: str, wrong: list[ConfigError]) -> tuple[str, str]:
    if word in MODES:
        return MODES[word], word
    if word in NO_MODES:
        wrong.append(ConfigError(f"mode {word}: is not supported", remedy=NO_MODES[word]))
    elif not word:
        wrong.append(ConfigError("mode: is required", remedy=f"Set it to one of {', '.join(MODES)}."))
    else:
        meant = difflib.get_close_matches(word, MODES, n=1)
        remedy = f"Did you mean {meant[0]}?" if meant else ""
        wrong.append(ConfigError(f"mode {_shown(word)}: must be one of {', '.join(MODES)}", remedy=remedy))
    return PROVISION, word


def _meaning(alias: Alias, value: str, notes: list[str], wrong: list[ConfigError]) -> Mapping[str, str]:
    """The names and values in Bullpen for an input of another action."""
    if alias.means:
        return {alias.means: value}
    if alias.values:
        if value.lower() in alias.values:
            return alias.values[value.lower()]
        allowed = f"must be one of {', '.join(alias.values)}"
        wrong.append(ConfigError(f"{alias.name} {_shown(value)}: {allowed}"))
    elif alias.instead and value.lower() not in alias.same:
        what = alias.name if alias.secret else f"{alias.name} {_shown(value)}"
        wrong.append(ConfigError(f"{what}: is not supported", remedy=alias.instead))
    elif alias.why:
        notes.append(f"{alias.name} is not needed: {alias.why}")
    return {}


def _take(raw: dict[str, tuple[str, str]], name: str, value: str, said: str, wrong: list[ConfigError]) -> None:
    """Store a value. Two names of one input must have the same value."""
    before, word = raw.setdefault(name, (value, said))
    if before == value or _same(name, before, value):
        return
    both = f"{_with(name, word, before)} and {_with(name, said, value)}"
    wrong.append(ConfigError(f"{both}: are the same input with different values", remedy=f"Keep only {name}."))


def _same(name: str, one: str, other: str) -> bool:
    try:
        return bool(INPUTS[name].type.read(one) == INPUTS[name].type.read(other))
    except Unreadable:
        return False  # the invalid value is refused separately


def _refusal(name: str, said: str, value: str, why: str) -> ConfigError:
    allowed = INPUTS[name].type.allowed
    return ConfigError(f"{_with(name, said, value)}: must be {allowed}" + (f" ({why})" if why else ""))


def _unknown(name: str) -> ConfigError:
    meant = difflib.get_close_matches(name, [*INPUTS, *ALIASES], n=1, cutoff=0.6)
    remedy = f"Did you mean {meant[0]}?" if meant else "See docs/migration.md for every input."
    return ConfigError(f"{_shown(name)}: no such input", remedy=remedy)


def _with(name: str, said: str, value: str) -> str:
    """An input with its value, unless that is a secret or a URL that may contain one."""
    is_secret = INPUTS[name].secret or (name == "server" and not {"@", "?", "#"}.isdisjoint(value))
    return said if is_secret else f"{said} {_shown(value)}"


def _shown(value: str) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
