"""What a worker says in a heartbeat, and what of it is allowed; the rest is refused before anything is written."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bullpen.config import Liveness
from bullpen.errors import ConfigError
from bullpen.model.activity import LONGEST as LONGEST_ACTIVITY
from bullpen.model.worker import Card

LONGEST_KEY = 128
LONGEST_NAME = 128  # of an instance, a domain, a job, a capability, a build
LONGEST_VALUE = 1024  # of one extra
MOST_JOBS = 1000  # named in one list of one beat; more come with the next
MOST_ENTRIES = 64  # capabilities, and extras
LARGEST_NUMBER = 2**53  # what JSON carries exactly


@dataclass(frozen=True, slots=True)
class Binding:
    """A job, and under which fence the worker has it: another assignment of the same job is another binding."""

    job_id: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """One beat. `token` is that of the last answer, 0 in the first beat of a key.

    Jobs come as differences: `bound` since the last accepted beat, `unbound` once they are over here and their result
    is recorded. `running` are those that the worker asks about: what it must stop comes back. Without any of them a
    beat reads nothing. A `request_id` that is drawn once and kept over the retries of a beat makes these harmless;
    `card` is sent with the first beat and when it changes. `leaving` is when its machine is to be taken away.
    `activity` is what it runs for a CI that has jobs of its own, said with every beat.
    """

    key: str
    token: int = 0
    lease: float | None = None  # whole seconds; none or 0: the default
    request_id: str = ""
    instance_id: str = ""
    domain: str = ""
    bound: tuple[Binding, ...] = ()
    unbound: tuple[Binding, ...] = ()
    running: tuple[Binding, ...] = ()
    card: Card | None = None
    leaving: datetime | None = None
    activity: str = ""


def check(request: HeartbeatRequest) -> None:
    """Raise ConfigError, naming the field, for a request that cannot be meant."""
    _check_text("key", request.key, LONGEST_KEY, empty=False)
    _check_text("request_id", request.request_id, LONGEST_NAME)
    _check_text("instance_id", request.instance_id, LONGEST_NAME)
    _check_text("domain", request.domain, LONGEST_NAME)
    _check_number("token", request.token, 0)
    if request.activity != "":  # hardly any beat of our own CI
        _check_text("activity", request.activity, LONGEST_ACTIVITY, spaces=True)
    if request.leaving is not None and request.leaving.tzinfo is None:
        raise ConfigError(f"leaving: {request.leaving} names no time zone")
    _check_lease(request.lease)
    _check_bindings("bound", request.bound)
    _check_bindings("unbound", request.unbound)
    _check_bindings("running", request.running)
    if request.card is not None:
        _check_card(request.card)


def granted(lease: float | None, rules: Liveness, stretch: float = 1.0) -> float:
    """The lease that a checked request gets, in seconds: asked for too little or too much, the nearest allowed."""
    asked = (lease or rules.default_lease) * stretch
    return min(max(asked, rules.min_lease), rules.max_lease)


def _check_lease(lease: Any) -> None:
    if lease is None:
        return
    number = isinstance(lease, int | float) and not isinstance(lease, bool)
    if not number or not 0 <= lease <= LARGEST_NUMBER or lease != int(lease):
        raise ConfigError(f"lease: {_shown(lease)} must be whole seconds, 0 or more")


def _check_bindings(field: str, bindings: Any) -> None:
    if bindings == ():
        return  # nearly every beat
    for place, binding in enumerate(_entries(field, bindings, MOST_JOBS)):
        if not isinstance(binding, Binding):
            raise ConfigError(f"{field}[{place}]: {_shown(binding)} must be a job and its fence")
        _check_text(f"{field}[{place}].job_id", binding.job_id, LONGEST_NAME, empty=False)
        _check_number(f"{field}[{place}].fence", binding.fence, 1)


def _check_card(card: Card) -> None:
    for place, capability in enumerate(_entries("card.capabilities", card.capabilities, MOST_ENTRIES)):
        _check_text(f"card.capabilities[{place}]", capability, LONGEST_NAME, empty=False)
    for field in ("build_id", "host", "agent_version"):
        _check_text(f"card.{field}", getattr(card, field), LONGEST_NAME, spaces=True)
    _check_number("card.pid", card.pid, 0)
    for place, extra in enumerate(_entries("card.extras", card.extras, MOST_ENTRIES)):
        if not isinstance(extra, tuple) or len(extra) != 2:
            raise ConfigError(f"card.extras[{place}]: {_shown(extra)} must be a name and a value")
        _check_text(f"card.extras[{place}]", extra[0], LONGEST_NAME, empty=False)
        _check_text(f"card.extras.{extra[0]}", extra[1], LONGEST_VALUE, spaces=True)


def _entries(field: str, entries: Any, most: int) -> Iterable[Any]:
    if not isinstance(entries, tuple):
        raise ConfigError(f"{field}: {_shown(entries)} must be a list")
    if len(entries) > most:
        raise ConfigError(f"{field}: {len(entries)} entries, at most {most}")
    return entries


def _check_text(field: str, text: Any, longest: int, *, empty: bool = True, spaces: bool = False) -> None:
    if not isinstance(text, str):
        raise ConfigError(f"{field}: {_shown(text)} must be a text")
    if not text and not empty:
        raise ConfigError(f"{field}: must not be empty")
    if len(text) > longest:
        raise ConfigError(f"{field}: {len(text)} characters, at most {longest}")
    if not text.isprintable() or (not spaces and " " in text):  # no other space is printable
        kind = "printable characters" if spaces else "printable characters without spaces"
        raise ConfigError(f"{field}: {_shown(text)} must be {kind}")


def _check_number(field: str, number: Any, least: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= LARGEST_NUMBER:
        raise ConfigError(f"{field}: {_shown(number)} must be a whole number, {least} or more")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
