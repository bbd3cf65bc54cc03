"""An action of refresh: what is done to whom and why; and a plan, which a dry run shows and a real one performs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bullpen.errors import BullpenError, ConfigError, Outdated, Refused, Unavailable
from bullpen.ports import Foundation, Gap


@dataclass(frozen=True, slots=True)
class Action:
    what: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions that are performed together."""

    actions: tuple[Action, ...]
    perform: Callable[[], Awaitable[object]]

    async def attempt(self) -> BullpenError | None:
        """Perform it; the refusal, if somebody has to mend something first: other plans do not depend on it."""
        try:
            await self.perform()
        except Outdated:
            raise
        except (Refused, ConfigError) as refusal:
            return refusal
        return None


async def mend(foundation: Foundation, gap: Gap) -> BullpenError | None:
    """Close a gap; what kept us from it, unless nothing can be done before it is closed: then that is raised."""
    try:
        await foundation.mend(gap)
    except Outdated:
        raise
    except (Refused, ConfigError, Unavailable) as failure:
        if gap.blocks:
            raise
        return failure
    return None


def alarm(*actions: Action) -> Plan:
    """What only somebody else can help with: it is said in every refresh until they do."""
    return Plan(actions, _nothing)


async def _nothing() -> None:
    pass


class Hindered(BullpenError):
    """Something was refused; all `actions` were tried, and everything that does not depend on it was done."""

    def __init__(self, refusals: Sequence[BullpenError], actions: Sequence[Action] = ()) -> None:
        told = dict.fromkeys(str(one) for one in refusals)
        super().__init__("; ".join(told), remedy=" ".join(dict.fromkeys(one.remedy for one in refusals if one.remedy)))
        self.exit_code = refusals[0].exit_code
        self.actions = list(actions)
