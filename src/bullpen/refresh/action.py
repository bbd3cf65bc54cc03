"""An action of refresh: what is done to whom and why; and a plan, which a dry run shows and a real one performs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bullpen.errors import BullpenError, ConfigError, Outdated, Refused, Unavailable
from bullpen.pool.setbacks import reason_of
from bullpen.ports import Gap, Infrastructure
from bullpen.structured_log import get_logger

GIVE_UP_AFTER = 3  # plans in a row that got no answer
SHOWN = 3  # actions of a plan that a message names

log = get_logger("bullpen.refresh")


@dataclass(frozen=True, slots=True)
class Action:
    what: str
    subject: str
    reason: str

    @property
    def is_done(self) -> bool:
        """False if it reports what cannot be done: a dry run would not do it either."""
        return not self.what.startswith("cannot ")


@dataclass(frozen=True, slots=True)
class Report:
    """What a plan did that only its performance could show, and the refusal if an operator has to mend something."""

    actions: tuple[Action, ...] = ()
    refusal: BullpenError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions that are performed together.

    Where it is not certain before how much of them will be done, `is_certain` is False: a dry run shows `actions`, and
    `perform` returns a Report of what was done instead.
    """

    actions: tuple[Action, ...]
    perform: Callable[[], Awaitable[object]]
    is_certain: bool = True


class Attempts:
    """Plans performed one after the other: one that fails does not keep the others from being performed."""

    def __init__(self, failures: Sequence[BullpenError] = ()) -> None:
        self.failures = list(failures)
        self._unanswered = 0

    async def make(self, plan: Plan) -> tuple[Action, ...]:
        """Perform a plan and note why it failed; returns what only its performance could show. Raise Outdated, and
        Unavailable once several in a row had no answer: then the rest has none either."""
        try:
            done = await plan.perform()
        except Outdated:
            raise
        except Unavailable as failure:
            self.failures.append(failure)
            self._unanswered += 1
            if self._unanswered == GIVE_UP_AFTER:
                raise
        except BullpenError as failure:
            self.failures.append(failure)
        except Exception as failure:
            log.exception("action failed unexpectedly")
            subjects = ", ".join(f"{action.what} {action.subject}" for action in plan.actions[:SHOWN])
            self.failures.append(BullpenError(f"{subjects}: an unexpected error: {reason_of(failure)}"))
        else:
            self._unanswered = 0
            if isinstance(done, Report):
                self.failures += [done.refusal] if done.refusal else []
                return done.actions
        return ()

    def check(self, actions: Sequence[Action] = ()) -> None:
        """Raise Hindered if anything failed."""
        if self.failures:
            raise Hindered(self.failures, actions)


async def mend(infrastructure: Infrastructure, gap: Gap) -> BullpenError | None:
    """Close a gap; what kept us from it, unless nothing can be done before it is closed: then that is raised."""
    try:
        await infrastructure.mend(gap)
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
