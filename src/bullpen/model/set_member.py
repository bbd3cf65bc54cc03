"""Set member: an instance that serves a scale set, and the steps that only such an instance takes.

              engage                     recall, renew
    ┌─────────┐ ──────▶ ┌─────────┐ ─────┐
    │ claimed │         │ running │      │
    └─────────┘         └─────────┘ ◀────┘

All other steps are those of any instance (instance.py): it is claimed, rolled back, released and expired as for a run.
It has the run id `set:<name>`, and no provision: a set has no number of runners that is decided at once. The CI decides
which job each runner gets, so it belongs to no repository either, only to the trust domain of its set.
"""

from dataclasses import replace
from datetime import datetime

from bullpen.errors import Conflict
from bullpen.model.instance import CLAIMED, RUNNING, Instance, Step
from bullpen.model.scale_set import READY, ScaleSet, set_of_run_id
from bullpen.model.transition import Event, Guard, steps_in, transition


def set_of(instance: Instance) -> str | None:
    """The name of the set that it serves; None if it serves a run, or nothing."""
    return set_of_run_id(instance.run_id)


class Engaged(Event):
    """Land it with the check `must_be_ready`: the set may have been retired since it was read."""

    round: str
    scale_set: ScaleSet
    until: datetime


@transition(CLAIMED, to=RUNNING)
def engage(instance: Instance, event: Engaged) -> Step:
    """Its runner is registered: the CI may give it jobs of the set."""
    served = event.scale_set
    if served.state is not READY:
        raise Conflict(f"{instance.id} cannot serve {served.id}, which is {served.state}", found=instance)
    return replace(instance, threshold=event.until), (
        Guard("round", "is", event.round),
        Guard("run_id", "is", served.run_id),
        # The set's domain may have been corrected since the claim: then no job of it may run here.
        Guard("trust_domain", "is", served.rules.trust_domain),
    )


class Extended(Event):
    round: str
    until: datetime


@transition(RUNNING, to=RUNNING, silent=True)
def renew(instance: Instance, event: Extended) -> Step:
    """It waits for a job. The next one gets its whole time, also while no process listens to the set."""
    _require_set(instance)
    if event.until <= instance.threshold:
        raise Conflict(f"{instance.id} may run until {instance.threshold} already", found=instance)
    return replace(instance, threshold=event.until), (Guard("round", "is", event.round),)


class Recalled(Event):
    old_round: str
    round: str


@transition(RUNNING, to=RUNNING, draws_round=True)
def recall(instance: Instance, event: Recalled) -> Step:
    """Its registration may be lost at the CI: its agent registers again. A job that runs goes on."""
    _require_set(instance)
    return replace(instance, round=event.round), (Guard("round", "is", event.old_round),)


STEPS = steps_in(globals())


def _require_set(instance: Instance) -> None:
    if set_of(instance) is None:
        raise Conflict(f"{instance.id} serves {instance.run_id}, which is not a scale set", found=instance)
