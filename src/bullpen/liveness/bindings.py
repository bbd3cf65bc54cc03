"""Which jobs a worker has taken up, has let go of, and must stop: what a beat says, held against the records."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.lazy_dataclass import dataclass
from bullpen.liveness.schema import Binding, HeartbeatRequest
from bullpen.model import job as jobs
from bullpen.model.job import RUNNING, Job
from bullpen.model.times import later
from bullpen.model.transition import Change
from bullpen.model.worker import Accepted
from bullpen.ports import Ports

BY = "heartbeat"
OLD_JOBS = 1000  # of lost epochs, named in the answer to a worker that came back


@dataclass(slots=True)
class _Claim:
    """What one worker says of one job."""

    worker: str
    epoch: int
    binding: Binding
    takes_up: bool = False
    lets_go: bool = False

    def holds(self, job: Job) -> bool:
        return job.state is RUNNING and self._assignment == (job.worker, job.epoch, job.fence)

    @property
    def _assignment(self) -> tuple[str, int, int]:
        return self.worker, self.epoch, self.binding.fence

    def change(self, job: Job, settings: Settings, now: datetime) -> Change[Job] | None:
        """What the claim of a holder changes; None if it is so already."""
        worker, epoch, fence = self._assignment
        if self.lets_go:
            until = later(now, settings.liveness.verify)
            let_go = jobs.LetGo(at=now, by=BY, worker=worker, epoch=epoch, fence=fence, verify_by=until)
            return jobs.unbind(job, let_go) if job.bound else None
        if self.takes_up and not job.bound:
            return jobs.bind(job, jobs.Holder(at=now, by=BY, worker=worker, epoch=epoch, fence=fence))
        return None


Stop = dict[str, None]
"""The jobs that one worker must stop, in order and each once."""


async def apply_bindings(
    ports: Ports, settings: Settings, accepted: Sequence[tuple[HeartbeatRequest, Accepted]], now: datetime
) -> list[tuple[str, ...]]:
    """Write what accepted beats say of jobs; returns the jobs to stop, for each beat in order."""
    stops: list[Stop] = [{} for _ in accepted]
    for (request, beat), stop in zip(accepted, stops, strict=True):
        if beat.resurrected:
            old = await ports.jobs.held(request.key, beat.epoch - 1, OLD_JOBS)
            stop |= dict.fromkeys(job.id for job in old)
    claims = [
        (claim, stop)
        for (request, beat), stop in zip(accepted, stops, strict=True)
        for claim in _claims(request, beat.epoch)
    ]
    if claims:
        found = await ports.jobs.jobs(list(dict.fromkeys(claim.binding.job_id for claim, _ in claims)))
        await _settle(ports, settings, [(claim, stop, found.get(claim.binding.job_id)) for claim, stop in claims], now)
    return [tuple(stop) for stop in stops]


async def _settle(
    ports: Ports, settings: Settings, open_: list[tuple[_Claim, Stop, Job | None]], now: datetime
) -> None:
    """Judge each claim by the record; one that moved meanwhile is judged again by what stands there now."""
    while open_:
        pending = []
        for claim, stop, job in open_:
            is_its_own = job is not None and claim.holds(job)
            if not claim.lets_go and (job is None or not is_its_own or job.cancelling):
                stop[claim.binding.job_id] = None
            if job is not None and is_its_own and (change := claim.change(job, settings, now)) is not None:
                pending.append((claim, stop, change))
        landed = await ports.records.apply_each([change for _, _, change in pending]) if pending else []
        open_ = [
            (claim, stop, outcome.found)
            for (claim, stop, _), outcome in zip(pending, landed, strict=True)
            if isinstance(outcome, Conflict)
        ]


def _claims(request: HeartbeatRequest, epoch: int) -> Iterable[_Claim]:
    """One per binding. A job taken up and let go of since the last beat ran in between: letting go wins."""
    claims: dict[Binding, _Claim] = {}
    for binding in (*request.running, *request.bound, *request.unbound):
        claims.setdefault(binding, _Claim(request.key, epoch, binding))
    for binding in request.bound:
        claims[binding].takes_up = True
    for binding in request.unbound:
        claims[binding].lets_go = True
    return claims.values()
