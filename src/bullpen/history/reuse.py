"""What reuse saved: the boot time that selected runners did not need, each the mean boot time of its class, less the
time for which machines were idle; in money, both at the average price of the class.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from bullpen.history.amounts import MICROS_AN_HOUR, Amount
from bullpen.history.latencies import boot_times, warmed_boots
from bullpen.lazy_dataclass import dataclass
from bullpen.model.report import ProvisionReport
from bullpen.ports import Ports

PAGE = 250  # reports: most have a few lanes, and some have hundreds


@dataclass(frozen=True, slots=True)
class Saving:
    """What reuse saved. `reused` runners were selected instead of created; `avoided` is the boot time that they did not
    need. The saving is that less what was idle, and may be negative."""

    reused: int
    avoided: Amount
    idle: Amount

    @property
    def seconds(self) -> float:
        return (self.avoided.micros - self.idle.micros) / 1e6

    @property
    def usd(self) -> Decimal:
        return (self.avoided.priced - self.idle.priced) / MICROS_AN_HOUR


class ReuseSums:
    """Selected runners and boots by class, of any number of provisions."""

    def __init__(self) -> None:
        self.selected = Counter[str]()
        self._boots = Counter[str]()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, reports: Sequence[ProvisionReport]) -> None:
        for report in reports:
            self.selected[report.resource_class] += report.selected
        self.add_boots(boot_times(reports))

    def add_boots(self, booted: Mapping[str, Sequence[float]]) -> None:
        for resource_class, seconds in booted.items():
            self._boots[resource_class] += len(seconds)
            self._seconds[resource_class] += sum(seconds)

    def knows(self, resource_class: str) -> bool:
        """Whether any boot of a class is known."""
        return self._boots[resource_class] > 0

    def saving(self, classes: Mapping[str, Amount], idle: Amount) -> Saving | None:
        """None if no boot is known. A class whose boots are unknown boots as the others do."""
        if not (boots := self._boots.total()):
            return None
        every = sum(self._seconds.values()) / boots
        avoided = Amount()
        for resource_class, count in self.selected.items():
            known = self._boots[resource_class]
            micros = round(count * (self._seconds[resource_class] / known if known else every) * 1e6)
            spent = classes.get(resource_class, Amount())
            average = spent.priced / spent.micros if spent.micros else Decimal(0)
            avoided += Amount.at(average, micros)
        return Saving(self.selected.total(), avoided, idle)


async def reuse_between(ports: Ports, since: datetime, until: datetime) -> ReuseSums:
    """Of all provisions that ended in the range, added up page by page."""
    sums, after = ReuseSums(), ""
    while True:
        page = await ports.history.reports(since, until, PAGE, after)
        sums.add(page.rows)
        after = page.next
        if not after:
            break
    if not all(sums.knows(one) for one, count in sums.selected.items() if count):
        sums.add_boots({one: boots for one, boots in (await warmed_boots(ports)).items() if not sums.knows(one)})
    return sums
