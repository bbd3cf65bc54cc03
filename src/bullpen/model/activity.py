"""Activity: the job of GitHub that a runner executes, as its worker reports it with every beat.

The job that the last accepted beat names is the current one; a beat without a job clears it. So the record of a lost
worker has the job that it ran. A runner has one job at a time.
"""

import json
from dataclasses import asdict, dataclass, fields

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

    def text(self) -> str:
        """As it travels: one line of at most LONGEST characters, each part cut if need be."""
        return next(text for most in CUTS if len(text := self._cut(most)) <= LONGEST)

    def _cut(self, most: int) -> str:
        cut = {name: value[:most] if isinstance(value, str) else value for name, value in asdict(self).items()}
        return json.dumps(cut, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


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
