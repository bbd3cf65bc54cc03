"""The history of a home is bounded, however long it is kept and however much happens."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders import NOW, later
from bullpen.engines.sqlite import history as engine
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.history import NOTES_KEPT, REPORTS_KEPT, ROWS_KEPT, SqliteHistory
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow

HOUR = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.real_loop
async def test_the_oldest_go_first_where_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [kept for _, kept in engine.TOO_MANY] == [ROWS_KEPT, REPORTS_KEPT, NOTES_KEPT]
    few = tuple((sql, kept) for (sql, _), kept in zip(engine.TOO_MANY, (3, 4, 5), strict=True))
    monkeypatch.setattr(engine, "TOO_MANY", few)
    async with Database.open(tmp_path) as database:
        history = SqliteHistory(database)
        report = ProvisionReport("p", "run-1", "", "small", UsageClass.SPOT, "default", NOW, NOW, ReportOutcome.MET)
        for n in range(9):
            row = UsageRow(
                HOUR + n * timedelta(hours=1), Owner.RUN, "run-1", "", "small", "x", UsageClass.ON_DEMAND, n + 1
            )
            assert await history.book([Booking(None, Meter(f"i-{n}", 1, NOW, Owner.RUN, 1), (row,))]) == [True]
            await history.note_provision(replace(report, id=f"p-{n}", ended_at=later(n)))
            await history.note_actions([ActionNote(later(n), "refresh", "keep", f"i-{n}")])
        while await history.forget(NOW - timedelta(days=30), 100):
            pass
        rows = (await history.usage(HOUR, HOUR + timedelta(days=1), 100)).rows
        assert [row.microseconds for row in rows] == [7, 8, 9]
        assert [one.id for one in (await history.reports(NOW, later(99), 100)).rows] == ["p-8", "p-7", "p-6", "p-5"]
        assert len((await history.actions(NOW, later(99), 100)).rows) == 5
        assert len(await history.open_meters(100)) == 9  # of machines that live: they are no history
