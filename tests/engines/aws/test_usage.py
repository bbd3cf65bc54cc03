"""What DynamoUsage promises beyond every History: a booking and the list of what is not booked are two writes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from builders import NOW, buried
from bullpen.engines.aws.dynamodb.history import DynamoHistory
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.usage import DynamoUsage
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Booking, Meter, Owner, UsageRow
from conformance.landing import land
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings

pytestmark = pytest.mark.real_loop

HOUR = datetime(2030, 1, 1, tzinfo=UTC)
LAST = Booking(
    None,
    Meter("i-1", 1, NOW, Owner.RUN, 4, over=True),
    (UsageRow(HOUR, Owner.RUN, "run-1", "", "small", "m7g.large", UsageClass.ON_DEMAND, 5),),
)


class Killed(Exception):
    pass


async def test_a_bookkeeper_that_is_killed_after_the_last_booking_leaves_nothing_to_book_twice(
    aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_table(aws_settings().aws) as table:
        history = DynamoHistory(table, timedelta(days=30))
        await land(DynamoRecords(table), buried("i-1"))

        async def dies(*_: object) -> None:
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(DynamoUsage, "_take_off", dies)
            with pytest.raises(Killed):
                await history.book([LAST])
        assert await history.unbooked(10) == ["i-1"]
        assert await history.over(["i-1"]) == ["i-1"]  # so its time is not counted from its story, too
        assert await history.book([LAST]) == [False]
        assert await history.unbooked(10) == []
        assert [row.microseconds for row in (await history.usage(HOUR, HOUR + timedelta(hours=1), 10)).rows] == [5]


async def test_every_item_of_the_history_goes_after_its_time_and_an_open_meter_stays(
    aws_settings: MakeSettings,
) -> None:
    keep = timedelta(days=30)
    async with a_table(aws_settings().aws) as table:
        history = DynamoHistory(table, keep)
        still_open = Booking(None, replace(LAST.after, instance_id="i-2", over=False), ())
        assert await history.book([LAST, still_open]) == [True, True]
        await history.note_actions([ActionNote(NOW, "refresh", "keep", "i-1")])
        await history.note_provision(
            ProvisionReport("p", "run-1", "", "small", UsageClass.SPOT, "d", NOW, NOW, ReportOutcome.MET)
        )
        found = {}
        kinds = ("Meter", "MeterOver", "Usage#2030-01-01", "Activity#2030-01", "Report#2030-01-01")
        for kind in kinds:
            (item,) = await table.walk(("PK", f"TYPE#{kind}")).all()
            found[kind] = int(item["ttl"]["N"]) if "ttl" in item else None
        after = (NOW + keep).timestamp()
        assert found == dict.fromkeys(kinds, after) | {"Meter": None, "Usage#2030-01-01": (HOUR + keep).timestamp()}
