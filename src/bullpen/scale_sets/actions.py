"""What a process does about scale sets and their runners, each action with its reason: for the activity of the pool."""

from collections.abc import Callable, Sequence

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SetAction:
    """What is done about a set or a runner of it, and why. `is_done` is False where it is left alone, or failed."""

    what: str
    subject: str
    reason: str
    is_done: bool = True


NoteActions = Callable[[Sequence[SetAction]], None]
"""Takes what was done, and returns at once: another loop writes it, many actions together."""


def unnoted(actions: Sequence[SetAction]) -> None:
    """Where no activity is kept."""
