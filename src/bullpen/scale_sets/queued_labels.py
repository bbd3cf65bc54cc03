"""Labels of queued jobs, as webhooks, lists and the rescue of lost jobs show them: a hint, in memory.

GitHub announces jobs to the session of their set. It does not announce a re-run of a completed run to a set without a
registered runner, but any runner that registers gets the job. So a set gets one runner for a queued job that it can
run, unless its jobs begin anyway (supply.py).

A job that asks for what no set has waits in vain: for a label that looks like a set's name and is none, or for a set's
name and other labels. It is reported once.
"""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from bullpen.lazy_dataclass import dataclass
from bullpen.model import label as run_labels
from bullpen.model.scale_set import fits_set
from bullpen.scale_sets.rules import UNNAMED_TABLE

PREFIX = "bullpen-"  # of the names that sets have by default
MOST = 1000  # labels that are remembered: those of an organisation are fewer
UNMATCHED_FOR = 900.0  # seconds after the last note of jobs that no set can run: each list of jobs notes them again
REMEMBERED = 300.0  # seconds for which a note counts: the process may become the holder of the set meanwhile
SIMILAR = 0.8  # from 0 to 1: a letter or two are wrong


@dataclass(frozen=True, slots=True)
class MistakenLabels:
    """What a job asks for in vain. `set_name` is the set that one of the labels names; empty: one only looks so."""

    labels: tuple[str, ...]
    set_name: str = ""

    @property
    def what(self) -> str:
        extra = "job asks for more labels than its scale set has"
        return extra if self.set_name else "job asks for a label that no scale set has"

    def remedy(self, tables: Mapping[str, str]) -> str:
        """`tables` are those of the sets in the settings, by the name of the set."""
        if not self.set_name:
            return (
                "Correct runs-on in the workflow, or describe such a set: github.scale-sets.NAME.name is its label, by"
                " default bullpen- and github.scale-sets.NAME.class."
            )
        setting = f"{tables.get(self.set_name, UNNAMED_TABLE)}.name"
        return f"Write `runs-on: {self.set_name}` in the workflow, without other labels: {setting} is the only one."


def mistake(labels: Sequence[str], known: Collection[str]) -> MistakenLabels | None:
    """Why no set can run a job that seems to ask for one; None if a set can, or if it asks for something else. `known`
    are the names of all sets."""
    if not known or any(fits_set(labels, name) for name in known):
        return None
    names = {name.casefold(): name for name in known}
    named = next((names[label.casefold()] for label in labels if label.casefold() in names), "")
    if not named and not any(_is_like_a_set(label, names) for label in labels):
        return None
    return MistakenLabels(tuple(labels), named)


@dataclass(frozen=True, slots=True)
class UnmatchedJobs:
    """Queued jobs of a repository that ask for the same labels in vain. Times are the event loop's."""

    wrong: MistakenLabels
    repository: str
    first_at: float
    last_at: float


class QueuedLabels:
    def __init__(self) -> None:
        self._unmatched: dict[tuple[tuple[str, ...], str], UnmatchedJobs] = {}
        self._noted: dict[tuple[str, ...], tuple[float, str]] = {}  # by what a job asks for: when, and where
        self._sets: dict[str, float] = {}
        self._reported: set[tuple[str, ...]] = set()

    def note(self, labels: Sequence[str], time: float, repository: str = "") -> None:
        """A job that asks for these labels was queued just now, by the event loop's clock."""
        if (asked := tuple(labels)) in self._noted or len(self._noted) < MOST:
            self._noted[asked] = time, repository

    def take(self, held: Collection[str], known: Collection[str], time: float) -> Mapping[str, float]:
        """The held sets for which jobs were queued since the last call, and when. Notes for other sets are kept for a
        while. `known` are the names of all sets."""
        for labels, (at, _) in self._noted.items():
            self._sets |= {name: at for name in known if fits_set(labels, name)}
        self._noted.clear()
        found = {name: at for name, at in self._sets.items() if name in held}
        self._sets = {
            name: at for name, at in self._sets.items() if name not in held and name in known and time - at < REMEMBERED
        }
        return found

    def unmatched(self, time: float) -> list[UnmatchedJobs]:
        """What was noted lately and no set can run, the oldest first."""
        kept = {key: one for key, one in self._unmatched.items() if time - one.last_at < UNMATCHED_FOR}
        self._unmatched = kept
        return sorted(kept.values(), key=lambda one: (one.first_at, one.repository, one.wrong.labels))

    def left(self) -> Mapping[str, float]:
        """The sets that this process does not hold and for which jobs were queued, and when. Call it after `take`."""
        return self._sets

    def mistaken(self, known: Collection[str]) -> list[tuple[MistakenLabels, str]]:
        """What noted jobs ask for in vain, each with the repository of such a job; each once, and none where there are
        no sets. Call it before `take`."""
        found = []
        for labels, (at, repository) in self._noted.items():
            wrong = mistake(labels, known)
            if wrong is None:
                continue
            key = labels, repository
            if key in self._unmatched or len(self._unmatched) < MOST:
                first = self._unmatched[key].first_at if key in self._unmatched else at
                self._unmatched[key] = UnmatchedJobs(wrong, repository, first, at)
            if labels not in self._reported:
                found.append((wrong, repository))
        if len(self._reported) < MOST:
            self._reported |= {wrong.labels for wrong, _ in found}
        return found


def _is_like_a_set(label: str, names: Collection[str]) -> bool:
    own = label.casefold()
    if run_labels.parse(label) is not None:
        return False
    return own.startswith(PREFIX) or bool(get_close_matches(own, sorted(names), 1, SIMILAR))
