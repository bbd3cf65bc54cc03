"""What the workflow controller reports: what it did, and what an operator must know."""

import asyncio
from dataclasses import field

from bullpen.lazy_dataclass import dataclass

AGAIN = 3600.0  # seconds until the same alarm is worth another line: a run is reconciled every minute


@dataclass(slots=True)
class ControllerReport:
    """`alarms` are sentences for an operator, who has to act, or to know that Bullpen does not."""

    done: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


class ReportCollector:
    """Collects the report until the controller takes it."""

    def __init__(self) -> None:
        self._report = ControllerReport()
        self._alarmed: dict[str, float] = {}
        """Recent alarms, and when they were raised."""

    def note(self, line: str) -> None:
        self._report.done.append(line)

    def alarm(self, line: str) -> None:
        """Raise an alarm. The same sentence is not repeated for a while."""
        time = asyncio.get_running_loop().time()
        self._alarmed = {line: at for line, at in self._alarmed.items() if at > time - AGAIN}
        if line not in self._alarmed:
            self._alarmed[line] = time
            self._report.alarms.append(line)

    def take(self) -> ControllerReport:
        """Everything since the last call."""
        report, self._report = self._report, ControllerReport()
        return report
