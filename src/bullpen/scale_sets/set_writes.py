"""The steps of a scale set, each with its side at the CI: what is written first, so that a killed process leaves no set
that Bullpen does not know.

    want           before the set is created               create    then found, with the CI's id
    correct        before the CI changes it                patch     then the id of its new group
    mark_missing   before it is created again              retire    before its runners are withdrawn
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from bullpen.config import Settings
from bullpen.errors import Conflict, Refused
from bullpen.model import scale_set as sets
from bullpen.model.scale_set import ScaleSet, SetRules
from bullpen.model.set_session import SetSession, must_be_held
from bullpen.model.transition import Change, Check, Guard
from bullpen.ports import Ports, RegisteredSet, ScaleSetSpec
from bullpen.scale_sets.ownership import draw_mark
from bullpen.scale_sets.retirement import finish_retiring


def spec_of(scale_set: ScaleSet) -> ScaleSetSpec:
    """The set as the CI should have it. Workflows name it by its name alone, and its mark shows whose it is. Runners do
    not update themselves: a machine that is cleaned must have the program that its image has."""
    labels = (scale_set.name, scale_set.mark) if scale_set.mark else ()
    return ScaleSetSpec(scale_set.name, scale_set.rules.group, labels)


def drift(scale_set: ScaleSet, seen: RegisteredSet) -> str:
    """What differs at the CI; empty if nothing does. A CI that shows no labels, no mark or no group is believed."""
    name, labels = scale_set.name.casefold(), {label.casefold() for label in seen.labels}
    differs = {
        f"the name {seen.name!r}": seen.name.casefold() != name,
        f"the labels {', '.join(seen.labels)}": bool(labels) and labels - {scale_set.mark} != {name},
        "updates of its runners": not seen.disable_update,
        "another runner group": seen.group not in (0, scale_set.group_id),
    }
    return ", ".join(what for what, holds in differs.items() if holds)


class SetWrites:
    """`holds` has the round of each session that this process holds, by the name of the set."""

    def __init__(self, ports: Ports, settings: Settings, by: str, holds: Callable[[], Mapping[str, str]]) -> None:
        self._ports = ports
        self._settings = settings
        self._by = by
        self._holds = holds

    async def want(self, one: ScaleSet, rules: SetRules, existing: int) -> ScaleSet:
        """`existing` has the name, and is to be Bullpen's."""
        told, mark = self._told("the settings ask for it"), draw_mark(self._ports.chance)
        event = sets.SetWanted(**told, rules=rules, existing=existing, adopt=bool(existing), mark=mark)
        return await self._land(sets.want(one, event))

    async def create(self, one: ScaleSet) -> ScaleSet:
        return await self.found(one, await self._ports.scale_sets.create(spec_of(one)))

    async def found(self, one: ScaleSet, seen: RegisteredSet) -> ScaleSet:
        event = sets.SetFound(**self._told("GitHub has it"), ci_id=seen.id, group_id=seen.group)
        return await self._land(sets.found(one, event))

    async def correct(self, one: ScaleSet, rules: SetRules, session: SetSession | None, existing: int) -> ScaleSet:
        told, adopt = self._told(why_corrected(one, rules)), existing not in (0, one.ci_id)
        event = sets.SetCorrected(**told, rules=rules, existing=existing, adopt=adopt)
        return await self._land(sets.correct(one, event), session)

    async def patch(self, one: ScaleSet) -> ScaleSet:
        try:
            seen = await self._ports.scale_sets.correct(one.ci_id, spec_of(one))
        except Conflict as taken:
            raise Refused(str(taken), remedy="Choose another name or runner group for the scale set.") from taken
        if seen.group in (0, one.group_id):
            return one
        event = sets.SetCorrected(**self._told("GitHub has moved it"), rules=one.rules, group_id=seen.group)
        return await self._land(sets.correct(one, event))

    async def mark_missing(self, one: ScaleSet, existing: int) -> ScaleSet:
        told = self._told("GitHub has lost it")
        event = sets.SetMissing(**told, ci_id=one.ci_id, existing=existing, adopt=bool(existing))
        return await self._land(sets.mark_missing(one, event))

    async def retire(self, one: ScaleSet, session: SetSession | None) -> ScaleSet:
        due = self._ports.clock.now() + timedelta(seconds=self._settings.timings.takeover)
        event = sets.SetRetired(**self._told("the settings do not have it"), due=due)
        return await self._land(sets.retire(one, event), session)

    async def revive(self, one: ScaleSet, rules: SetRules, session: SetSession | None) -> ScaleSet:
        event = sets.SetRevived(**self._told("the settings have it again"), rules=rules)
        return await self._land(sets.revive(one, event), session)

    async def finish(self, one: ScaleSet) -> ScaleSet:
        return await finish_retiring(self._ports, one, by=self._by)

    async def _land(self, change: Change[ScaleSet], session: SetSession | None = None) -> ScaleSet:
        checks = self._checks(change.after.name, session)
        stored: list[ScaleSet] = await self._ports.records.apply(change, checks=checks)
        return stored[0]

    def _checks(self, name: str, session: SetSession | None) -> tuple[Check, ...]:
        """Of a write that only the holder may make, or any process if there is none: still so at that moment."""
        if session is None:
            return ()
        if session.round and session.round == self._holds().get(name):
            return (must_be_held(session),)
        return (Check(SetSession, session.id, (Guard("version", "is", session.version),)),)

    def _told(self, why: str) -> dict[str, Any]:
        return {"at": self._ports.clock.now(), "by": self._by, "why": why}


def why_corrected(one: ScaleSet, rules: SetRules) -> str:
    if rules == one.rules.knowing(rules.repositories):
        return "GitHub's ids of its repositories are known now"
    return "the settings have changed"
