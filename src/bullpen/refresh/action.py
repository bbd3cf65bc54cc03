"""Actions of refresh, each with its reason; and plans, which a dry run shows and a real run performs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import partial

from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, Outdated, Refused, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import Instance
from bullpen.pool import lifecycle
from bullpen.pool.setbacks import reason_of
from bullpen.ports import Gap, Infrastructure, Ports
from bullpen.provision.launch_report import LaunchReport
from bullpen.structured_log import get_logger

BY = "refresh"
GIVE_UP_AFTER = 3  # plans in a row that got no answer
SHOWN = 3  # actions of a plan that a message names

log = get_logger("bullpen.refresh")


@dataclass(frozen=True, slots=True)
class Action:
    """`kind` is what it has in common with others of the same `what`, where their reasons differ in ids or numbers;
    empty: the reason."""

    what: str
    subject: str
    reason: str
    is_done: bool = True  # False if it reports that something cannot be done
    kind: str = field(default="", compare=False)

    @property
    def about(self) -> str:
        """The same for actions that a log need not repeat."""
        return f"{self.what}: {self.kind or self.reason}"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What a plan did, where that was not certain before; and the refusal if an operator has to fix something.
    `launch` is what a launch came to."""

    actions: tuple[Action, ...] = ()
    refusal: BullpenError | None = None
    launch: LaunchReport | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions that are performed together.

    Where it is not certain before how many of them will be done, `is_certain` is False: a dry run shows `actions`, and
    `perform` returns a PlanReport of what was done.
    """

    actions: tuple[Action, ...]
    perform: Callable[[], Awaitable[object]]
    is_certain: bool = True


class PlanRunner:
    """Performs plans one after the other. One that fails does not stop the others."""

    def __init__(self, failures: Sequence[BullpenError] = ()) -> None:
        self.failures = list(failures)
        self.launches: list[LaunchReport] = []
        self._unanswered = 0

    async def perform(self, plan: Plan) -> tuple[Action, ...]:
        """Perform a plan, and note its failure; returns the actions that were not certain before. Raise Outdated; and
        Unavailable once several plans in a row got no answer, because the rest would get none either."""
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
            report = done if isinstance(done, PlanReport) else PlanReport()
            self._unanswered = self._unanswered + 1 if isinstance(report.refusal, Unavailable) else 0
            self.failures += [report.refusal] if report.refusal else []
            self.launches += [report.launch] if report.launch else []
            if report.refusal and self._unanswered == GIVE_UP_AFTER:
                raise report.refusal
            return report.actions
        return ()

    def check(self, actions: Sequence[Action] = ()) -> None:
        """Raise Hindered if a plan failed."""
        if self.failures:
            raise Hindered(self.failures, actions)


async def mend(infrastructure: Infrastructure, gap: Gap) -> BullpenError | None:
    """Close a gap; returns the failure, or raises it if nothing can be done before the gap is closed."""
    try:
        await infrastructure.mend(gap)
    except Outdated:
        raise
    except (Refused, ConfigError, Unavailable) as failure:
        if gap.blocks:
            raise
        return failure
    return None


def ending(ports: Ports, settings: Settings, condemned: Sequence[Instance], why: str | Mapping[str, str]) -> Plan:
    """A plan that ends instances, for one reason or for a reason each, by id."""
    reasons = dict.fromkeys((one.id for one in condemned), why) if isinstance(why, str) else why
    return Plan(
        tuple(Action("terminate", one.id, reasons[one.id]) for one in condemned),
        partial(lifecycle.expire_and_terminate, ports, settings, condemned, why, by=BY),
    )


def alarm(*actions: Action) -> Plan:
    """A plan that does nothing: an operator has to act, and every refresh reports it until then."""
    return Plan(actions, _nothing)


async def _nothing() -> None:
    pass


class Hindered(BullpenError):
    """Something was refused. All `actions` were tried, and everything that does not depend on the refusal is done."""

    def __init__(self, refusals: Sequence[BullpenError], actions: Sequence[Action] = ()) -> None:
        messages = dict.fromkeys(str(one) for one in refusals)
        super().__init__(
            "; ".join(messages), remedy=" ".join(dict.fromkeys(one.remedy for one in refusals if one.remedy))
        )
        self.exit_code, self.cause = refusals[0].exit_code, refusals[0].cause
        self.actions = list(actions)
