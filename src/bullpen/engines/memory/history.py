"""History in memory."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import islice

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.tables import Tables
from bullpen.lazy_dataclass import dataclass
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport
from bullpen.model.usage import Booking, Meter, UsageRow
from bullpen.ports import HistoryPage

UsageKey = tuple[str, ...]


@dataclass(slots=True)
class Ledger:
    """What all processes share."""

    reports: dict[str, ProvisionReport] = field(default_factory=dict)
    notes: list[ActionNote] = field(default_factory=list)
    forgotten: int = 0  # notes that were removed: the number of the first one that is left
    meters: dict[str, Meter] = field(default_factory=dict)
    usage: dict[UsageKey, UsageRow] = field(default_factory=dict)
    order: list[UsageKey] = field(default_factory=list)

    def add(self, row: UsageRow) -> None:
        key = _key(row)
        if key not in self.usage:
            insort(self.order, key)
            self.usage[key] = row
        else:
            total = self.usage[key].microseconds + row.microseconds
            self.usage[key] = replace(row, microseconds=total)


def _key(row: UsageRow) -> UsageKey:
    texts = (row.owner, row.run_id, row.repository, row.resource_class, row.instance_type, row.usage_class)
    return row.hour.isoformat(), *map(str, texts)


class MemoryHistory:
    def __init__(self, ledger: Ledger, tables: Tables, faults: Faults) -> None:
        self._ledger = ledger
        self._tables = tables
        self._faults = faults

    @request("history.note_provision")
    def note_provision(self, report: ProvisionReport) -> None:
        self._ledger.reports[report.id] = report

    @request("history.reports")
    def reports(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[ProvisionReport]:
        found = {_sort_key(one): one for one in self._ledger.reports.values() if since <= one.ended_at < until}
        keys = sorted((key for key in found if not after or key < after), reverse=True)
        return HistoryPage(tuple(found[key] for key in keys[:limit]), keys[limit - 1] if len(keys) > limit else "")

    @request("history.report")
    def report(self, provision_id: str) -> ProvisionReport | None:
        return self._ledger.reports.get(provision_id)

    @request("history.note_actions")
    def note_actions(self, notes: Sequence[ActionNote]) -> None:
        self._ledger.notes += notes

    @request("history.actions")
    def actions(
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
        ledger = self._ledger
        end = int(before) - ledger.forgotten if before.isdecimal() else len(ledger.notes)
        found: list[ActionNote] = []
        for at in range(min(max(end, 0), len(ledger.notes)) - 1, -1, -1):
            note = ledger.notes[at]
            if since <= note.at < until and note.matches(by, did, containing):
                found.append(note)
                if len(found) == limit:
                    return HistoryPage(tuple(found), str(at + ledger.forgotten) if at else "")
        return HistoryPage(tuple(found))

    @request("history.meters")
    def meters(self, ids: Sequence[str]) -> dict[str, Meter]:
        found = {id: self._ledger.meters[id] for id in ids if id in self._ledger.meters}
        return {id: meter for id, meter in found.items() if not meter.over}

    @request("history.open_meters")
    def open_meters(self, limit: int, after: str = "") -> list[Meter]:
        meters = self._ledger.meters
        return list(islice((meters[id] for id in sorted(meters) if id > after and not meters[id].over), limit))

    @request("history.over")
    def over(self, ids: Sequence[str]) -> list[str]:
        meters = self._ledger.meters
        return [id for id in dict.fromkeys(ids) if id in meters and meters[id].over]

    @request("history.unbooked")
    def unbooked(self, limit: int) -> list[str]:
        return list(islice(self._tables.unbooked, limit))

    @request("history.book")
    def book(self, bookings: Sequence[Booking]) -> list[bool]:
        return [self._book(booking) for booking in bookings]

    def _book(self, booking: Booking) -> bool:
        after = booking.after
        stored = self._ledger.meters.get(after.instance_id)
        if stored != booking.before or (stored is not None and stored.over):
            return False
        self._ledger.meters[after.instance_id] = after
        for row in booking.rows:
            self._ledger.add(row)
        if after.over:
            self._tables.unbooked.pop(after.instance_id, None)
        return True

    @request("history.usage")
    def usage(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[UsageRow]:
        ledger = self._ledger
        rows: list[UsageRow] = []
        start = bisect_left(ledger.order, (since.isoformat(),))
        for at in range(int(after) if after else start, len(ledger.order)):
            row = ledger.usage[ledger.order[at]]
            if row.hour >= until:
                break
            rows.append(row)
            if len(rows) == limit:
                return HistoryPage(tuple(rows), str(at + 1))
        return HistoryPage(tuple(rows))

    @request("history.forget")
    def forget(self, before: datetime, limit: int) -> int:
        ledger = self._ledger
        rows = [key for key in ledger.order if ledger.usage[key].hour < before][:limit]
        for key in rows:
            ledger.order.remove(key)
            del ledger.usage[key]
        reports = [id for id, one in ledger.reports.items() if one.ended_at < before][: limit - len(rows)]
        over = [id for id, one in ledger.meters.items() if one.over and one.until < before][:limit]
        for id in reports:
            del ledger.reports[id]
        for id in over:
            del ledger.meters[id]
        notes = 0
        while notes < len(ledger.notes) and ledger.notes[notes].at < before:
            notes += 1
        del ledger.notes[:notes]
        ledger.forgotten += notes
        return len(rows) + len(reports) + len(over) + notes


def _sort_key(report: ProvisionReport) -> str:
    return f"{report.ended_at.isoformat(timespec='microseconds')} {report.id}"
