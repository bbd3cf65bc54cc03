"""Scale sets: one plan for each that is not as the settings say. A set that fails does not stop the rest of refresh."""

from collections.abc import AsyncIterator, Collection
from functools import partial

from bullpen.config import Settings
from bullpen.errors import Outdated, Refused, Unavailable
from bullpen.ports import Ports
from bullpen.refresh.action import BY, Action, Plan, PlanReport, alarm
from bullpen.scale_sets.actions import SetAction
from bullpen.scale_sets.desired import DesiredSets


async def plans(ports: Ports, settings: Settings, *, adopt: Collection[str] = (), dry_run: bool) -> AsyncIterator[Plan]:
    if not settings.on_github:
        return
    desired = DesiredSets(ports, settings, by=BY, adopt=adopt, waits=True)
    for name in await desired.names():
        if dry_run:
            yield alarm(*await _foreseen(desired, name))
        else:
            yield Plan((), partial(_brought, desired, name), is_certain=False)


async def _foreseen(desired: DesiredSets, name: str) -> list[Action]:
    try:
        return [_action(one) for one in await desired.foresee(name)]
    except Outdated:
        raise
    except (Refused, Unavailable) as failure:
        return [_failed(name, failure)]


async def _brought(desired: DesiredSets, name: str) -> PlanReport:
    """An outage of the CI passes, and only this set waits for it; a refusal needs an operator."""
    try:
        return PlanReport(tuple([_action(one) for one in await desired.bring(name)]))
    except Outdated:
        raise
    except Refused as failure:
        return PlanReport((_failed(name, failure),), failure)
    except Unavailable as failure:
        return PlanReport((_failed(name, failure),))


def _action(one: SetAction) -> Action:
    return Action(one.what, one.subject, one.reason, one.is_done, kind=one.subject)


def _failed(name: str, failure: Refused | Unavailable) -> Action:
    return Action("cannot check set", name, str(failure), is_done=False, kind=name)
