"""Traces: where the report of each provision also goes, if the settings name a receiver."""

from typing import Protocol

from bullpen.model.report import ProvisionReport


class Traces(Protocol):
    def note(self, report: ProvisionReport) -> None:
        """Have the trace of a provision that has ended sent. Returns at once and never raises: no provision waits for a
        receiver or fails for it. What cannot be sent is dropped."""


class NoTraces:
    """Switched off, which is the default."""

    def note(self, report: ProvisionReport) -> None:
        return
