"""Label: the `runs-on` of the jobs of a workflow run, and the run's id in Bullpen.

    4711                by default: every attempt and class of run 4711 shares it
    4711-2              attempt 2 only: a re-run meets no runner of the attempt before
    4711-large          class large only: two classes of one run do not share runners
    4711-2-large        both

A class name that is a number, or begins with a number and a dash, is ambiguous with an attempt: the settings refuse it
where the CI is GitHub. Run ids of the embedded CI do not have this form.
"""

import re

from bullpen.lazy_dataclass import dataclass

_FORM = re.compile(r"([1-9][0-9]{0,19})(?:-([1-9][0-9]{0,3}))?(?:-([A-Za-z0-9][A-Za-z0-9._-]{0,62}))?", re.ASCII)
AMBIGUOUS = re.compile(r"[0-9]+(-.*)?", re.ASCII)
"""Class names that are ambiguous with an attempt."""


@dataclass(frozen=True, slots=True)
class Label:
    run: str
    attempt: int = 0  # 0: any
    resource_class: str = ""  # empty: any

    def __str__(self) -> str:
        parts = (self.run, str(self.attempt) if self.attempt else "", self.resource_class)
        return "-".join(part for part in parts if part)

    def admits(self, run: str, attempt: int) -> bool:
        """True if a job of this run and attempt may have this label. A later attempt may: jobs that are run again keep
        the label of an earlier attempt."""
        return run == self.run and attempt >= self.attempt


def parse(text: str) -> Label | None:
    """None for a text that is not a label of a workflow run."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    run, attempt, resource_class = found.groups()
    return Label(run, int(attempt or 0), resource_class or "")
