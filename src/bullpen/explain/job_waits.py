"""Why a job of the embedded CI waits: by the runners of its run, or by the provision that is to bring them.

    it was lost, and waits a moment    runner-lost; booting, if it is kept for a replacement
    its run has runners                queued-behind, booting, no-match (a capability), runner-lost
    its run has none                   as its open provision; as its failed one; run-over; no-match

A runner of another run never takes the job, so the candidates are the runners of its run.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from bullpen.concurrency import gather_or_cancel
from bullpen.explain.pool_view import PoolView, age
from bullpen.explain.provision_waits import Because, explain_failed, explain_provision, resume_text
from bullpen.jobs.assignment import capabilities_of
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import QUEUED, Job
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.pause import words_of
from bullpen.model.provision import ABORTED, COMMITTED, OPEN, Provision
from bullpen.model.ticket import RefusalRule
from bullpen.model.wait import Candidate, ExplainedWait, WaitCause, WaitKind, by_count

UNFINISHED = 1000  # jobs of a run that are looked at
RUNNERS = 200  # of a run whose cards are read
WORKERS_OF_ONE = 5  # keys of one instance: a new one after each restart of its agent
SIDE_BY_SIDE = 16  # requests at once
TOLD = 3  # provisions of the run, the newest first


@dataclass(frozen=True, slots=True)
class RunSituation:
    """What all jobs of one run have in common. `occupied` are instances with a job, `workers` the keys and the
    capabilities of each instance."""

    run_id: str
    provisions: tuple[Provision, ...]
    instances: tuple[Instance, ...]
    queued: tuple[Job, ...]
    occupied: dict[str, str]
    workers: dict[str, dict[str, tuple[str, ...]]]


async def situation_of(view: PoolView, run_id: str) -> RunSituation:
    ports = view.ports
    unfinished = await ports.jobs.unfinished(run_id, UNFINISHED)
    held = sorted(await ports.records.run_instances(run_id), key=lambda one: one.id)
    open_ = [one for one in await ports.records.run_provisions(run_id) if one.state is OPEN]
    told = await ports.records.told_provisions(run_id, TOLD)
    occupied = {job.instance_id: job.id for job in unfinished if job.state is JOB_RUNNING}
    queued = tuple(job for job in unfinished if job.state is QUEUED)
    workers: dict[str, dict[str, tuple[str, ...]]] = {}
    if any(job.capability or job.avoid for job in queued):
        for at in range(0, min(len(held), RUNNERS), SIDE_BY_SIDE):
            some = held[at : at + SIDE_BY_SIDE]
            found = await gather_or_cancel([_workers_of(view, one.id) for one in some])
            workers |= dict(zip((one.id for one in some), found, strict=True))
    provisions = {one.id: one for one in (*open_, *told)}
    return RunSituation(run_id, tuple(provisions.values()), tuple(held), queued, occupied, workers)


async def explain_queued(view: PoolView, run: RunSituation, most: int) -> list[ExplainedWait]:
    """Why the queued jobs of a run wait, the oldest first; at most so many."""
    oldest = sorted(run.queued, key=lambda job: (job.queued_at is None, job.queued_at, job.index, job.id))[:most]
    await view.stories(job.id for job in oldest if job.not_before is not None)  # all in one request
    return [await explain_job(view, job, run) for job in oldest]


async def explain_job(view: PoolView, job: Job, run: RunSituation) -> ExplainedWait:
    """Why a queued job waits."""
    candidates = await _judge_runners(view, job, run)
    why = await _because(view, job, run, candidates)
    needs = run.provisions[0].needs if run.provisions else None
    held = run.instances[0] if run.instances else None
    return ExplainedWait(
        subject=job.id,
        kind=WaitKind.JOB,
        cause=why.cause,
        because=why.because,
        next=why.next,
        run_id=job.run_id,
        repository=held.repository if held else needs.repository if needs else "",
        resource_class=held.resource_class if held else needs.resource_class if needs else "",
        since=job.queued_at,
        seconds_left=why.seconds_left,
        refusals=by_count(Counter(one.rule for one in candidates)),
        candidates=tuple(candidates),
    )


async def _workers_of(view: PoolView, instance_id: str) -> dict[str, tuple[str, ...]]:
    prefix = f"{instance_id}/"
    found = [one.id for one in await view.ports.workers.listed(WORKERS_OF_ONE, prefix) if one.id.startswith(prefix)]
    cards = await view.ports.workers.cards(found) if found else {}
    return {key: capabilities_of(cards.get(key)) for key in found}


async def _judge_runners(view: PoolView, job: Job, run: RunSituation) -> list[Candidate]:
    pulses = await view.pulses([one.id for one in run.instances if one.state is RUNNING])
    lease = timedelta(seconds=view.settings.timings.lease)
    found = []
    for one in run.instances:
        rule, detail = RefusalRule.STARTING, ""
        if one.state is RUNNING:
            beat = pulses[one.id].heartbeat
            keys = run.workers.get(one.id, {})
            if beat is not None and beat.leaving is not None:
                rule, detail = RefusalRule.LEAVING, f"its machine is taken away at {beat.leaving:%H:%M:%S}Z"
            elif beat is not None and beat.at + lease <= view.now:
                rule, detail = RefusalRule.SILENT, f"no heartbeat for {age(view.now, beat.at):.0f} s"
            elif job.capability and keys and not any(job.capability in able for able in keys.values()):
                rule, detail = RefusalRule.CAPABILITY, f"the job requires {job.own_capability or 'a newer agent'}"
            elif one.id in run.occupied:
                rule, detail = RefusalRule.OCCUPIED, f"executes {run.occupied[one.id]}"
            elif job.avoid and job.avoid in keys and len(run.instances) > 1:
                rule, detail = RefusalRule.AVOIDED, "the job was lost or failed there"
            else:
                rule = RefusalRule.FITS
        found.append(Candidate(one.id, one.state, rule, detail))
    return found


async def _because(view: PoolView, job: Job, run: RunSituation, candidates: Sequence[Candidate]) -> Because:
    if job.not_before is not None and job.not_before > view.now:
        return await _held_back(view, job)
    if not run.instances:
        return await without_runners(view, run)
    rules = {one.rule for one in candidates}
    if RefusalRule.FITS in rules:
        free = next(one.instance_id for one in candidates if one.rule is RefusalRule.FITS)
        return Because(
            WaitCause.BOOTING,
            f"{free} is free, and takes it at its next look",
            "Its agent looks for jobs all the time.",
        )
    if RefusalRule.OCCUPIED in rules:
        busy = sum(one.rule is RefusalRule.OCCUPIED for one in candidates)
        ahead = sum(_is_before(other, job) for other in run.queued)
        occupied = f"other jobs occupy all {busy} runners" if busy > 1 else "another job occupies the only runner"
        place = f"{ahead} jobs were queued before it" if ahead > 1 else "a job was queued before it" if ahead else ""
        return Because(
            WaitCause.QUEUED_BEHIND,
            f"{occupied} of run {run.run_id}, and {place or 'it is the next'}",
            "The next runner that is done takes the oldest job.",
        )
    if RefusalRule.STARTING in rules:
        open_ = [one for one in run.provisions if one.state is OPEN]
        if open_:
            wait = await explain_provision(view, open_[0])
            return Because(wait.cause, wait.because, wait.next, wait.seconds_left)
        return Because(WaitCause.BOOTING, "the runners of its run are getting ready", "One of them takes the job.")
    if RefusalRule.CAPABILITY in rules:
        return Because(
            WaitCause.NO_MATCH,
            f"no runner of run {run.run_id} has the capability {job.own_capability!r}",
            "Add it to agent.capabilities, or submit the job without --capability.",
        )
    return await _lost(view, run)


async def _held_back(view: PoolView, job: Job) -> Because:
    assert job.not_before is not None
    left = max((job.not_before - view.now).total_seconds(), 0.0)
    story = await view.story(job.id)
    if story and story[-1].step == "postpone":
        return Because(
            WaitCause.BOOTING,
            story[-1].why,
            f"At {job.not_before:%H:%M:%S}Z any runner may have it.",
            left,
        )
    why = story[-1].why if story else "its runner was lost"
    return Because(
        WaitCause.RUNNER_LOST,
        f"{why}; it was lost {job.losses} of {view.settings.liveness.losses} times",
        f"Another runner of its run may have it from {job.not_before:%H:%M:%S}Z on.",
        left,
    )


async def without_runners(view: PoolView, run: RunSituation) -> Because:
    open_ = [one for one in run.provisions if one.state is OPEN]
    if open_:
        wait = await explain_provision(view, open_[0])
        return Because(wait.cause, wait.because, wait.next, wait.seconds_left)
    ends = f"It fails after {view.settings.liveness.wait_for_runner:g} s without a runner (liveness.wait-for-runner)."
    if not run.provisions:
        return Because(
            WaitCause.NO_MATCH,
            f"no provision was ever requested for run {run.run_id}, so it has no runner",
            f"Provision the run. {ends}",
        )
    # A refusal by a pause leaves no record of the provision that would have replaced a lost runner.
    kept = next((one for one in run.provisions if one.state is COMMITTED and one.members and not one.is_over), None)
    if kept is not None and (pause := await view.pause_of(kept.needs.resource_class)) is not None:
        return Because(WaitCause.PAUSED, words_of(pause), f"{resume_text(pause)} A lost runner is replaced then.")
    last = run.provisions[0]
    if last.state is ABORTED:
        return await explain_failed(view, last)
    if kept is not None:
        which = f"run {run.run_id} has lost its runners, and did not give them back"
        return Because(WaitCause.RUNNER_LOST, which, f"`bullpen run` replaces a lost runner. {ends}")
    return Because(
        WaitCause.RUN_OVER, f"run {run.run_id} has given back its runners", f"Provision the run again. {ends}"
    )


async def _lost(view: PoolView, run: RunSituation) -> Because:
    count = len(run.instances)
    which = f"the only runner of run {run.run_id} shows" if count == 1 else f"none of the {count} runners shows"
    if view.settings.agent.serve_url and not await view.services():
        return Because(
            WaitCause.NO_SERVER,
            f"its runners work through {view.settings.agent.serve_url}, and no server runs",
            "Start `bullpen serve`: the runners go on at once.",
        )
    return Because(
        WaitCause.RUNNER_LOST,
        f"{which} a sign of life",
        "`bullpen run` replaces a lost runner. Otherwise provision the run again: silent runners are replaced.",
    )


def _is_before(other: Job, job: Job) -> bool:
    if other.id == job.id or other.queued_at is None or job.queued_at is None:
        return False
    return (other.queued_at, other.index, other.id) < (job.queued_at, job.index, job.id)
