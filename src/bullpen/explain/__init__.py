"""Explain: why something waits, where its time went, and what a provision would do now. Nothing here changes anything.

    why      the records of an id, the waits among them, each with one cause and its candidates; the timeline
    queue    everything that waits, and how long others have waited
    plan     a provision as it would be served now

The rules are those that the pool goes by: offers are judged by `model.ticket.refused_by`, caps are counted by
`provision.eviction.Headroom`. An explanation reads what lives now and a bounded part of the history.
"""

from bullpen.explain.why import Explanation, why

__all__ = ["Explanation", "why"]
