"""The store's clock: the wall clock, corrected by the `Date` of DynamoDB's answers.

An answer says the time to the second, at some moment between its request and its arrival. So it bounds by how much this
clock may be off; only what lies outside of that bound is corrected, and a clock that is right stays as it is. It costs
no request: every answer carries the time.

    sent ─────────── the store's time is Date .. Date + 1 s ─────────── received
"""

from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from bullpen.ports import Clock

RESOLUTION = timedelta(seconds=1)  # of a `Date`
LONGEST = timedelta(seconds=10)  # between request and answer: after a longer wait it says little


class DateClock:
    """`ports.Clock` and `ports.StoreClock`, on the clock of this machine."""

    def __init__(self, local: Clock) -> None:
        self.local = local
        self._ahead: timedelta | None = None

    def now(self) -> datetime:
        return self.local.now() - (self._ahead or timedelta(0))

    def ahead(self) -> float | None:
        return None if self._ahead is None else self._ahead.total_seconds()

    def learn(self, answer: dict[str, Any], sent: datetime, received: datetime) -> None:
        """`sent` and `received` are the local clock's. An answer without a date that can be read teaches nothing."""
        said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
        if not timedelta(0) <= received - sent <= LONGEST:
            return
        try:
            date = parsedate_to_datetime(said)
            least, most = sent - (date + RESOLUTION), received - date
        except (TypeError, ValueError):  # not a date, or one without a time zone
            return
        self._ahead = least if least > timedelta(0) else min(most, timedelta(0))
