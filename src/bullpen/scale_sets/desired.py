"""Desired: the scale sets at the CI and in the records are those of the settings.

    the settings have it   no record ── want ──▶ wanted ── create, found ──▶ ready ── correct what differs
                           the CI has lost it ── mark_missing ──▶ wanted;  it retires ── revive ──▶ ready
    they do not            wanted, ready ── retire ──▶ retiring ── no member is left: close, delete, gone ──▶ retired

`refresh` and `serve` do the same, one step after the other, and read again after a Conflict. Each step can be repeated,
so a process that dies between two of them leaves nothing that the next one cannot finish.

Another process may have other settings. The one that holds the set's session decides: only it changes the rules of the
set, retires or revives it, until it stops, or its record has stood still for a whole lease. Any process creates a set
again that the CI has lost, by the rules of the record.

A set of the same name that Bullpen did not create (ownership.py) is left alone, unless an operator says that it is
Bullpen's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial

from bullpen.config import Settings
from bullpen.errors import BullpenError, Conflict, NotFound, Outdated, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model import scale_set as sets
from bullpen.model.scale_set import RETIRED, ScaleSet, SetRules
from bullpen.model.set_session import HELD, SetSession
from bullpen.ports import Ports, RegisteredSet
from bullpen.scale_sets.actions import SetAction
from bullpen.scale_sets.ownership import check_other_groups, find_in_group, is_own, taken
from bullpen.scale_sets.repository_ids import RepositoryIds
from bullpen.scale_sets.retirement import members_of
from bullpen.scale_sets.rules import rules_of, tables
from bullpen.scale_sets.set_writes import SetWrites, drift, why_corrected
from bullpen.scale_sets.stillness import StillSessions
from bullpen.structured_log import get_logger

STEPS = 8  # of one set in one pass; a set that is created, found and corrected takes four
LOOK = 1.0  # seconds between two looks at a record that may stand still

log = get_logger("bullpen.scale_sets")


@dataclass(frozen=True, slots=True)
class SetStep:
    action: SetAction
    perform: Callable[[], Awaitable[ScaleSet]]


@dataclass(slots=True)
class SetReport:
    """What a pass over all sets did, and what failed, by the name of the set."""

    actions: list[SetAction] = field(default_factory=list)
    failures: dict[str, BullpenError] = field(default_factory=dict)


class DesiredSets:
    """Brings the sets to what the settings say. `holds` has the round of each session that this process holds, by the
    name of the set; `adopt` the names whose existing sets are to be Bullpen's.

    With `waits`, a pass waits for up to a lease to learn whether another holder lives. A process that keeps this object
    and makes one pass after the other does not need that: what it has seen is remembered.
    """

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        *,
        by: str,
        holds: Callable[[], Mapping[str, str]] = dict,
        adopt: Collection[str] = (),
        waits: bool = False,
    ) -> None:
        self._ports = ports
        self._lease = settings.timings.lease
        self._rules = rules_of(settings)
        self._tables = tables(settings)
        self._holds = holds
        self._adopt = adopt
        self._waits = waits
        self._writes = SetWrites(ports, settings, by, holds)
        self._stillness = StillSessions()
        self._ids = RepositoryIds(ports, by)
        self._refused: dict[str, str] = {}  # by set: what differed at the CI when it was corrected last

    async def run_once(self) -> SetReport:
        """One pass over all sets. A set that fails does not stop the others. Raise Outdated."""
        report = SetReport()
        for name in await self.names():
            try:
                report.actions += await self.bring(name)
            except Outdated:
                raise
            except BullpenError as failure:
                report.failures[name] = failure
        return report

    async def names(self) -> list[str]:
        """Every set that a pass has to look at: those of the settings, and those of the records that live."""
        stored = await self._ports.records.scale_sets()
        return [
            *self._rules,
            *(name for name, one in stored.items() if name not in self._rules and one.state != RETIRED),
        ]

    async def foresee(self, name: str) -> list[SetAction]:
        """What `bring` would do first; nothing is changed. Raise as `bring`."""
        with self._naming(name):
            step = await self._next(name, *await self._read(name), notes=False)
        return [step.action if isinstance(step, SetStep) else step] if step is not None else []

    async def bring(self, name: str) -> list[SetAction]:
        """Bring one set to what the settings say; returns what was done, and what was left alone.

        Raise Refused if an operator has to act, PermissionDenied and Unavailable as the CI does. Each begins with the
        set's table of the settings.
        """
        done: list[SetAction] = []
        failure: BullpenError | None = None
        with self._naming(name):
            one, session = await self._read(name)
            for _ in range(STEPS):
                step = await self._next(name, one, session)
                if isinstance(step, SetAction) and self._waits and await self._has_no_holder(name):
                    one, session = await self._read(name)
                    step = await self._next(name, one, session)
                if not isinstance(step, SetStep):
                    return done if step is None else [*done, step]
                try:
                    one = await step.perform()
                except (Conflict, NotFound) as moved:  # another process was faster, or the CI has changed meanwhile
                    failure = moved
                    one, session = await self._read(name)
                else:
                    done.append(step.action)
                    log.info("scale set", step=step.action.what, name=name, reason=step.action.reason)
            raise Refused(f"it keeps changing while it is corrected: {failure or done[-1].reason}")

    async def _next(
        self, name: str, one: ScaleSet, session: SetSession | None, *, notes: bool = True
    ) -> SetStep | SetAction | None:
        """The next step; or why the set is left as it is, though the settings say otherwise; None if they do not."""
        rules, veto = await self._desired(name, one, notes=notes), self._veto(name, session)
        step: SetStep | None = None
        if one.state is sets.RETIRING:
            step = await self._of_retiring(one, rules, session)
        elif rules is None and one.may_have_runners:
            reason = "the settings do not have it"
            step = _step("retire set", one, reason, self._writes.retire, session)
        elif rules is not None and not one.may_have_runners:
            existing = await self._existing(one, rules.group)
            if name not in self._adopt:
                await check_other_groups(self._ports, self._where(name), one)
            return _step("create set", one, "the settings ask for it", self._writes.want, rules, existing)
        elif rules is not None:
            by_rules = one.rules if veto else rules
            of_state = self._of_wanted if one.state is sets.WANTED else self._of_ready
            if (step := await of_state(one, by_rules, session)) is not None or rules == by_rules:
                return step
            return SetAction("leave set", name, f"the settings differ, and {veto} listens to it", is_done=False)
        if step is not None and veto:
            return SetAction("leave set", name, f"{step.action.reason}, and {veto} listens to it", is_done=False)
        return step

    async def _desired(self, name: str, one: ScaleSet, *, notes: bool) -> SetRules | None:
        """The rules of the settings with the ids of their repositories; None if the settings do not have the set."""
        if (rules := self._rules.get(name)) is None:
            return None
        known = tuple(found for found in one.rules.repositories if found.id)
        unknown = [found.name for found in rules.knowing(known).repositories if not found.id]
        return rules.knowing((*await self._ids.known(unknown, notes=notes), *known))

    async def _of_wanted(self, one: ScaleSet, rules: SetRules, session: SetSession | None) -> SetStep:
        group = one.rules.group
        if rules != one.rules and rules.group == group:
            return self._correction(one, rules, session)
        if rules.group == group:
            seen = await self._ports.scale_sets.find_named(one.name, group)
        else:
            seen = await find_in_group(self._ports, one.name, group)
        if seen is not None and is_own(one, seen):
            return _step("find set", one, "it was created before", self._writes.found, seen)
        if rules.group != group:
            return self._correction(one, rules, session, await self._existing(one, rules.group))
        if seen is not None:
            self._check_adopted(one.name, seen)
            return _step("find set", one, "an operator says that it is Bullpen's", self._writes.found, seen)
        return _step("create set", one, "GitHub does not have it", self._writes.create)

    async def _of_ready(self, one: ScaleSet, rules: SetRules, session: SetSession | None) -> SetStep | None:
        seen = await self._ports.scale_sets.find(one.ci_id)
        if seen is None:
            existing = await self._existing(one, one.rules.group)
            return _step("recreate set", one, f"GitHub has lost it ({one.ci_id})", self._writes.mark_missing, existing)
        if rules != one.rules:
            moves = rules.group != one.rules.group
            existing = await self._existing(one, rules.group) if moves else 0
            return self._correction(one, rules, session, existing)
        if not (differs := drift(one, seen)):
            self._refused.pop(one.name, None)
            return None
        if differs == self._refused.get(one.name):  # what GitHub does not change is not tried again and again
            return None
        return _step("correct set", one, f"GitHub has it with {differs}", self._patch, differs)

    async def _of_retiring(self, one: ScaleSet, rules: SetRules | None, session: SetSession | None) -> SetStep | None:
        if rules is not None and one.ci_id:
            return _step("revive set", one, "the settings have it again", self._writes.revive, rules, session)
        if await members_of(self._ports, one):
            return None  # they are awaited
        return _step("delete set", one, "it retires, and has no runner", self._writes.finish)

    def _correction(self, one: ScaleSet, rules: SetRules, session: SetSession | None, existing: int = 0) -> SetStep:
        reason = why_corrected(one, rules)
        return _step("correct set", one, reason, self._writes.correct, rules, session, existing)

    async def _patch(self, one: ScaleSet, differs: str) -> ScaleSet:
        stored = await self._writes.patch(one)
        self._refused[one.name] = differs
        return stored

    async def _existing(self, one: ScaleSet, group: str) -> int:
        """The id of the set that has this name; 0 if there is none. Raise Refused if it is another owner's."""
        found = await self._ports.scale_sets.find_named(one.name, group)
        if found is None:
            return 0
        if not is_own(one, found):
            self._check_adopted(one.name, found)
        return found.id

    def _check_adopted(self, name: str, found: RegisteredSet) -> None:
        if name not in self._adopt:
            raise taken(self._where(name), name, found)

    # ---- who decides

    def _veto(self, name: str, session: SetSession | None) -> str:
        """The process that decides about this set instead of this one; empty if there is none."""
        if session is None or session.state is not HELD or session.round == self._holds().get(name):
            return ""
        return "" if self._stillness.seconds(session) >= self._lease else session.holder

    async def _has_no_holder(self, name: str) -> bool:
        """Wait until the record of the session has stood still for a lease, or shows that its holder lives."""
        first = -1
        while True:
            session = (await self._ports.records.set_sessions()).get(name)
            if session is None or not self._veto(name, session):
                return True
            if first not in (-1, session.version):
                return False
            first = session.version
            await asyncio.sleep(min(LOOK, self._lease))

    async def _read(self, name: str) -> tuple[ScaleSet, SetSession | None]:
        stored = await self._ports.records.scale_sets()
        return stored.get(name) or sets.absent(name), (await self._ports.records.set_sessions()).get(name)

    def _where(self, name: str) -> str:
        return self._tables.get(name) or f"scale set {name}"

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Errors begin with the set's table of the settings."""
        try:
            yield
        except BullpenError as failure:
            if not str(failure).startswith(where := self._where(name)):
                failure.args = (f"{where}: {failure}", *failure.args[1:])
            raise


def _step(what: str, one: ScaleSet, reason: str, perform: Callable[..., Awaitable[ScaleSet]], *args: object) -> SetStep:
    return SetStep(SetAction(what, one.name, reason), partial(perform, one, *args))
