"""Activity note: one action of refresh, of a loop of `bullpen serve` or of an operator, with its reason."""

from datetime import datetime

from bullpen.lazy_dataclass import dataclass

NOTE_LENGTH = 500
"""Bytes of each text that a note keeps, in UTF-8."""


@dataclass(frozen=True, slots=True)
class ActionNote:
    """`by` is the process and its controller (`serve/reap`, `refresh`), `did` what it did to `subject`. `is_done` is
    False for what could not be done or is only announced; `trouble` marks what an operator should look at."""

    at: datetime
    by: str
    did: str
    subject: str
    reason: str = ""
    is_done: bool = True
    trouble: bool = False

    def matches(self, by: str, did: str, containing: str) -> bool:
        """Whether it fits filters, of which empty ones fit all. `by` is a process, with all its controllers, or one of
        its controllers; `containing` a text in subject or reason, case ignored."""
        if by and self.by != by and not self.by.startswith(f"{by}/"):
            return False
        wanted = containing.casefold()
        return (not did or self.did == did) and wanted in f"{self.subject} {self.reason}".casefold()
