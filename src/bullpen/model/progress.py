"""How far a use case has come, reported while it works.

`phase` and the numbers are for programs, `text` is for people. A report of the same phase about the same thing with the
same numbers is a tick: a log shows the first one, a terminal the last.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass


class WorkPhase(StrEnum):
    # of a provision, in order; these are timed
    SELECT = "select"  # it waits for runners of the pool
    CREATE = "create"  # it waits for new machines to be launched
    REGISTER = "register"  # it waits for new machines to boot and register
    ACQUIRE = "acquire"  # the three above together: runners are waited for side by side
    SETTLE = "settle"  # its decision is carried out: committed, or everything given back
    # other work
    CONNECT = "connect"  # a server does not answer, and is asked again
    SYNC = "sync"  # the files of a project are read, and what changed is sent
    QUEUE = "queue"  # a provision waits for room under a cap, or for another provision of the run
    EVICT = "evict"  # it ends idle runners to make room
    REPLACE = "replace"  # a lost runner is replaced
    RELEASE = "release"  # runners deregister and clean
    JOBS = "jobs"  # the jobs of a run execute
    LOSE = "lose"  # a runner is lost, and its jobs go to others
    CANCEL = "cancel"  # the jobs of a run are cancelled
    REFRESH = "refresh"  # refresh performs an action
    END = "end"  # instances are ended
    STOP = "stop"  # a signal arrived: the work stops


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """`waiting` counts the places of a provision by the phase that each waits for. `about` is what the phase concerns
    where it may concern several things: the setting of a cap, the key of a worker, the kind of an action."""

    phase: WorkPhase
    text: str
    done: int = 0
    total: int = 0
    waiting: Mapping[WorkPhase, int] = field(default_factory=dict)
    about: str = ""


Tell = Callable[[ProgressReport], None]
"""Takes a report."""

AWAITED = {
    WorkPhase.SELECT: "a runner of the pool",
    WorkPhase.CREATE: "a new machine",
    WorkPhase.REGISTER: "a machine that boots and registers",
}
"""What a place waits for, in words."""


def acquiring(done: int, total: int, waiting: Mapping[WorkPhase, int]) -> ProgressReport:
    """A provision acquires its runners."""
    awaited = {phase: count for phase, count in waiting.items() if count}
    waits = ", ".join(f"{count} for {AWAITED[phase]}" for phase, count in awaited.items())
    text = f"{done} of {total} ready" + (f"; waiting: {waits}" if waits else "")
    return ProgressReport(WorkPhase.ACQUIRE, text, done, total, awaited)
