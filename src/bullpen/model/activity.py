"""Activity: the job that a runner executes for a CI which has jobs of its own, as its worker says it with every beat.

Bound is what the last accepted beat names; a beat that names nothing unbinds it. So a worker that is lost takes along
exactly what it ran, and whoever deals with the loss needs to ask nobody for it. A runner has one job at a time.
"""

import json
from dataclasses import asdict, dataclass, fields

LONGEST = 1000
"""Characters of an activity: it travels with every beat."""
CUTS = (200, 100, 50, 25)
"""Characters of each part, from what nobody needs more of to what always fits: one may take six on the way."""


@dataclass(frozen=True, slots=True)
class Activity:
    repository: str  # owner/name
    run: str  # the CI's number of the run
    attempt: int
    label: str  # what the job asked for, which is our run id
    runner: str  # the name by which the CI knows the runner
    job: str = ""  # the job's key in its workflow: equal for all jobs of a matrix

    def text(self) -> str:
        """As it travels: one line of at most LONGEST characters, each part cut if need be."""
        return next(text for most in CUTS if len(text := self._cut(most)) <= LONGEST)

    def _cut(self, most: int) -> str:
        cut = {name: value[:most] if isinstance(value, str) else value for name, value in asdict(self).items()}
        return json.dumps(cut, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def parse(text: str) -> Activity | None:
    """None for nothing, and for what is no activity: a worker may write anything."""
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
