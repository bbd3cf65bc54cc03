"""Why the jobs of a scale set wait for a runner: as the process that listens to the set has written it down.

The cause is decided where the runners are supplied (`scale_sets.wait_reason`), and kept beside each job. What no holder
can write is decided here: that no process listens at all.
"""

from datetime import datetime

from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import Because, resume_text
from bullpen.inventory.sets import listens
from bullpen.model.pause import Pause
from bullpen.model.scale_set import READY, RETIRED, RETIRING, ScaleSet
from bullpen.model.set_session import SetSession, WaitingJob
from bullpen.model.wait import ExplainedWait, WaitCause, WaitKind, cause_named

START = "Start `bullpen serve`: it listens to the set, and its jobs get runners."
ASK = "Ask again in a moment: a server decides within seconds what it does about a job."
NEXT = {
    WaitCause.CAP: "It gets the next runner of the set that is done with its job.",
    WaitCause.NO_CAPACITY: "A server asks for machines again.",
    WaitCause.BOOTING: "The runner registers at GitHub, which gives it the job.",
    WaitCause.GITHUB_OUTAGE: "A server asks GitHub again, and goes on as soon as it answers.",
    WaitCause.GITHUB_LIMIT: "A server goes on when GitHub's limit resets.",
    WaitCause.PAUSED: "It has been resumed: a server goes on within seconds.",
    WaitCause.IMAGE_RETIRED: "Build an image with a current runner, and raise image-generation of the class.",
}


async def explain_sets(view: PoolView, only: str = "") -> list[ExplainedWait]:
    """The jobs that wait for runners of scale sets, and the sets that cannot be served; of one set, if named."""
    sets = await view.ports.records.scale_sets()
    if not sets:
        return []
    sessions = await view.ports.records.set_sessions()
    found: list[ExplainedWait] = []
    for name, one in sorted(sets.items()):
        if one.state is RETIRED or (only and name != only):
            continue
        session = sessions.get(name)
        why = _unserved(view, one, session)
        pause = await view.pause_of(one.rules.resource_class)
        jobs = [_of_job(one, job, why, pause) for job in session.waiting] if session is not None else []
        found += jobs or ([_of_set(one, session, why)] if why is not None else [])
    return found


def _unserved(view: PoolView, one: ScaleSet, session: SetSession | None) -> Because | None:
    """Why no job of the set gets a runner at all; None if a process listens and GitHub answers."""
    if one.state is RETIRING:
        gone = "the settings do not have the set any more: it gets no new job"
        return Because(WaitCause.NO_MATCH, gone, "Describe it in the settings again, or correct runs-on.")
    if session is None:
        return Because(WaitCause.NO_SERVER, "no `bullpen serve` has listened to the set yet", START)
    if session.failing_since is not None:
        cause = next((cause_named(job.cause) for job in session.waiting if not job.lapses), WaitCause.GITHUB_OUTAGE)
        cause = cause if cause is WaitCause.GITHUB_LIMIT else WaitCause.GITHUB_OUTAGE
        return Because(cause, session.why or "GitHub does not answer", NEXT[cause])
    if not listens(view.now, view.settings, session):
        who = f"{session.holder} does not renew its session" if session.holder else "no process listens to the set"
        return Because(WaitCause.NO_SERVER, who, START)
    if one.state is not READY:
        return Because(
            WaitCause.NO_MATCH, "GitHub does not have the set, or does not have it any more", "A server creates it."
        )
    return None


def _of_job(one: ScaleSet, job: WaitingJob, unserved: Because | None, pause: Pause | None) -> ExplainedWait:
    cause = cause_named(job.cause)
    then = resume_text(pause) if pause is not None and cause is WaitCause.PAUSED else NEXT.get(cause, ASK)
    why = unserved or Because(cause, job.why or "no runner has taken it yet", then)
    named = f"job {job.name} of run {job.run}" if job.run else "a job that no message named"
    return _wait(one, named, WaitKind.JOB, job.since, why, job)


def _of_set(one: ScaleSet, session: SetSession | None, why: Because) -> ExplainedWait:
    since = session.failing_since or session.beat_at if session is not None else None
    return _wait(one, one.name, WaitKind.SET, since, why)


def _wait(
    one: ScaleSet, subject: str, kind: WaitKind, since: datetime | None, why: Because, job: WaitingJob | None = None
) -> ExplainedWait:
    return ExplainedWait(
        subject=subject,
        kind=kind,
        cause=why.cause,
        because=why.because,
        next=why.next,
        run_id=job.run if job is not None else "",
        repository=job.repository if job is not None else "",
        resource_class=one.rules.resource_class,
        since=since,
    )
