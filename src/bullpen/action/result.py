"""What became of a step, read from the answers of `bullpen.schema`: the engines in this job and a server give the same.

Standard library only. A field that an older server does not send has a default, and what a newer one adds is ignored.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from bullpen.lazy_dataclass import dataclass
from bullpen.model.progress import WorkPhase

SELECTED, CREATED = "selected", "created"
"""Where a runner comes from: the pool, or a machine that was launched for this run."""

SETTLED = ("terminated", "offered", "not ours")
"""Fates after which an instance costs this run nothing: ended, back in the pool, or taken over by another run."""

HELD = "held"
"""The origin of a runner that the run had already: neither taken from the pool for it now, nor started."""


PHASES = {phase.value: phase for phase in WorkPhase} | {
    "a runner of the pool": WorkPhase.SELECT,
    "a new machine": WorkPhase.CREATE,
    "a machine that boots and registers": WorkPhase.REGISTER,
}
"""The phases that this release knows, by their names and by what an older server calls them."""


@dataclass(frozen=True, slots=True)
class Runner:
    id: str
    origin: str
    resource_class: str
    instance_type: str
    usage_class: str


@dataclass(frozen=True, slots=True)
class DiscardedRunner:
    """An instance that was held for a while and not kept."""

    id: str
    reason: str
    fate: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """`is_known` is false if the end of the operation is unknown: then nothing may be claimed about what is left.

    `kept` are runners on which a job of the run started before they could be given back: they serve the run, too.
    `held` are runners that the run had before.
    """

    mode: str
    label: str = ""
    reason: str = ""
    remedy: str = ""
    exit_code: int = 0
    is_known: bool = True
    requested: int = 0
    duration: float = 0.0
    timings: Mapping[WorkPhase, float] = field(default_factory=dict)
    runners: tuple[Runner, ...] = ()
    kept: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    discarded: tuple[DiscardedRunner, ...] = ()
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
        return sum(runner.origin == SELECTED for runner in self.runners)

    @property
    def created(self) -> int:
        return sum(runner.origin == CREATED for runner in self.runners)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Instances whose end is written down and not yet certain."""
        return tuple(one.id for one in self.discarded if one.fate not in SETTLED) + self.kept


def of_provision(label: str, answer: Mapping[str, Any], reason: str, remedy: str, exit_code: int) -> StepResult:
    """`answer` is an outcome as JSON."""
    held = tuple(map(str, answer.get("held", ())))
    return StepResult(
        mode="provision",
        label=label,
        reason=reason,
        remedy=remedy or str(answer.get("remedy", "")),
        exit_code=exit_code,
        requested=int(answer.get("requested", 0)),
        duration=float(answer.get("durationSeconds", 0.0)),
        timings={PHASES[name]: float(spent) for name, spent in answer.get("timings", {}).items() if name in PHASES},
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
            DiscardedRunner(one["instanceId"], one.get("reason", ""), one.get("outcome", ""))
            for one in answer.get("discarded", ())
        ),
        kept=tuple(one["instanceId"] for one in answer.get("kept", ())),
        held=held,
    )


def of_release(label: str, answer: Mapping[str, Any], duration: float) -> StepResult:
    return StepResult(
        mode="release",
        label=label,
        duration=duration,
        offered=tuple(answer.get("offered", ())),
        terminated=tuple(answer.get("terminated", ())),
        pending=tuple(answer.get("pending", ())),
        busy=tuple(answer.get("busy", ())),
    )
