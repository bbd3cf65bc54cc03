"""Validation of settings against each other. Settings with a contradiction are refused before any work."""

import re
from collections.abc import Iterator

from bullpen.config import Agent, Limits, Liveness, ResourceClass, Settings, Timings, Trust
from bullpen.model import keep, limits
from bullpen.settings.aws import impossible_aws, impossible_types
from bullpen.settings.github import impossible_github
from bullpen.settings.redaction import shortened


def contradictions(settings: Settings) -> Iterator[str]:
    """Messages that name the settings, their values and what is allowed; none if the settings are valid."""
    yield from _impossible_times(settings.timings)
    yield from _impossible_agent(settings.agent, settings.timings)
    yield from _impossible_leases(settings.liveness, settings.timings)
    yield from _impossible_counts(settings.classes, settings.limits)
    if (place := settings.local.work_dir) and not place.startswith("/"):
        yield f"local.work-dir ({shortened(place)}) must be an absolute path"
    yield from _impossible_trust(settings.trust)
    yield from impossible_types(settings.classes)
    if settings.engines.pool == "aws":
        yield from impossible_aws(settings)
    if settings.on_github:
        yield from impossible_github(settings)


def _impossible_agent(agent: Agent, times: Timings) -> Iterator[str]:
    if agent.pre_runner_script and agent.pre_runner_timeout >= times.validation:
        limit = f"timings.validation ({times.validation:g})"
        yield _must("agent.pre-runner-timeout", agent.pre_runner_timeout, "be less than", limit)
    if agent.serve_url and not re.match(r"^https?://[^/?#@\s]+/?\Z", agent.serve_url):
        yield f"agent.serve-url ({shortened(agent.serve_url)}) must be an http:// or https:// URL of host and port"
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


def _impossible_times(times: Timings) -> Iterator[str]:
    rules = (
        ("lease", times.lease > 2 * times.heartbeat, "be more than twice", "heartbeat"),
        ("alive", times.alive >= 2 * times.heartbeat, "be at least twice", "heartbeat"),
        ("hedge", times.hedge < times.registration, "be less than", "registration"),
        ("registration", times.registration < times.validation, "be less than", "validation"),
        ("validation", times.validation <= times.provision, "be at most", "provision"),
        ("settle", times.settle <= times.claim_grace, "be at most", "claim_grace"),
        ("tick_first", times.tick_first <= times.tick_longest, "be at most", "tick_longest"),
        ("tick_longest", times.tick_longest < times.registration, "be less than", "registration"),
    )
    for name, holds, relation, other in rules:
        if not holds:
            kebab, limit = name.replace("_", "-"), f"timings.{other.replace('_', '-')} ({getattr(times, other):g})"
            yield _must(f"timings.{kebab}", getattr(times, name), relation, limit)


def _impossible_leases(rules: Liveness, times: Timings) -> Iterator[str]:
    rows = (
        ("min-lease", rules.min_lease, rules.min_lease <= rules.max_lease, "be at most", "liveness.max-lease"),
        (
            "default-lease",
            rules.default_lease,
            rules.default_lease >= rules.min_lease,
            "be at least",
            "liveness.min-lease",
        ),
        (
            "default-lease",
            rules.default_lease,
            rules.default_lease <= rules.max_lease,
            "be at most",
            "liveness.max-lease",
        ),
        ("min-lease", rules.min_lease, rules.min_lease <= times.lease, "be at most", "timings.lease"),
        ("max-lease", rules.max_lease, rules.max_lease >= times.lease, "be at least", "timings.lease"),
        ("confirm", rules.confirm, rules.confirm > times.heartbeat, "be more than", "timings.heartbeat"),
        ("grace-gap", rules.grace_gap, rules.grace_gap > times.heartbeat, "be more than", "timings.heartbeat"),
        ("tombstone", rules.tombstone, rules.tombstone > rules.max_lease, "be more than", "liveness.max-lease"),
    )
    for name, value, holds, relation, other in rows:
        if not holds:
            table, _, key = other.partition(".")
            limit = getattr(rules if table == "liveness" else times, key.replace("-", "_"))
            yield _must(f"liveness.{name}", value, relation, f"{other} ({limit:g})")


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
