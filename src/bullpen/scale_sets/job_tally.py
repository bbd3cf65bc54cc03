"""Jobs that the CI started and completed on runners of the scale sets, counted for metrics.

The labels are those of GitHub's own controller, as far as they are bounded. What the author of a workflow chooses
freely, such as the name of a job, is no label: any pull request could add one. Repositories are: of more than
`MOST_REPOSITORIES`, the rest is counted together.
"""

from collections import Counter

from bullpen.lazy_dataclass import dataclass
from bullpen.model.histogram import Histogram
from bullpen.ports import JobMessage, JobMessageKind

OTHER = "other"
MOST_REPOSITORIES = 40
MOST_TIMED = 40
"""Groups of jobs that have histograms of their own: each has 47 lines in the answer to a scrape."""

BOUNDS = (
    *(0.01, 0.05, 0.1, 0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 110),
    *(120, 150, 180, 210, 240, 300, 360, 420, 480, 540, 600, 900, 1200, 1800, 2400, 3000, 3600),
)
"""Seconds: the default buckets of GitHub's own controller."""

EVENTS = frozenset(
    {
        *("push", "pull_request", "pull_request_target", "schedule", "workflow_dispatch", "repository_dispatch"),
        *("workflow_call", "workflow_run", "merge_group", "release", "create", "delete", "deployment", "check_run"),
        *(
            "deployment_status",
            "issues",
            "issue_comment",
            "label",
            "milestone",
            "page_build",
            "public",
            "registry_package",
        ),
        *("pull_request_review", "pull_request_review_comment", "discussion", "discussion_comment", "fork", "gollum"),
        *("status", "registry_package", "branch_protection_rule", "check_suite", "dynamic"),
    }
)
RESULTS = frozenset({"succeeded", "succeededwithissues", "failed", "canceled", "skipped", "abandoned"})


@dataclass(frozen=True, slots=True)
class JobGroup:
    """What jobs that count together have in common. `result` is empty for started ones."""

    organization: str
    repository: str
    event: str
    result: str = ""


class JobTally:
    """What one process has heard. Bounded, whatever it hears."""

    def __init__(self) -> None:
        self.started: Counter[JobGroup] = Counter()
        self.completed: Counter[JobGroup] = Counter()
        self.startup: dict[JobGroup, Histogram] = {}
        self.execution: dict[JobGroup, Histogram] = {}
        self._repositories: set[str] = set()

    def note(self, job: JobMessage) -> None:
        """Take in one entry of a message. A job that lapsed or was cancelled before it had a runner is not counted: the
        CI reports it as completed, without one."""
        if job.kind is JobMessageKind.STARTED:
            group = self._group(job)
            self.started[group] += 1
            if job.assigned_at is not None and job.started_at is not None:
                _observe(self.startup, group, (job.started_at - job.assigned_at).total_seconds())
        elif job.kind is JobMessageKind.COMPLETED and job.runner:
            group = self._group(job, _known(job.result.lower(), RESULTS))
            self.completed[group] += 1
            if job.started_at is not None and job.finished_at is not None:
                _observe(self.execution, group, (job.finished_at - job.started_at).total_seconds())

    def _group(self, job: JobMessage, result: str = "") -> JobGroup:
        name = job.repository.casefold()
        if name not in self._repositories and len(self._repositories) < MOST_REPOSITORIES:
            self._repositories.add(name)
        organization, _, repository = (
            job.repository.partition("/") if name in self._repositories else (OTHER, "", OTHER)
        )
        return JobGroup(organization, repository, _known(job.event, EVENTS), result)


def _known(word: str, words: frozenset[str]) -> str:
    return word if word in words else OTHER


def _observe(histograms: dict[JobGroup, Histogram], group: JobGroup, seconds: float) -> None:
    if group not in histograms and len(histograms) >= MOST_TIMED:
        group = JobGroup(OTHER, OTHER, OTHER, OTHER if group.result else "")
    histograms.setdefault(group, Histogram(BOUNDS)).observe(max(seconds, 0.0))
