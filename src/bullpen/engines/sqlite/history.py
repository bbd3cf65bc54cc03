"""History in SQLite: a table each for reports, activity, meters and usage. A booking is one transaction."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import MsgspecError, json

from bullpen.engines.sqlite.port import SqlitePort
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import Row
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport
from bullpen.model.ticket import UsageClass
from bullpen.model.times import from_micros, to_micros
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from bullpen.ports import HistoryPage
from bullpen.structured_log import get_logger

REPORTS_KEPT, NOTES_KEPT, ROWS_KEPT = 100_000, 200_000, 1_000_000
"""The newest that stay, however long the history is kept: at most some hundred megabytes of a home."""

BOOKED_TOGETHER = 100
READ_TOGETHER = 1000
LAST = 2**62  # beyond the number of every note

NOTE_REPORT = "REPLACE INTO reports (id, ended_at, report) VALUES (?, ?, ?)"
REPORT = "SELECT report FROM reports WHERE id = ?"
REPORTS = (
    "SELECT ended_at, id, report FROM reports WHERE ended_at >= ? AND ended_at < ?"
    " AND (ended_at, id) < (?, ?) ORDER BY ended_at DESC, id DESC LIMIT ?"
)
_NOTE = "at, by, did, subject, reason, is_done, trouble"
NOTE_ACTION = f"INSERT INTO activity_notes ({_NOTE}) VALUES (?, ?, ?, ?, ?, ?, ?)"
ACTIONS = f"SELECT number, {_NOTE} FROM activity_notes WHERE number < ? ORDER BY number DESC LIMIT ?"
_METER = "instance_id, revision, until, owner, version, run_id, repository"
METER = f"SELECT {_METER} FROM meters WHERE instance_id = ? AND over = 0"
OPEN_METERS = f"SELECT {_METER} FROM meters WHERE over = 0 AND instance_id > ? ORDER BY instance_id LIMIT ?"
OVER = "SELECT instance_id FROM meters WHERE instance_id = ? AND over = 1"
UNBOOKED = "SELECT id FROM instances WHERE purge_at IS NOT NULL AND booked = 0 ORDER BY purge_at LIMIT ?"
FIRST = f"INSERT INTO meters ({_METER}, over) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
NEXT = (
    "UPDATE meters SET revision = ?, until = ?, owner = ?, version = ?, run_id = ?, repository = ?, over = ?"
    " WHERE instance_id = ? AND revision = ? AND over = 0"
)
BOOKED = "UPDATE instances SET booked = 1 WHERE id = ?"
_KEY = "hour, owner, run_id, repository, resource_class, instance_type, usage_class"
ADD = f"UPDATE usage SET microseconds = microseconds + ? WHERE ({_KEY}) = (?, ?, ?, ?, ?, ?, ?)"
FIRST_OF_HOUR = f"INSERT INTO usage (microseconds, {_KEY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
USAGE = f"SELECT {_KEY}, microseconds FROM usage WHERE hour >= ? AND hour < ? ORDER BY {_KEY} LIMIT ?"
USAGE_AFTER = USAGE.replace(" ORDER BY", f" AND ({_KEY}) > (?, ?, ?, ?, ?, ?, ?) ORDER BY")
FORGET = (
    "DELETE FROM usage WHERE number IN (SELECT number FROM usage WHERE hour < ? LIMIT ?)",
    "DELETE FROM reports WHERE number IN (SELECT number FROM reports WHERE ended_at < ? LIMIT ?)",
    "DELETE FROM activity_notes WHERE number IN (SELECT number FROM activity_notes WHERE at < ? LIMIT ?)",
    "DELETE FROM meters WHERE instance_id IN (SELECT instance_id FROM meters WHERE over = 1 AND until < ? LIMIT ?)",
)
TOO_MANY = tuple(
    (f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", kept)
    for table, kept in (("usage", ROWS_KEPT), ("reports", REPORTS_KEPT), ("activity_notes", NOTES_KEPT))
)

_REPORT = json.Decoder(ProvisionReport)
log = get_logger("bullpen.engines.sqlite")


class SqliteHistory(SqlitePort):
    async def note_provision(self, report: ProvisionReport) -> None:
        row = (report.id, to_micros(report.ended_at), json.encode(report).decode())

        def note(transaction: Transaction) -> None:
            transaction.begin_work()  # the last free space belongs to the ends of work
            transaction.execute(NOTE_REPORT, row)

        await self._database.write(note)

    async def reports(
        self, since: datetime, until: datetime, limit: int, after: str = ""
    ) -> HistoryPage[ProvisionReport]:
        ended, _, id_ = after.partition(" ")
        place = (int(ended), id_) if after else (to_micros(until), "")
        rows = await self._rows(REPORTS, to_micros(since), to_micros(until), *place, limit)
        read = [one for one in (_decoded(report) for *_, report in rows) if one is not None]
        return HistoryPage(tuple(read), f"{rows[-1][0]} {rows[-1][1]}" if len(rows) == limit else "")

    async def report(self, provision_id: str) -> ProvisionReport | None:
        rows = await self._rows(REPORT, provision_id)
        return _decoded(rows[0][0]) if rows else None

    async def note_actions(self, notes: Sequence[ActionNote]) -> None:
        rows = [
            (to_micros(one.at), one.by, one.did, one.subject, one.reason, int(one.is_done), int(one.trouble))
            for one in notes
        ]

        def note(transaction: Transaction) -> None:
            transaction.begin_work()
            transaction.executemany(NOTE_ACTION, rows)

        if rows:
            await self._database.write(note)

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
        """Filtered here: what a filter means is said in one place. A page reads a bounded number of notes."""
        place = min(int(before), LAST) if before.isdecimal() else LAST
        rows = await self._rows(ACTIONS, place, max(limit, READ_TOGETHER) if by or did or containing else limit)
        found: list[ActionNote] = []
        for number, *row in rows:
            place, note = number, _note_of(row)
            if note.at < since:
                return HistoryPage(tuple(found))
            if note.at < until and note.matches(by, did, containing):
                found.append(note)
                if len(found) == limit:
                    break
        return HistoryPage(tuple(found), str(place) if len(rows) >= limit and place > 1 else "")

    async def meters(self, ids: Sequence[str]) -> dict[str, Meter]:
        return {row[0]: _meter(row) for row in await self._of_each(METER, ids)}

    async def open_meters(self, limit: int, after: str = "") -> list[Meter]:
        return [_meter(row) for row in await self._rows(OPEN_METERS, after, limit)]

    async def over(self, ids: Sequence[str]) -> list[str]:
        return [id_ for (id_,) in await self._of_each(OVER, ids)]

    async def unbooked(self, limit: int) -> list[str]:
        return [id_ for (id_,) in await self._rows(UNBOOKED, limit)]

    async def book(self, bookings: Sequence[Booking]) -> list[bool]:
        # In portions, because a function on the writer's thread must be short; at once, so that they share commits.
        portions = [bookings[at : at + BOOKED_TOGETHER] for at in range(0, len(bookings), BOOKED_TOGETHER)]
        answers = await asyncio.gather(*(self._database.write(partial(_book, some=some)) for some in portions))
        return [landed for answer in answers for landed in answer]

    async def usage(self, since: datetime, until: datetime, limit: int, after: str = "") -> HistoryPage[UsageRow]:
        range_ = (to_micros(since), to_micros(until))
        if after:
            rows = await self._rows(USAGE_AFTER, *range_, *json.decode(after), limit)
        else:
            rows = await self._rows(USAGE, *range_, limit)
        last = json.encode(rows[-1][:-1]).decode() if len(rows) == limit else ""
        return HistoryPage(tuple(_usage(row) for row in rows), last)

    async def forget(self, before: datetime, limit: int) -> int:
        def forget(transaction: Transaction) -> int:
            old = (to_micros(before), limit)
            gone = sum(transaction.execute(statement, old).rowcount for statement in FORGET)
            return gone + sum(transaction.execute(statement, (kept,)).rowcount for statement, kept in TOO_MANY)

        return await self._database.write(forget)

    async def _of_each(self, statement: str, ids: Sequence[str]) -> list[Row]:
        """The row of each instance that has one, all from one moment."""

        def read(snapshot: Snapshot) -> list[Row | None]:
            return [snapshot.execute(statement, (id_,)).fetchone() for id_ in dict.fromkeys(ids)]

        return [row for row in await self._database.read(read) if row is not None]


def _book(transaction: Transaction, some: Sequence[Booking]) -> list[bool]:
    return [_land(transaction, booking) for booking in some]


def _land(transaction: Transaction, booking: Booking) -> bool:
    before, after = booking.before, booking.after
    owner = (after.owner.value, after.version, after.run_id, after.repository, int(after.over))
    if before is None:
        first = (after.instance_id, after.revision, to_micros(after.until), *owner)
        landed = transaction.execute(FIRST, first).rowcount
    else:
        row = (after.revision, to_micros(after.until), *owner, after.instance_id, before.revision)
        landed = transaction.execute(NEXT, row).rowcount
    if not landed:
        return False
    for row in map(_row_of, booking.rows):
        if not transaction.execute(ADD, row).rowcount:
            transaction.execute(FIRST_OF_HOUR, row)
    if after.over:
        transaction.execute(BOOKED, (after.instance_id,))
    return True


def _row_of(row: UsageRow) -> Row:
    names = (row.run_id, row.repository, row.resource_class, row.instance_type)
    return row.microseconds, to_micros(row.hour), row.owner.value, *names, row.usage_class.value


def _usage(row: Row) -> UsageRow:
    hour, owner, run_id, repository, resource_class, instance_type, usage_class, microseconds = row
    names = (run_id, repository, resource_class, instance_type)
    return UsageRow(from_micros(hour), Owner(owner), *names, UsageClass(usage_class), microseconds)


def _meter(row: Row) -> Meter:
    instance_id, revision, until, owner, *rest = row
    return Meter(instance_id, revision, from_micros(until), Owner(owner), *rest)


def _note_of(row: Sequence[Any]) -> ActionNote:
    at, by, did, subject, reason, is_done, trouble = row
    return ActionNote(from_micros(at), by, did, subject, reason, is_done == 1, trouble == 1)


def _decoded(report: str) -> ProvisionReport | None:
    try:
        return _REPORT.decode(report)
    except MsgspecError as exc:
        log.warning("report ignored: this version cannot read it", error=str(exc))
        return None
