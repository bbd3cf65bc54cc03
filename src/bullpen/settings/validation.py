"""Validation of settings against each other. Settings with a contradiction are refused before any work."""

import operator
import re
from collections.abc import Callable, Iterator

from bullpen.config import Agent, Limits, ResourceClass, Settings, Timings, Trust
from bullpen.model import keep, limits
from bullpen.settings.aws import impossible_aws, impossible_types, misplaced_machines
from bullpen.settings.github import impossible_github
from bullpen.settings.redaction import shortened
from bullpen.settings.scale_sets import impossible_scale_sets
from bullpen.settings.schedule import impossible_schedules

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "more than": operator.gt,
    "more than twice": lambda value, other: value > 2 * other,
    "at least": operator.ge,
    "at least twice": lambda value, other: value >= 2 * other,
    "less than": operator.lt,
    "at most": operator.le,
}
ORDER = (
    ("timings.lease", "more than twice", "timings.heartbeat"),
    ("timings.alive", "at least twice", "timings.heartbeat"),
    ("timings.hedge", "less than", "timings.registration"),
    ("timings.registration", "less than", "timings.validation"),
    ("timings.validation", "at most", "timings.provision"),
    ("timings.settle", "at most", "timings.claim_grace"),
    ("timings.tick_first", "at most", "timings.tick_longest"),
    ("timings.tick_longest", "less than", "timings.registration"),
    ("liveness.min_lease", "at most", "liveness.max_lease"),
    ("liveness.default_lease", "at least", "liveness.min_lease"),
    ("liveness.default_lease", "at most", "liveness.max_lease"),
    ("liveness.min_lease", "at most", "timings.lease"),
    ("liveness.max_lease", "at least", "timings.lease"),
    ("liveness.confirm", "more than", "timings.heartbeat"),
    ("liveness.grace_gap", "more than", "timings.heartbeat"),
    ("liveness.tombstone", "more than", "liveness.max_lease"),
)
"""What must hold between two durations."""

PRICED = r"[A-Za-z0-9._-]{1,40}(:spot)?"
"""What a price may be given for: an instance type, or the type bought as spot."""


def contradictions(settings: Settings) -> Iterator[str]:
    """Messages that name the settings, their values and what is allowed; none if the settings are valid."""
    yield from _impossible_durations(settings)
    yield from _impossible_agent(settings.agent, settings.timings)
    yield from _impossible_counts(settings.classes, settings.limits)
    if (place := settings.local.work_dir) and not place.startswith("/"):
        yield f"local.work-dir ({shortened(place)}) must be an absolute path"
    yield from _impossible_trust(settings.trust)
    if (url := settings.traces.endpoint) and not re.match(r"^https?://[^/?#@\s]+(/[^?#@\s]*)?\Z", url):
        wanted = "an http:// or https:// URL without user, query or fragment, such as http://localhost:4318/v1/traces"
        yield f"traces.endpoint ({shortened(url)}) must be {wanted}"
    for name in settings.history.prices:
        if not re.fullmatch(PRICED, name):
            yield f"history.prices has {shortened(name)}: must be an instance type, such as m7g.large or m7g.large:spot"
    yield from impossible_types(settings.classes)
    if settings.engines.pool == "aws":
        yield from impossible_aws(settings)
    else:
        yield from misplaced_machines(settings.classes)
    if settings.on_github:
        yield from impossible_github(settings)
    yield from impossible_scale_sets(settings)


def _impossible_agent(agent: Agent, times: Timings) -> Iterator[str]:
    if agent.pre_runner_script and agent.pre_runner_timeout >= times.validation:
        limit = f"timings.validation ({times.validation:g})"
        yield _must("agent.pre-runner-timeout", agent.pre_runner_timeout, "be less than", limit)
    if agent.serve_url and not re.match(r"^https?://[^/?#@\s]+/?\Z", agent.serve_url):
        yield f"agent.serve-url ({shortened(agent.serve_url)}) must be an http:// or https:// URL of host and port"
    for word in agent.capabilities:
        if not limits.is_word(word, limits.CAPABILITY_LENGTH):
            yield f"agent.capabilities has {shortened(word)}: must be {limits.word_allowed(limits.CAPABILITY_LENGTH)}"
    if (number := len(agent.capabilities)) > limits.CAPABILITIES:
        yield f"agent.capabilities has {number} words: must be at most {limits.CAPABILITIES}"
    for pattern in agent.keep:
        try:
            keep.names_of(pattern)
        except ValueError as exc:
            yield f"agent.keep has {pattern!r}: not a pattern below the runner's home; {exc}"


def _impossible_trust(trust: Trust) -> Iterator[str]:
    for domain, inherited in trust.inherits.items():
        if bad := [name for name in (domain, *inherited) if not re.fullmatch(limits.TRUST_DOMAIN, name)]:
            yield f"trust.inherits has {bad[0]!r}: not a valid name of a trust domain"
        if domain in inherited:
            yield f"trust.inherits of {domain!r} must not contain itself: a domain always reuses its own instances"


def _must(name: str, value: float, relation: str, other: str) -> str:
    return f"{name} ({value:g}) must {relation} {other}"


def _impossible_durations(settings: Settings) -> Iterator[str]:
    for name, relation, other in ORDER:
        value, limit = (getattr(getattr(settings, of), key) for of, key in (name.split("."), other.split(".")))
        if not RELATIONS[relation](value, limit):
            yield _must(name.replace("_", "-"), value, f"be {relation}", f"{other.replace('_', '-')} ({limit:g})")


def _impossible_counts(classes: dict[str, ResourceClass], limits: Limits) -> Iterator[str]:
    most = f"limits.max-instances ({limits.max_instances})"
    for name, kind in classes.items():
        if kind.max_instances > limits.max_instances:
            yield _must(f"classes.{name}.max-instances", kind.max_instances, "be at most", most)
        if 0 < kind.max_instances < kind.idle_target:
            own = f"classes.{name}.max-instances ({kind.max_instances})"
            yield _must(f"classes.{name}.idle-target", kind.idle_target, "be at most", own)
    if (wanted := sum(kind.idle_target for kind in classes.values())) > limits.max_instances:
        yield _must("the sum of classes.*.idle-target", wanted, "be at most", most)
    else:
        yield from impossible_schedules(classes, limits.max_instances)
