"""The state machines as a page, drawn from the transitions: `python tools/diagrams.py > docs/state-machines.md`."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bullpen.model import (
    control,
    instance,
    job,
    pause,
    provision,
    repository,
    rotation,
    scale_set,
    set_member,
    set_session,
    worker,
)
from bullpen.model.transition import Change, Guard, Transition
from bullpen.model.worker import WorkerFate

sys.path.append(
    str(Path(__file__).parents[1] / "tests")
)  # the records that the steps are tried on are those of the tests
import builders
import set_builders

Step = Transition[Any, Any]
Words = Mapping[tuple[str, str, Any], str]

OPENING = """\
# State machines

Generated from the transitions in `src/bullpen/model/`; a test fails if this page and the code disagree. To generate it
again: `python tools/diagrams.py > docs/state-machines.md`.

Every step requires that the stored record still has the version and the state that the writer read. The conditions
under *needs* are checked as well, by the store, on the stored record. A step marked ↻ changes the owner and draws a new
round. A step marked ◦ happens so often that it leaves no line in the record's story.
"""

INSTANCES = """
## Instance

An idle instance is on offer while it is *attested*: its agent has reported, in the current round, that it is clean. An
instance that was given back is idle and not attested. From there only `offer` and `expire` lead on.
"""

PROVISIONS = """
## Provision

One write decides: with `commit` all members run, with `abort` everything acquired is given back. The other writes carry
the decision out, and any process can do that.
"""

WORKERS = """
## Worker

The process that serves jobs, and its lease; [Liveness](liveness.md) has the reasons. *Settle* ends the debt of
`lose_lease` and `stop`: no job of the lost epoch is bound to the worker any more.
"""

JOBS = """
## Job

A result counts only with the fence, the worker and the epoch of the current assignment.
"""

CONTROLS = """
## Control

What sweepers agree on before they declare workers lost: one record `ingest`, one for a hold of the whole store, and one
per failure domain with its budget of losses.
"""

SCALE_SETS = """
## Scale set

What a workflow names in `runs-on`. *Want* is written before the set is created at the CI, so that a set whose creator
was killed is recognised. A set of the same name that was there before is left alone.
"""

SET_MEMBERS = """
## Member of a scale set

An instance that serves a set. Besides these steps it takes those of any instance: it is claimed, rolled back, released
and expired as for a run. *Engage* also needs, in the same write, that the set is ready.
"""

SET_SESSIONS = """
## Session of a scale set

Which process listens to a set. A held session is taken only after its record stood still for a whole lease, on the
monotonic clock of the process that takes it.
"""

REPOSITORIES = """
## Repository

Which repository a bare name in a trust domain means: the first that was seen under it, for ever. One that is created
again under the name has another id, and inherits nothing by that name.
"""

PAUSES = """
## Pause

A resource class, or the whole pool, that starts nothing new: no provision, no instance for the idle target, no runner
for a scale set. What runs goes on.
"""

ROTATIONS = """
## Rotation

