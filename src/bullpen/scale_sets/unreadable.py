"""A message that does not even show its id: it comes again until it is acknowledged, and stops all that follow it.

    try again ──▶ another session ──▶ try again ──▶ pass over one id after the other ──▶ from the beginning
     3 times                           3 times       5 ids, or 32 where none is known

Ids rise, so its id is the one after the highest that was read, or one of the few that follow. A new holder may not know
any: then it passes over 1, 2, 4, 8 and so on. Messages that it passes over so cost what lost ones do: the counts tell.
"""

from enum import Enum, auto

TRIES = 3  # in each of two sessions
MOST_SKIPPED = 5  # ids after the last message that was read: one of them is the unreadable one's
MOST_DOUBLED = 32  # times that the id is doubled where none was read before


class Remedy(Enum):
    TRY_AGAIN = auto()
    OTHER_SESSION = auto()
    PASS_OVER = auto()


class UnreadableMessages:
    def __init__(self, highest: int) -> None:
        self.highest = highest  # id that was read, of all sessions
        self._failures = 0

    def end(self) -> None:
        """A message could be read."""
        self._failures = 0

    def meet(self) -> tuple[Remedy, int]:
        """What to do about the next one, with the id to pass over."""
        self._failures += 1
        skipped = self._failures - 2 * TRIES
        if skipped > (MOST_SKIPPED if self.highest else MOST_DOUBLED):
            self._failures = 0  # it is not one message that cannot be read
            return Remedy.OTHER_SESSION, 0
        if skipped > 0:
            return Remedy.PASS_OVER, self.highest + skipped if self.highest else 2 ** (skipped - 1)
        return Remedy.OTHER_SESSION if self._failures == TRIES else Remedy.TRY_AGAIN, 0
