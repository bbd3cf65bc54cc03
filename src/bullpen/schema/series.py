"""The last minutes of the pool, for charts: how long provisions waited, what was reused, and what was on offer."""

from typing import Annotated

from msgspec import Meta

from bullpen.schema.base import AnswerBody, Time


class MinuteAnswer(AnswerBody, frozen=True):
    """One minute of a class. What is not known is null, and never 0."""

    at: Annotated[Time, Meta(description="The minute.")]
    provisions: Annotated[int, Meta(description="Provisions that ended in it.")]
    selected: Annotated[int, Meta(description="Runners that they reused.")]
    created: Annotated[int, Meta(description="Runners that they launched.")]
    cold_starts: Annotated[int, Meta(description="Those of the provisions that had to launch a machine.")]
    wait_p50: Annotated[
        float | None, Meta(description="Seconds from asked to ready, median; null if no provision got runners.")
    ]
    wait_p95: Annotated[float | None, Meta(description="The same for 95 of 100; null if no provision got runners.")]
    on_offer: Annotated[
        int | None, Meta(description="Instances on offer at its end, as last sampled; null if that is not known.")
    ]


class ClassSeries(AnswerBody, frozen=True):
    """A class over the whole range, and minute by minute."""

    resource_class: Annotated[str, Meta(description="Resource class.")]
    provisions: Annotated[int, Meta(description="Provisions that ended in the range.")]
    selected: Annotated[int, Meta(description="Runners that they reused.")]
    created: Annotated[int, Meta(description="Runners that they launched.")]
    cold_starts: Annotated[int, Meta(description="Those of the provisions that had to launch a machine.")]
    points: Annotated[list[MinuteAnswer], Meta(description="Every minute of the range, oldest first.")]


class MarkAnswer(AnswerBody, frozen=True):
    """Something that an operator should see beside the curves."""

    at: Annotated[Time, Meta(description="When it happened.")]
    did: Annotated[str, Meta(description="What was done, or could not be.")]
    subject: Annotated[str, Meta(description="To what.")]
    reason: Annotated[str, Meta(description="Why.")]


class SeriesAnswer(AnswerBody, frozen=True):
    """Waits and reuse are those of the last 10,000 provisions at most; what was on offer is known since this server
    began to sample it."""

    since: Annotated[Time, Meta(description="Beginning of the range, a whole minute.")]
    until: Annotated[Time, Meta(description="End of the range: now.")]
    data_since: Annotated[
        Time | None, Meta(description="Since when this server knows what is on offer; null if it does not yet.")
    ]
    classes: Annotated[list[ClassSeries], Meta(description="By class, in the order of the settings.")]
    marks: Annotated[list[MarkAnswer], Meta(description="Troubles of the range, newest first; at most 50.")]
    price_per_hour: Annotated[
        float | None,
        Meta(description="What the instances that live now cost in an hour, in dollars; null if no price is known."),
    ] = None
    unpriced: Annotated[int, Meta(description="Instances of them whose price is not known, and not counted.")] = 0
