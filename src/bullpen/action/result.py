"""What became of a step, whoever did the work: read from what the CLI answers and what the server answers alike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SETTLED = ("terminated", "offered", "not ours")
"""Fates after which an instance costs this run nothing: ended, back in the pool, or somebody else's by now."""

HELD = "held"
"""The origin of a runner that the run had already: neither taken from the pool for it now, nor started."""


@dataclass(frozen=True, slots=True)
class Runner:
    id: str
    origin: str
    resource_class: str
    instance_type: str
    usage_class: str


@dataclass(frozen=True, slots=True)
class Given:
    """An instance that was held for a while and not kept."""

    id: str
    reason: str
    fate: str


@dataclass(frozen=True, slots=True)
class Result:
    """`told` is false while nobody has said how it ended: then nothing may be claimed about what is left. `kept` are
    runners that a job of the run had begun on before they could be given back: they serve it, too. `held` served the
    run before, and do so still."""

    mode: str
    label: str = ""
    reason: str = ""
    remedy: str = ""
    exit_code: int = 0
    told: bool = True
    requested: int = 0
    duration: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)
    runners: tuple[Runner, ...] = ()
    kept: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    discarded: tuple[Given, ...] = ()
    offered: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    actions: tuple[tuple[str, str, str], ...] = ()
    dry_run: bool = False

    @property
    def succeeded(self) -> bool:
        return not self.reason

    @property
    def selected(self) -> int:
        return sum(runner.origin == "selected" for runner in self.runners)

    @property
    def created(self) -> int:
        return sum(runner.origin == "created" for runner in self.runners)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Instances whose end is written down and not yet certain."""
        return tuple(one.id for one in self.discarded if one.fate not in SETTLED) + self.kept


def of_provision(label: str, answer: Mapping[str, Any], *, reason: str, remedy: str, exit_code: int) -> Result:
    """`answer` is an outcome as JSON."""
    held = tuple(map(str, answer.get("held", ())))
    return Result(
        mode="provision",
        label=label,
        reason=reason,
        remedy=remedy or str(answer.get("remedy", "")),
        exit_code=exit_code,
        requested=int(answer.get("requested", 0)),
        duration=float(answer.get("durationSeconds", 0.0)),
        timings={str(name): float(seconds) for name, seconds in answer.get("timings", {}).items()},
        runners=tuple(
            Runner(
                one["instanceId"],
                HELD if one["instanceId"] in held else one["origin"],
                one.get("resourceClass", ""),
                one.get("instanceType", ""),
                one.get("usageClass", ""),
            )
            for one in answer.get("instances", ())
        ),
        discarded=tuple(
            Given(one["instanceId"], one.get("reason", ""), one.get("outcome", ""))
            for one in answer.get("discarded", ())
        ),
        kept=tuple(one["instanceId"] for one in answer.get("kept", ())),
        held=held,
    )


def of_release(label: str, answer: Mapping[str, Any], duration: float) -> Result:
    return Result(
        mode="release",
        label=label,
        duration=duration,
        offered=tuple(answer.get("offered", ())),
        terminated=tuple(answer.get("terminated", ())),
        pending=tuple(answer.get("pending", ())),
        busy=tuple(answer.get("busy", ())),
    )
