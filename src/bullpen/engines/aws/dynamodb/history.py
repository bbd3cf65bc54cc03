"""Reports and activity in DynamoDB, in partitions by day or month. Every item has a time to live.

    TYPE#Report#<day>      ID#<end>#<id>      a report, as JSON; found by its id through the index `run`
    TYPE#Activity#<month>  ID#<time>#<token>  up to a hundred notes, as JSON: a batch is one item and one write

The bookings of usage are in `usage.py`.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import MsgspecError, json

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.days import MONTH, partition, partitions
from bullpen.engines.aws.dynamodb.items import Item, moment, name_of, raw_id, raw_key, text
from bullpen.engines.aws.dynamodb.usage import DynamoUsage
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport
from bullpen.ports import HistoryPage
from bullpen.structured_log import get_logger

REPORT, ACTIVITY = "Report", "Activity"
NOTES_TOGETHER = 100
NOTES_BYTES = 200_000
"""Notes of one item, and their size: half of what an item may have. Longest texts and escapes would be more than it."""

ITEMS_PAGE = 20
"""Items of notes read at a time: a page of the activity is mostly one request."""

_REPORT, _NOTES = json.Decoder(ProvisionReport), json.Decoder(tuple[ActionNote, ...])
log = get_logger("bullpen.engines.aws")


class DynamoHistory(DynamoUsage):
    """`ports.History` on the table of a pool."""

    async def note_provision(self, report: ProvisionReport) -> None:
        ended = moment(report.ended_at)
        key = raw_key(f"{REPORT}#{partition(report.ended_at)}", f"{ended}#{report.id}")
        entry = {"runKey": text(f"REPORT#{report.id}"), "runSort": text(ended)}
        said = {"report": text(json.encode(report).decode()), "ttl": self._ttl(report.ended_at)}
        await self._table.put({**key, **entry, **said})

    async def reports(
        self, since: datetime, until: datetime, limit: int, after: str = ""
    ) -> HistoryPage[ProvisionReport]:
        found: list[ProvisionReport] = []
        place = after or moment(until)
        for day in reversed([*partitions(since, until)]):
            if day > place[: len(day)]:
                continue
            walk = self._table.walk(
                ("PK", f"TYPE#{REPORT}#{day}"), ("SK", "<", f"ID#{place}"), newest_first=True, page=limit
            )
            while not walk.over:
                for item in await walk.page():
                    place = raw_id(item)
                    if place < moment(since):
                        return HistoryPage(tuple(found))
                    if (report := _report_in(item)) is not None:
                        found.append(report)
                    if len(found) == limit:
                        return HistoryPage(tuple(found), place)
        return HistoryPage(tuple(found))

    async def report(self, provision_id: str) -> ProvisionReport | None:
        walk = self._table.walk(("runKey", f"REPORT#{provision_id}"), index="run", newest_first=True, page=1)
        for listed in await walk.first(1):
            item = await self._table.get({"PK": listed["PK"], "SK": listed["SK"]})
            return None if item is None else _report_in(item)
        return None

    async def note_actions(self, notes: Sequence[ActionNote]) -> None:
        await gather_or_cancel([self._note(portion) for portion in _portions(notes)])

    async def _note(self, notes: Sequence[ActionNote]) -> None:
        at = max(one.at for one in notes)
        key = raw_key(f"{ACTIVITY}#{partition(at, MONTH)}", f"{moment(at)}#{self._table.chance.token()}")
        await self._table.put({**key, "notes": text(json.encode(notes).decode()), "ttl": self._ttl(at)})

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
        """A page reads a bounded number of items. A place is an item, and how many of its notes are left."""
        place, _, left = before.rpartition("|")
        found: list[ActionNote] = []
        place = place or moment(until)
        for month in reversed([*partitions(since, until, MONTH)]):
            if month > place[: len(month)]:
                continue
            partition_of, side = ("PK", f"TYPE#{ACTIVITY}#{month}"), "<=" if left else "<"
            walk = self._table.walk(partition_of, ("SK", side, f"ID#{place}"), newest_first=True, page=ITEMS_PAGE)
            for item in await walk.page():
                notes = _notes_in(item)
                most = min(int(left), len(notes)) if left.isdecimal() and raw_id(item) == place else len(notes)
                place, left = raw_id(item), ""
                if place < moment(since):
                    return HistoryPage(tuple(found))
                for at in range(most - 1, -1, -1):
                    if notes[at].at >= since and notes[at].matches(by, did, containing):
                        found.append(notes[at])
                    if len(found) == limit:
                        return HistoryPage(tuple(found), f"{place}|{at}")
            if not walk.over:
                return HistoryPage(tuple(found), f"{place}|0")
        return HistoryPage(tuple(found))


def _portions(notes: Sequence[ActionNote]) -> Iterator[list[ActionNote]]:
    """As many notes at a time as an item takes."""
    portion, size = list[ActionNote](), 0
    for note in notes:
        length = len(json.encode(note))
        if portion and (len(portion) == NOTES_TOGETHER or size + length > NOTES_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(note)
        size += length
    if portion:
        yield portion


def _report_in(item: Item) -> ProvisionReport | None:
    try:
        return _REPORT.decode(item["report"]["S"])
    except (MsgspecError, KeyError) as exc:
        log.warning("report ignored: this version cannot read it", item=name_of(item), error=str(exc))
        return None


def _notes_in(item: Item) -> tuple[ActionNote, ...]:
    try:
        return _NOTES.decode(item["notes"]["S"])
    except (MsgspecError, KeyError) as exc:
        log.warning("notes ignored: this version cannot read them", item=name_of(item), error=str(exc))
        return ()
