"""Labels of queued jobs, as webhooks, lists and the rescue of lost jobs show them: a hint, in memory.

GitHub announces jobs to the session of their set. It does not announce a re-run of a completed run to a set without a
registered runner, but any runner that registers gets the job. So a set whose label a queued job names gets one runner,
unless its jobs begin anyway (supply.py).

A label that looks like a set's name, and is none, is reported once: its job waits in vain.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from bullpen.model import label as labels

PREFIX = "bullpen-"  # of the names that sets have by default
MOST = 1000  # labels that are remembered: those of an organisation are fewer
REMEMBERED = 300.0  # seconds for which a note counts: the process may become the holder of the set meanwhile
SIMILAR = 0.8  # from 0 to 1: a letter or two are wrong


class QueuedLabels:
    def __init__(self) -> None:
        self._noted: dict[str, float] = {}
        self._reported: set[str] = set()

    def note(self, label: str, time: float) -> None:
        """A job that asks for this label was queued just now, by the event loop's clock."""
        if label in self._noted or len(self._noted) < MOST:
            self._noted[label] = time

    def take(self, held: Collection[str], known: Collection[str], time: float) -> Mapping[str, float]:
        """The held sets for which jobs were queued since the last call, and when. Notes for other sets are kept for a
        while. `known` are the names of all sets."""
        names = {name.casefold(): name for name in known}
        found = {names[label.casefold()]: at for label, at in self._noted.items() if label.casefold() in names}
        self._noted = {name: at for name, at in found.items() if name not in held and time - at < REMEMBERED}
        return {name: at for name, at in found.items() if name in held}

    def left(self) -> Mapping[str, float]:
        """The sets that this process does not hold and for which jobs were queued, and when. Call it after `take`."""
        return self._noted

    def mistaken(self, known: Collection[str]) -> list[str]:
        """Noted labels that look like the name of a set, and are none; each once, and none where there are no sets.
        Call it before `take`."""
        names = {name.casefold() for name in known}
        found = [label for label in self._noted if _is_like_a_set(label, names) and label not in self._reported]
        if len(self._reported) < MOST:
            self._reported |= set(found)
        return found


def _is_like_a_set(label: str, names: Collection[str]) -> bool:
    own = label.casefold()
    if not names or own in names or labels.parse(label) is not None:
        return False
    return own.startswith(PREFIX) or bool(get_close_matches(own, sorted(names), 1, SIMILAR))
