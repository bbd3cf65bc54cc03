"""What became of a launch for the pool: how many machines are on their way, and why no more are."""

from bullpen.errors import BullpenError, LimitReached
from bullpen.lazy_dataclass import dataclass
from bullpen.model.ticket import UsageClass


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """Of one class and usage class. `on_the_way` counts all that are not on offer yet, whichever process launched
    them."""

    resource_class: str
    usage_class: UsageClass
    on_the_way: int
    refusal: BullpenError | None = None

    @property
    def hindrance(self) -> str:
        """Why not all were launched, in a few words that name the setting; empty if all were."""
        match self.refusal:
            case None:
                return ""
            case LimitReached() as reached if reached.setting:
                return f"{reached.setting} is {reached.limit}"
            case refusal:
                return f"the last launch failed: {refusal}"
