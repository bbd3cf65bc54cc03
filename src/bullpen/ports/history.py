"""History: what happened and what it cost. It is for people: no use case decides anything by it.

Reports and activity are kept as well as possible: a write that fails loses them. Usage is exact: a booking lands whole
and once, or not at all.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport
from bullpen.model.usage import Booking, Meter, UsageRow

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class HistoryPage(Generic[R]):
    """`next` is where the next page begins: give it back as it is. It is empty at the end. A page may have fewer rows
    than its limit, even none, and still have a next one."""

    rows: tuple[R, ...]
    next: str = ""


class History(Protocol):
    """A range of time is from `since` on and before `until`. Rows that another program wrote, or a newer version, are
    left out where they cannot be read."""

    async def note_provision(self, report: ProvisionReport) -> None:
        """Store the report of a call. The same id again replaces it, if it ended at the same time."""

    async def reports(
        self, since: datetime, until: datetime, limit: int, after: str = ""
    ) -> HistoryPage[ProvisionReport]:
        """Reports of calls that ended in the range, the newest first."""

    async def report(self, provision_id: str) -> ProvisionReport | None:
        """The report of a call. An index finds it, which may lag."""

    async def note_actions(self, notes: Sequence[ActionNote]) -> None:
        """Store these notes, given oldest first, in as few requests as possible."""

    async def actions(
        self,
        since: datetime,
        until: datetime,
        limit: int,
        before: str = "",
        *,
        by: str = "",
        did: str = "",
        containing: str = "",
    ) -> HistoryPage[ActionNote]:
        """Notes of the range, the newest first; `before` is the `next` of an earlier page. `by` is a process, with
        all its controllers, or one of them; `did` the exact action; `containing` a text in subject or reason, case
        ignored."""

    async def meters(self, ids: Sequence[str]) -> dict[str, Meter]:
        """The meters of these instances that are not over. Consistent."""

    async def open_meters(self, limit: int, after: str = "") -> list[Meter]:
        """All meters that are not over, in pages: by instance, after one. Consistent."""

    async def over(self, ids: Sequence[str]) -> list[str]:
        """Those of these instances whose meters are over: they are booked to their end. Consistent."""

    async def unbooked(self, limit: int) -> list[str]:
        """Instances that have ended and whose last booking has not landed. The index may lag: it names a machine some
        time after its end, or once more after its last booking."""

    async def book(self, bookings: Sequence[Booking]) -> list[bool]:
        """Land each booking whole, its meter and its time together; False, and nothing, for one whose meter is not
        `before` any more. A booking whose meter is over takes the instance off the list of `unbooked`. Of several
        bookings of one meter at once, one lands. A call has at most one booking of each instance. After an error some
        may have landed: read the meters again."""

    async def usage(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[UsageRow]:
        """Rows whose hour begins in the range, the oldest hour first. Consistent."""

    async def forget(self, before: datetime, limit: int) -> int:
        """Remove up to `limit` reports, notes and rows from before this time, and meters that have been over since
        before it; returns how many. Engines with a TTL answer 0."""


class NoHistory:
    """Keeps nothing."""

    async def note_provision(self, report: ProvisionReport) -> None: ...

    async def reports(
        self, since: datetime, until: datetime, limit: int, after: str = ""
    ) -> HistoryPage[ProvisionReport]:
        return HistoryPage(())

    async def report(self, provision_id: str) -> ProvisionReport | None:
        return None

    async def note_actions(self, notes: Sequence[ActionNote]) -> None: ...

    async def actions(
        self,
        since: datetime,
        until: datetime,
        limit: int,
        before: str = "",
        *,
        by: str = "",
        did: str = "",
        containing: str = "",
    ) -> HistoryPage[ActionNote]:
        return HistoryPage(())

    async def meters(self, ids: Sequence[str]) -> dict[str, Meter]:
        return {}

    async def open_meters(self, limit: int, after: str = "") -> list[Meter]:
        return []

    async def over(self, ids: Sequence[str]) -> list[str]:
        return []

    async def unbooked(self, limit: int) -> list[str]:
        return []

    async def book(self, bookings: Sequence[Booking]) -> list[bool]:
        return [False for _ in bookings]

    async def usage(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[UsageRow]:
        return HistoryPage(())

    async def forget(self, before: datetime, limit: int) -> int:
        return 0
