"""How many instances of each class were on offer lately, for charts: samples in the memory of one process.

They begin when the process does, and cost nothing but their memory: they are taken of what a controller has read
anyway.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance

EVERY = timedelta(seconds=15)
KEPT = timedelta(hours=3)
MOST_CLASSES = 100  # of which samples are kept; settings have a handful


@dataclass(frozen=True, slots=True)
class OfferSample:
    """What was on offer at one moment, by class."""

    at: datetime
    on_offer: Mapping[str, int]


class OfferSamples:
    """The samples, oldest first."""

    def __init__(self) -> None:
        self._samples: deque[OfferSample] = deque(maxlen=KEPT // EVERY)

    def note(self, now: datetime, classes: Iterable[str], live: Sequence[Instance]) -> None:
        """Keep a sample of these instances, unless the last one is young."""
        if self._samples and now - self._samples[-1].at < EVERY:
            return
        counted = Counter(one.resource_class for one in live if one.is_claimable and one.threshold > now)
        names = [*dict.fromkeys([*classes, *counted])][:MOST_CLASSES]
        self._samples.append(OfferSample(now, {name: counted[name] for name in names}))

    @property
    def since(self) -> datetime | None:
        """When the oldest sample was taken."""
        return self._samples[0].at if self._samples else None

    def between(self, since: datetime, until: datetime) -> list[OfferSample]:
        return [one for one in self._samples if since <= one.at < until]
