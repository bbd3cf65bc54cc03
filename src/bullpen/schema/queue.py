"""Everything that waits, and how long others have waited."""

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.why import WaitAnswer, wait_of

if TYPE_CHECKING:
    from bullpen.explain.queue import PoolWaits


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


def queue_of(found: "PoolWaits") -> QueueAnswer:
    return QueueAnswer(
        waits=[wait_of(one, with_candidates=False) for one in found.waits],
        more=found.more,
        unmatched=[wait_of(one, with_candidates=False) for one in found.unmatched],
        latencies=[filled(LatencyAnswer, one) for one in found.latencies],
        data_since=time_of(found.data_since),
    )