Every instance that a class had when an operator asked for it is replaced. The record names them all, so any process can
go on with it. *Rotate* while one is under way adds the instances that live now.
"""

WORDS = {
    ("attested", "is", True): "it is attested",
    ("attested", "is", False): "it is not attested",
    ("ci_id", "is", None): "its id at the CI is the one that was asked for",
    ("cleanup_at", "is", None): "its time to be cleaned up is the one seen",
    ("deadline", "is", None): "its deadline is the one seen",
    ("epoch", "is", None): "its epoch is the one of the current assignment",
    ("fate", "is", WorkerFate.KEEP): "it may come back",
    ("fence", "is", None): "its fence is the one of the current assignment",
    ("holder", "is", None): "the writer is its holder",
    ("image_generation", "is", None): "its image generation is the current one",
    ("provision_id", "is", None): "it was acquired for this provision",
    ("round", "is", None): "its round is the one seen",
    ("run_id", "is", ""): "it has no run",
    ("run_id", "is", None): "it belongs to this run",
    ("threshold", "after", None): "its threshold has not passed",
    ("token", "is", None): "it comes with the last token",
    ("trust_domain", "in", None): "its trust domain may be inherited by this run",
    ("worker", "is", None): "its worker is the one of the current assignment",
}
"""What a guard requires, by field, test and value; None: the value of the event."""

WORDS_OF_SESSIONS = {("epoch", "is", None): "it is the writer's epoch"}
WORDS_OF_MEMBERS = {
    ("run_id", "is", None): "it was claimed for this set",
    ("trust_domain", "is", None): "its trust domain is the set's",
}
"""Where the words of these machines differ."""


def render() -> str:
    return OPENING + "".join(machines().values())


def machines() -> dict[str, str]:
    """Each machine's part of the page, by the module that has its steps."""
    parts = {
        instance: (INSTANCES, _instance_samples()),
        provision: (PROVISIONS, _provision_samples()),
        worker: (WORKERS, _worker_samples()),
        job: (JOBS, _job_samples()),
        control: (CONTROLS, _control_samples()),
        scale_set: (SCALE_SETS, _scale_set_samples()),
        set_member: (SET_MEMBERS, _set_member_samples()),
        set_session: (SET_SESSIONS, _set_session_samples()),
        repository: (REPOSITORIES, _repository_samples()),
        pause: (PAUSES, _pause_samples()),
        rotation: (ROTATIONS, _rotation_samples()),
    }
    words: dict[Any, Words] = {set_session: WORDS | WORDS_OF_SESSIONS, set_member: WORDS | WORDS_OF_MEMBERS}
    return {
        module.__name__: title + "".join(_machine(module.STEPS, samples, words.get(module, WORDS)))
        for module, (title, samples) in parts.items()
    }


def _instance_samples() -> list[Change[Any]]:
    """Each step once, for its guards."""
    offered = builders.used_and_on_offer()
    return [
        *offered,
        builders.keep(offered[-1].after),
        builders.spare(builders.cleaning()[-1].after),
        builders.roll_back(builders.claimed()[-1].after),
        builders.drain(builders.running()[-1].after),
        *builders.buried()[-2:],
    ]


def _provision_samples() -> list[Change[Any]]:
    opened = builders.open_provision()
    planned = provision.FleetPlanned(at=builders.NOW, by=builders.BY, client_token="token", count=1)
    answered = provision.FleetAnswered(at=builders.NOW, by=builders.BY, client_token="token")
    fleet = provision.plan_fleet(opened.after, planned)
    renewed = provision.renew(opened.after, provision.Renewed(at=builders.NOW, by=builders.BY))
    waited = builders.wait(opened.after)
    admitted = builders.admit(waited.after)
    decided, aborted = builders.decide(opened.after), builders.abort(opened.after)
    postponed = builders.postpone(decided.after)
    revoked = builders.revoke(builders.decide(opened.after, "i-1").after)
    ended = [builders.conclude(decided.after), builders.settle(decided.after), builders.settle(aborted.after)]
    answer = provision.answer_fleet(fleet.after, answered)
    return [opened, renewed, waited, admitted, fleet, answer, decided, aborted, postponed, revoked, *ended]


def _worker_samples() -> list[Change[Any]]:
    now: dict[str, Any] = {"at": builders.NOW, "by": builders.BY}
    first = worker.register(worker.absent("w-1"), worker.Beat(**now, token=0, lease=0.0))
    active = first.after
    again = worker.Beat(**now, token=active.token, lease=0.0)
    expired = worker.LeaseExpired(**now, deadline=builders.NOW, cleanup_at=builders.NOW)
    lost = worker.lose_lease(active, expired)
    cleanup = worker.CleanupDue(**now, cleanup_at=builders.NOW, purge_at=builders.NOW)
    cleaned = worker.clean_up(lost.after, cleanup)
    settled = worker.Rescheduled(**now, epoch=1)
    return [
        first,
        worker.heartbeat(active, again),
        worker.rearm(active, worker.Rearmed(**now, due_at=builders.NOW)),
        lost,
        worker.resurrect(lost.after, again),
        cleaned,
        worker.stop(active, worker.Stopped(**now, token=active.token, epoch=1, purge_at=builders.NOW)),
        worker.settle_active(active, settled),
        worker.settle_inactive(lost.after, settled),
        worker.settle_cleaned_up(cleaned.after, settled),
    ]


