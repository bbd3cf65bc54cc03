"""Spans: the story of a machine as time with owners. Pure.

    register ─ boot ─ adopt ─ idle ─ claim ─ run ─ release ─ cleaning ─ offer ─ idle ... expire ─ cleaning ─ done

A span ends where the next one begins, so no second is counted twice or left out, whatever the clocks of the processes
that wrote the story say: a line that is older than the one before it ends a span of no length. If more steps passed
than a story remembers, the time between belongs to the owner that is known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from bullpen.lazy_dataclass import dataclass
from bullpen.model import instance as instances
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.times import MICROSECOND
from bullpen.model.transition import StoryLine
from bullpen.model.usage import ROWS_TOGETHER, Booking, Meter, Owner, UsageRow

HOUR = timedelta(hours=1)
OFFERS = (instances.adopt.step, instances.offer.step, instances.keep.step)
RETURNS = (instances.release.step, instances.roll_back.step)


@dataclass(frozen=True, slots=True)
class Span:
    """Time that belongs to one owner, between two states of a meter: from `began.until` to `then.until`."""

    began: Meter
    then: Meter


def spans(meter: Meter | None, record: Instance, story: Sequence[StoryLine], to: datetime) -> Iterator[Span]:
    """What is not booked yet, in order, up to `to` or to the end of the machine. Without a meter the time begins with
    the oldest step of the story. Spans of no length are among them: they move the meter."""
    lines = [line for line in story if meter is None or line.version > meter.version]
    if meter is None:
        if not lines:
            return
        first = lines.pop(0)
        meter = _owned(Meter(record.id, 0, first.at, Owner.BOOT, first.version), first, record)
    for line in lines:
        began, until = meter, max(meter.until, line.at)
        meter = _owned(replace(meter, until=until, version=line.version), line, record)
        yield Span(began, meter)
    if not meter.over:
        yield Span(meter, replace(meter, until=max(meter.until, to), version=max(meter.version, record.version)))


def rows(span: Span, record: Instance) -> Iterator[UsageRow]:
    """The time of a span by the hour."""
    owned, since = span.began, span.began.until
    while since < span.then.until:
        hour = since.replace(minute=0, second=0, microsecond=0)
        until = min(span.then.until, hour + HOUR)
        yield UsageRow(
            hour,
            owned.owner,
            owned.run_id,
            owned.repository,
            record.resource_class,
            record.instance_type,
            record.usage_class,
            (until - since) // MICROSECOND,
        )
        since = until


def booking(meter: Meter | None, record: Instance, story: Sequence[StoryLine], to: datetime) -> Booking | None:
    """The next booking of a machine; None if there is nothing to book. A long time takes several: book the next one
    with the meter of the one before, until there is none."""
    added: dict[UsageRow, int] = {}
    after: Meter | None = None
    for span in spans(meter, record, story, to):
        at = span.began.until
        for row in rows(span, record):
            key = replace(row, microseconds=0)
            if key not in added and len(added) == ROWS_TOGETHER:
                # In the midst of a span: the line at its end is still to come.
                return _booking(meter, replace(span.began, until=at), added)
            added[key] = added.get(key, 0) + row.microseconds
            at += row.microseconds * MICROSECOND
        after = span.then
    if after is None or after == meter:
        return None
    return _booking(meter, after, added)


def _booking(before: Meter | None, after: Meter, added: dict[UsageRow, int]) -> Booking:
    found = tuple(replace(row, microseconds=micros) for row, micros in added.items())
    return Booking(before, replace(after, revision=before.revision + 1 if before else 1), found)


def _owned(meter: Meter, line: StoryLine, record: Instance) -> Meter:
    """Who owns the machine after a step. The machine that a run has used is cleaned, and ended, on that run's account;
    one on offer belongs to no run."""
    if line.step == instances.done.step:
        return replace(meter, over=True)
    if line.state == TERMINATED:
        return replace(meter, owner=Owner.CLEANING)
    if line.state in (CLAIMED, RUNNING, CREATED):
        owner = Owner.BOOT if line.state == CREATED else Owner.RUN
        if line.run_id:
            return replace(meter, owner=owner, run_id=line.run_id, repository=line.repository)
        # Stories that an older version wrote name no run; the record names the one that it belongs to now.
        fits = not meter.run_id and record.state == line.state
        return replace(
            meter,
            owner=owner,
            run_id=record.run_id if fits else meter.run_id,
            repository=record.repository if fits else meter.repository,
        )
    if line.state == IDLE and line.step in OFFERS:
        return replace(meter, owner=Owner.IDLE, run_id="", repository="")
    if line.state == IDLE and line.step in RETURNS:
        return replace(meter, owner=Owner.CLEANING)
    return meter
