"""Activity: the job of GitHub that a runner executes, as its worker reports it with every beat.

The job that the last accepted beat names is the current one; a beat without a job clears it. So the record of a lost
worker has the job that it ran. A runner has one job at a time.

The runner of a scale set is registered for one job only. While it waits for that job, the beat has a `Listening` in the
same place: which registration of the CI the agent listens with. A beat has one of them or neither, so a member of a set
counts as idle only while a living agent reports it.

A runner prepares its job for minutes before its hook says which one it is. Meanwhile the beat has an activity without
repository and run: every process knows that the runner is busy, and only GitHub's messages say with what.
"""

import json
from dataclasses import asdict, fields

from bullpen.lazy_dataclass import dataclass

LONGEST = 1000
"""Characters of an activity: it travels with every beat."""
CUTS = (200, 100, 50, 25)
"""Characters to which each part is cut, from ample to what always fits: a character may take six on the way."""


@dataclass(frozen=True, slots=True)
class Activity:
    repository: str  # owner/name
    run: str  # GitHub's id of the run
    attempt: int
    label: str  # the label of the job, which is the run id in Bullpen
    runner: str  # the name of the runner at GitHub
    job: str = ""  # the job's key in its workflow: equal for all jobs of a matrix

    @property
    def is_named(self) -> bool:
        """Whether the agent knows which job it is."""
        return bool(self.run)

    def text(self) -> str:
        """As it travels: one line of at most LONGEST characters, each part cut if need be."""
        return next(text for most in CUTS if len(text := self._cut(most)) <= LONGEST)

    def _cut(self, most: int) -> str:
        cut = {name: value[:most] if isinstance(value, str) else value for name, value in asdict(self).items()}
        return json.dumps(cut, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Listening:
    """A runner of a scale set that waits for its job: its name and its id at the CI, and the digest of the rules by
    which it will judge the job. The third part of the name is the beginning of the round in which it registered."""

    listens: str
    id: int
    rules: str

    def is_of(self, round: str) -> bool:
        parts = self.listens.split(".")
        return len(parts) > 2 and bool(parts[2]) and round.startswith(parts[2])

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def unnamed(label: str, runner: str) -> Activity:
    """The job that the CI has given to a runner, before its hook has said which one."""
    return Activity(repository="", run="", attempt=0, label=label, runner=runner)


def parse_listening(text: str) -> Listening | None:
    """None for an empty text, for an activity, and for anything else."""
    if not text or len(text) > LONGEST:
        return None
    try:
        found = json.loads(text)
        if set(found) != {field.name for field in fields(Listening)} or type(found["id"]) is not int:
            return None
        if not isinstance(found["listens"], str) or not isinstance(found["rules"], str):
            return None
        return Listening(**found)
    except (ValueError, TypeError, RecursionError):
        return None


def names_job(text: str) -> bool:
    """Whether a beat may name a job. A text that cannot be read counts: an agent of another version may write it, and
    a job must not be overlooked. A runner that waits for a job has none."""
    return bool(text) and parse_listening(text) is None


def named_runner(text: str) -> str:
    """The name of the runner that a beat says has a job or waits for one; empty: none."""
    job, listening = parse(text), parse_listening(text)
    return job.runner if job is not None else listening.listens if listening is not None else ""


def parse(text: str) -> Activity | None:
    """None for an empty text, and for one that is not an activity: a worker can write anything."""
    if not text or len(text) > LONGEST:
        return None
    try:
        found = json.loads(text)
        if set(found) != {field.name for field in fields(Activity)} or type(found["attempt"]) is not int:
            return None
        if not all(isinstance(value, str) for name, value in found.items() if name != "attempt"):
            return None
        return Activity(**found)
    except (ValueError, TypeError, RecursionError):
        return None