def _job_samples() -> list[Change[Any]]:
    now: dict[str, Any] = {"at": builders.NOW, "by": builders.BY}
    held = {**now, "worker": "w-1", "epoch": 1, "fence": 1}
    submitted = job.submit(job.absent("j-1", "run-1", ("true",)), job.Submitted(**now))
    event = job.Assigned(**now, worker="w-1", epoch=1, instance_id="i-1", verify_by=builders.NOW)
    assigned = job.assign(submitted.after, event)
    running = assigned.after
    ran = job.Ran(**held, exit_code=0, result=job.Result.SUCCEEDED, purge_at=builders.NOW)
    return [
        submitted,
        job.postpone(submitted.after, job.JobPostponed(**now, not_before=builders.NOW)),
        assigned,
        job.bind(running, job.Holder(**held)),
        job.unbind(running, job.LetGo(**held, verify_by=builders.NOW)),
        job.finish(running, ran),
        job.reschedule(running, job.Lost(**held, not_before=builders.NOW)),
        job.give_up(running, job.GivenUp(**now, purge_at=builders.NOW)),
        job.ask_to_cancel(running, job.CancelAsked(**now)),
    ]


def _control_samples() -> list[Change[Any]]:
    now: dict[str, Any] = {"at": builders.NOW, "by": builders.BY}
    absent = control.absent("everybody")
    held = control.hold(absent, control.Holding(**now))
    return [
        control.ingest(absent, control.Ingested(**now)),
        control.spend(absent, control.Spent(**now, budget=0.0)),
        held,
        control.lift(held.after, control.Holding(**now)),
    ]


def _scale_set_samples() -> list[Change[Any]]:
    walk = set_builders.retired()
    at_work = set_builders.a_ready_set()
    return [
        *walk,
        set_builders.correct(at_work),
        set_builders.mark_missing(at_work),
        set_builders.revive(set_builders.retiring()[-1].after),
    ]


def _set_member_samples() -> list[Change[Any]]:
    engaged = set_builders.engaged()[-1]
    return [engaged, set_builders.extend(engaged.after), set_builders.recall(engaged.after)]


def _set_session_samples() -> list[Change[Any]]:
    taken = set_builders.take()
    own = (
        set_builders.renew,
        set_builders.open_session,
        set_builders.record_message,
        set_builders.record_failure,
        set_builders.yield_session,
    )
    return [taken, *(step(taken.after) for step in own)]


def _repository_samples() -> list[Change[Any]]:
    seen = builders.see_repository()
    return [seen, builders.meet_repository(seen.after)]


def _pause_samples() -> list[Change[Any]]:
    paused = builders.pause()
    return [paused, builders.resume(paused.after)]


def _rotation_samples() -> list[Change[Any]]:
    asked = builders.rotate("i-1")
    return [asked, builders.finish_rotation(asked.after)]


def _machine(steps: Sequence[Step], samples: Iterable[Change[Any]], words: Words) -> Iterable[str]:
    guards = {sample.step: sample.guards for sample in samples}
    yield "\n```mermaid\nstateDiagram-v2\n"
    for step in steps:
        for source in step.sources:
            yield f"    {_node(source)} --> {_node(step.target or source)}: {_name(step)}\n"
    yield "```\n\n| step | from → to | needs | what it is |\n|---|---|---|---|\n"
    for step in steps:
        needs = "; ".join(_in_words(guard, words) for guard in guards[step.step]) or "–"
        path = f"{', '.join(_plain(source) for source in step.sources)} → {_plain(step.target or 'the same')}"
        marks = (" ↻" if step.draws_round else "") + (" ◦" if step.silent else "")
        yield f"| {_name(step)}{marks} | {path} | {needs} | {' '.join(step.doc.split()) or '–'} |\n"


def _name(step: Step) -> str:
    return step.step.rstrip("_").replace("_", " ")


def _node(state: str) -> str:
    """The state as the drawing names it: a hyphen would end the name there."""
    return "[*]" if state == "absent" else state.replace("-", "_")


def _plain(state: str) -> str:
    return "–" if state == "absent" else str(state)


def _in_words(guard: Guard, words: Words) -> str:
    for (field, test, value), said in words.items():
        if (field, test) == (guard.field, guard.test) and value in (None, guard.value):
            return said
    raise LookupError(f"{guard}: say in WORDS what it demands")


if __name__ == "__main__":
    print(render(), end="")
