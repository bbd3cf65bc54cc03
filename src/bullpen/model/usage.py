"""Usage: who owned each second of every machine, by hour; and the meter of one machine, until when that is booked.

    boot ──▶ idle ──▶ run ──▶ cleaning ──▶ idle ...            a machine of the pool
    boot ──▶ run ──▶ cleaning ──▶ (ended)                      one that was launched for a run

The time of a machine begins when its record is registered, and ends when its end is confirmed. Seconds are whole
microseconds, so sums are exact.
"""

from datetime import datetime
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass
from bullpen.model.ticket import UsageClass


class Owner(StrEnum):
    """What a machine's time was spent on."""

    RUN = "run"  # claimed by a run or a scale set, or running for it
    IDLE = "idle"  # on offer
    BOOT = "boot"  # from the record of its launch until it went on offer or ran
    CLEANING = "cleaning"  # given back and not on offer yet, or its end is under way


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Time of one owner within one hour, of all machines that are alike. `run_id` is the run that the machines were
    launched for, worked for or are cleaned after; empty for idle ones, and where it is not known."""

    hour: datetime
    owner: Owner
    run_id: str
    repository: str
    resource_class: str
    instance_type: str
    usage_class: UsageClass
    microseconds: int


@dataclass(frozen=True, slots=True)
class Meter:
    """Until when the time of a machine is booked, who owns it from there on, and the version of the record that this
    was read from. Each booking raises `revision` by one. A meter that is `over` is never booked again."""

    instance_id: str
    revision: int
    until: datetime
    owner: Owner
    version: int
    run_id: str = ""
    repository: str = ""
    over: bool = False


ROWS_TOGETHER = 48
"""Rows of one booking: with its meter they fit into one write of every store. A longer time is booked in parts."""


@dataclass(frozen=True, slots=True)
class Booking:
    """Time of one machine to be added to the hours, and the meter before and after. `before` is None for the first one.
    It lands only if the stored meter still is `before`, and then whole. It has at most `ROWS_TOGETHER` rows."""

    before: Meter | None
    after: Meter
    rows: tuple[UsageRow, ...]
