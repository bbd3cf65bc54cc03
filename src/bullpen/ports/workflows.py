"""The runs of a CI that has jobs of its own: how they stand, and what may be done about them.

Everything is asked of the CI when it matters: what a webhook said may be old, doubled, or missing. Lists may lag.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, Protocol

from bullpen.lazy_dataclass import dataclass


class Conclusion(StrEnum):
    """How a job ended, as far as it matters to Bullpen."""

    NONE = ""  # it has not
    SUCCESS = "success"  # also neutral and skipped
    FAILURE = "failure"  # also timed out: it failed by itself, or was given up for lost
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    repository: str
    run: str
    attempt: int  # the current one
    completed: bool
    conclusion: str = ""  # in the CI's own word
    head_sha: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowJob:
    id: int
    name: str
    attempt: int
    completed: bool
    conclusion: Conclusion = Conclusion.NONE
    runner: str = ""  # empty while it has none
    labels: tuple[str, ...] = ()
    started_at: datetime | None = None  # of several that one runner had, the last is what it lost
    completed_at: datetime | None = None

    @property
    def waits(self) -> bool:
        """True while it waits for a runner."""
        return not self.completed and not self.runner


class Workflows(Protocol):
    """Raise NotFound for an absent or invisible run, PermissionDenied naming the permission."""

    async def repository_id(self, repository: str) -> int:
        """The id of the repository that has this name at this time. Raise NotFound if none has it, or if the
        credentials may not see it."""

    async def run(self, repository: str, run: str) -> WorkflowRun:
        """How a run stands."""

    async def jobs(self, repository: str, run: str, attempt: int) -> list[WorkflowJob]:
        """Every job of an attempt."""

    async def waiting_jobs(self, repository: str, runs: int) -> list[WorkflowJob]:
        """Jobs that wait for a runner and for nothing else, in at most so many runs of a repository: those that were
        run again come first. Raise NotFound for a repository that is not visible."""

    async def groups_open_to(self, repository: str) -> list[str] | None:
        """The runner groups of the scope that admit a repository, by name; None where the scope has no groups."""

    async def deploying(self, run: WorkflowRun, jobs: list[WorkflowJob]) -> list[int]:
        """Ids of those jobs that have an environment: they must never be repeated by a machine."""

    async def rerun_job(self, repository: str, job: int) -> None:
        """Run one job of a completed run again, with those that need it. Raise Conflict if the run is not completed,
        or was run again since."""

    async def rerun_failed(self, repository: str, run: str) -> None:
        """Run all failed and cancelled jobs of a completed run again. Raise Conflict as above."""

    async def cancel(self, repository: str, run: str) -> None:
        """Ask for the end of a run. Ended already is success."""


class NoWorkflows:
    """For the embedded CI, whose jobs belong to no workflow run: no caller may ask."""

    async def run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(f"this CI has no workflow runs: {args} {kwargs}")

    repository_id = jobs = waiting_jobs = groups_open_to = deploying = rerun_job = rerun_failed = cancel = run
