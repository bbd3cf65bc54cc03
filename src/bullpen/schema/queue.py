"""Everything that waits, and how long others have waited."""

from typing import Annotated

from msgspec import Meta

from bullpen.schema.base import AnswerBody, Time
from bullpen.schema.why import WaitAnswer


class LatencyAnswer(AnswerBody, frozen=True):
    """How long the provisions of a class and a repository took from the request until their runners were ready, in
    seconds."""

    resource_class: Annotated[str, Meta(description="Resource class.")]
    repository: Annotated[str, Meta(description="Repository of the runs; empty where it is not known.")]
    count: Annotated[int, Meta(description="Provisions that were met.")]
    p50: Annotated[float | None, Meta(description="Half of them took no longer; null if there are none.")]
    p95: Annotated[float | None, Meta(description="95 % of them took no longer; null if there are none.")]
    p99: Annotated[float | None, Meta(description="99 % of them took no longer; null if there are none.")]
    oldest: Annotated[float | None, Meta(description="Seconds of the longest wait now; null if nothing waits.")]


class QueueAnswer(AnswerBody, frozen=True):
    """Everything that waits, the longest wait first."""

    waits: Annotated[list[WaitAnswer], Meta(description="What waits; of a great many, some. Without candidates.")]
    more: Annotated[int, Meta(description="Waits that are not listed.")]
    unmatched: Annotated[list[WaitAnswer], Meta(description="Those of them that nothing of the pool matches.")]
    latencies: Annotated[
        list[LatencyAnswer], Meta(description="How long provisions took in the last 24 hours, by class and repository.")
    ]
    data_since: Annotated[
        Time | None, Meta(description="Since when the latencies are known; null if there is no history yet.")
    ]
