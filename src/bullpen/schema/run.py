"""A run: as it stands, and what became of one that `bullpen run` served."""

from bullpen.run import RunOutcome
from bullpen.schema.base import AnswerBody, WorkState, filled
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.job import JobAnswer, job_of


class RunAnswer(AnswerBody, frozen=True):
    """A run's instances and jobs as they stand."""

    run_id: str
    instances: list[InstanceAnswer]
    jobs: list[JobAnswer]


class RunResult(AnswerBody, frozen=True):
    """A run that was served to its end: its jobs, and what became of its instances, as a release answers."""

    run_id: str
    state: WorkState
    exit_code: int
    interrupted: bool
    jobs: list[JobAnswer]
    offered: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


def run_result_of(ran: RunOutcome) -> RunResult:
    return filled(
        RunResult,
        ran,
        ran.released,
        run_id=ran.outcome.run_id,
        state=WorkState.SUCCEEDED if ran.exit_code == 0 else WorkState.FAILED,
        jobs=[job_of(job) for job in ran.jobs],
    )
