"""Served set: what a runner of a scale set needs to know of its set to judge a job. It travels with the registration.

The CI gives a set's runner any job that names the set: no registration is bound to a job or a repository. So the agent
judges each job before its first step, by the rules of the registration that the job runs with.

A repository is known by its id: one that was deleted and created again under the same name has another id, and other
authors. Only while the rules do not have the id yet, the name decides.
"""

import json
from hashlib import sha256

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.model.scale_set import READY, ScaleSet, SetEvents, SetRepository, set_run_id
from bullpen.model.ticket import Requirements
from bullpen.model.trust import is_own_code


@dataclass(frozen=True, slots=True)
class SetJob:
    """A job that is about to begin, as its runner describes it. What is not known is empty."""

    repository: str  # owner/name
    repository_id: str
    event: str
    ref: str
    actor: str
    runner: str  # the name of the registration that it runs with


@dataclass(frozen=True, slots=True)
class ServedSet:
    """No `repositories`: every one that can reach the set."""

    name: str
    events: SetEvents = SetEvents.TRUSTED
    repositories: tuple[SetRepository, ...] = ()

    @property
    def run_id(self) -> str:
        return set_run_id(self.name)

    @property
    def digest(self) -> str:
        """Equal for equal rules. A runner reports it while it waits, so one that would judge by old rules is found."""
        known = sorted((one.name.casefold(), one.id) for one in self.repositories)
        return sha256(json.dumps([self.events, known]).encode()).hexdigest()[:16]

    def refusal(self, job: SetJob, runner: str) -> str:
        """Why the job must not run with the registration `runner`, for the job's log; empty if it may."""
        if job.runner != runner:
            return f"This runner is registered as {runner} for the scale set {self.name}, not as {job.runner}."
        if self.repositories and not any(_is_same(one, job) for one in self.repositories):
            which = f"{job.repository} (repository id {job.repository_id or 'not known'})"
            known = [one.id for one in self.repositories if one.name.casefold() == job.repository.casefold()]
            if known and job.repository_id:
                return (
                    f"The scale set {self.name} does not serve {which}: it serves the repository with the id "
                    f"{known[0]}, which had this name before. If this one may have the same runners, write "
                    f'"{job.repository}/{job.repository_id}" in `repositories` of this set in [github.scale-sets].'
                )
            return (
                f"The scale set {self.name} does not serve {which}. Add it to `repositories` of this set in "
                "[github.scale-sets], or name another scale set in `runs-on`."
            )
        if self.events is SetEvents.TRUSTED and not is_own_code(job.event, job.ref, job.actor):
            event, ref, actor = (one or "unknown" for one in (job.event, job.ref, job.actor))
            return (
                f"The scale set {self.name} serves trusted events only, not {event} of {ref} by {actor}. Name a scale "
                'set in `runs-on` that has events = "any" in [github.scale-sets].'
            )
        return ""


def _is_same(repository: SetRepository, job: SetJob) -> bool:
    if repository.id:
        return job.repository_id == str(repository.id)
    return repository.name.casefold() == job.repository.casefold()


def served(scale_set: ScaleSet) -> ServedSet:
    return ServedSet(scale_set.name, scale_set.rules.events, scale_set.rules.repositories)


def mismatch(instance: Instance, scale_set: ScaleSet | None, needs: Requirements | None) -> str:
    """Why an instance that serves the set must not get another job of it; empty if it may. `needs` is what the set asks
    of an instance, None if its resource class is not configured any more."""
    if scale_set is None or scale_set.state is not READY:
        return f"{instance.run_id} is {scale_set.state if scale_set is not None else 'not known'}"
    if scale_set.rules.trust_domain != instance.trust_domain:
        return f"{instance.run_id} has the trust domain {scale_set.rules.trust_domain} now"
    if needs is None:
        return f"class {scale_set.rules.resource_class} is no longer configured"
    if instance.resource_class != needs.resource_class:
        return f"{instance.run_id} has the class {needs.resource_class} now"
    if instance.usage_class not in needs.acceptable_usage_classes:
        return f"{instance.run_id} has the usage class {needs.usage_class} now"
    if instance.is_drained:
        return "it is drained"
    if instance.image_generation < needs.image_generation:
        return f"image generation {instance.image_generation} is outdated"
    return ""
