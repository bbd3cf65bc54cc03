"""What the workflow controller reports: what it did, and what an operator must know."""

import asyncio
from dataclasses import field

from bullpen.lazy_dataclass import dataclass
from bullpen.structured_log import LogEvent, happened

AGAIN = 3600.0  # seconds until the same alarm is worth another line: a run is reconciled every minute


@dataclass(slots=True)
class ControllerReport:
    """`alarms` are for an operator, who has to act, or to know that Bullpen does not."""

    done: list[LogEvent] = field(default_factory=list)
    alarms: list[LogEvent] = field(default_factory=list)


class ReportCollector:
    """Collects the report until the controller takes it."""

    def __init__(self) -> None:
        self._report = ControllerReport()
        self._alarmed: dict[LogEvent, float] = {}
        """Recent alarms, and when they were raised."""

    def note(self, what: str, /, **fields: object) -> None:
        self._report.done.append(happened(what, **fields))

    def alarm(self, what: str, /, **fields: object) -> None:
        """Raise an alarm. The same one, with the same fields, is not repeated for a while."""
        alarm, time = happened(what, **fields), asyncio.get_running_loop().time()
        self._alarmed = {one: at for one, at in self._alarmed.items() if at > time - AGAIN}
        if alarm not in self._alarmed:
            self._alarmed[alarm] = time
            self._report.alarms.append(alarm)

    def take(self) -> ControllerReport:
        """Everything since the last call."""
        report, self._report = self._report, ControllerReport()
        return report
