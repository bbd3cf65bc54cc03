"""Label: what the jobs of a workflow run ask for in `runs-on`, and what Bullpen calls the run.

    4711                by default: every attempt and class of run 4711 shares it
    4711-2              attempt 2 only: a re-run meets no runner of the attempt before
    4711-large          class large only: two classes of one run do not share runners
    4711-2-large        both

A class whose name begins with a number and a dash, or is a number, cannot be told from an attempt: the settings refuse
it where the CI is GitHub. Run ids of other CIs are no labels of this form, and are left as they are.
"""

import re
from dataclasses import dataclass

_FORM = re.compile(r"([1-9][0-9]{0,19})(?:-([1-9][0-9]{0,3}))?(?:-([A-Za-z0-9][A-Za-z0-9._-]{0,62}))?", re.ASCII)
AMBIGUOUS = re.compile(r"[0-9]+(-.*)?", re.ASCII)
"""Class names that would pass for an attempt."""


@dataclass(frozen=True, slots=True)
class Label:
    run: str
    attempt: int = 0  # 0: any
    resource_class: str = ""  # empty: any

    def __str__(self) -> str:
        parts = (self.run, str(self.attempt) if self.attempt else "", self.resource_class)
        return "-".join(part for part in parts if part)

    def admits(self, run: str, attempt: int) -> bool:
        """Whether a job of this run and attempt may ask for it. A later attempt may: jobs that are run again keep the
        label that an earlier attempt was given."""
        return run == self.run and attempt >= self.attempt


def parse(text: str) -> Label | None:
    """None for what no label of a workflow run looks like."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    run, attempt, resource_class = found.groups()
    return Label(run, int(attempt or 0), resource_class or "")
