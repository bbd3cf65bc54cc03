"""Why the CI registers no runner for a scale set, and when the next attempt is due. Pure.

    no answer, or a limit ──▶ a pause ──▶ forgotten: the next registrations are worth a try

    a refusal ──▶ a pause ──▶ one attempt ──▶ succeeds: forgotten
                     ▲             └──▶ refused again: the next pause is twice as long ──┐
                     └───────────────────────────────────────────────────────────────────┘

A refusal lasts until an operator acts, so there is one attempt after each pause, and not one for every job that waits.
While none is tried, none can succeed. Times are the event loop's.
"""

from dataclasses import replace

from bullpen.lazy_dataclass import dataclass

FIRST_PAUSE = 30.0  # seconds
LONGEST_PAUSE = 300.0  # seconds: the CI takes an assignment back after as long


@dataclass(frozen=True, slots=True)
class RegistrationFailure:
    """`is_refusal`: the CI answered no. What it refuses is the pool's credentials or the set, never the machine."""

    why: str
    until: float
    pause: float = FIRST_PAUSE
    is_refusal: bool = False
    is_limit: bool = False  # the CI asked for a pause

    def is_due(self, time: float) -> bool:
        """Whether the pause is over."""
        return time >= self.until

    def attempted(self, time: float) -> "RegistrationFailure":
        """An attempt begins: no other one is due before the next pause is over, whatever becomes of it."""
        pause = min(2 * self.pause, LONGEST_PAUSE)
        return replace(self, pause=pause, until=time + pause)


def refused(before: RegistrationFailure | None, why: str, time: float) -> RegistrationFailure:
    """After an attempt; `before` is the failure as it was when the attempt had begun."""
    pause = before.pause if before is not None and before.is_refusal else FIRST_PAUSE
    return RegistrationFailure(why, time + pause, pause, is_refusal=True)


def unanswered(why: str, time: float, least: float = 0.0) -> RegistrationFailure:
    """No answer, or a limit of the CI, which may ask for a pause of at least so many seconds."""
    return RegistrationFailure(why, time + max(FIRST_PAUSE, least), is_limit=least > 0)
