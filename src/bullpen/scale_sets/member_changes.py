"""Changes of the members of a set: their thresholds are renewed, and they are recalled or withdrawn.

A member is withdrawn or recalled in this order: the CI removes the registration, unless it knows that a job runs; then
the record is released or gets a new round; then the agent waits for its runner to end by itself. So a job that the CI
gave to the runner in between still runs, whichever of them noticed it first.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from bullpen.config import Settings
from bullpen.errors import BullpenError, Conflict, Refused
from bullpen.model import set_member
from bullpen.model.instance import Instance
from bullpen.model.scale_set import ScaleSet
from bullpen.model.served_set import mismatch
from bullpen.pool import lifecycle
from bullpen.ports import Ports, Removal
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.scale_sets.claims import engaged_until
from bullpen.scale_sets.members import SetMember
from bullpen.structured_log import get_logger

WITHDRAWAL = 60.0  # seconds that an agent waits for its runner to end by itself, besides its cleaning

log = get_logger("bullpen.scale_sets")


class MemberChanges:
    """All are conditional on the records: a process that lost the set meanwhile does no harm."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        current: Callable[[], ScaleSet],
        *,
        by: str,
        note: NoteActions = unnoted,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._current = current
        self._by = by
        self._note = note
        self._doubtful: dict[str, int] = {}  # ids of registrations that may have been removed, by instance

    def doubtful(self, members: Sequence[SetMember]) -> list[SetMember]:
        """Members that listen, and whose registration this process may have removed: it got no answer, or their record
        did not change. The CI may give them no job."""
        ids = {one.id: one.listening.id for one in members if one.listening is not None}
        self._doubtful = {id: runner for id, runner in self._doubtful.items() if ids.get(id) == runner}
        return [one for one in members if one.id in self._doubtful]

    async def renew(self, members: Sequence[SetMember]) -> None:
        now = self._ports.clock.now()
        until = engaged_until(self._current(), now)
        changes = [
            set_member.renew(
                one.instance,
                set_member.Extended(at=now, by=self._by, round=one.instance.round, until=until),
            )
            for one in members
            if one.instance.threshold < until
        ]
        if changes:
            await self._ports.records.apply_each(changes)

    async def recall(self, members: Sequence[SetMember], why: str) -> None:
        free, failure = await self._deregistered(members)
        for one in free:
            event = set_member.Recalled(
                at=self._ports.clock.now(),
                by=self._by,
                why=why,
                old_round=one.round,
                round=self._ports.chance.token(),
            )
            with suppress(Conflict):
                await self._ports.records.apply(set_member.recall(one, event))
                name = self._current().name
                log.warning("runner of scale set registers again", set=name, instance=one.id, why=why)
                self._note([SetAction("recall", one.id, f"set {name}: {why}")])
            self._doubtful.pop(one.id, None)
        if failure is not None:
            raise failure

    async def withdraw(self, members: Sequence[SetMember]) -> None:
        free, failure = await self._deregistered(members)
        await self.give_back(free)
        for one in free:
            self._doubtful.pop(one.id, None)
        if failure is not None:
            raise failure

    async def give_back(self, free: Sequence[Instance]) -> None:
        now, timings = self._ports.clock.now(), self._settings.timings
        served = self._current()
        needs = self._settings.set_requirements(served.rules)
        why = [mismatch(one, served, needs) or "surplus" for one in free]
        changes = [
            lifecycle.give_back(
                self._ports, self._settings, one, now, self._by, reason, lasts=timings.cleaning + WITHDRAWAL
            )
            for one, reason in zip(free, why, strict=True)
        ]
        if changes:
            landed = await self._ports.records.apply_each(changes)
            given = [(one.id, why[at]) for at, one in enumerate(landed) if isinstance(one, Instance)]
            self._note([SetAction("give back", id, f"set {served.name}: {reason}") for id, reason in given])

    async def _deregistered(self, members: Sequence[SetMember]) -> tuple[list[Instance], BullpenError | None]:
        """Those whose registration the CI has removed: it knows of no job there. Beside them the first failure, if a
        removal failed: the others go on without it."""
        listening = {one.id: one.listening for one in members if one.listening is not None}
        self._doubtful |= {id: runner.id for id, runner in listening.items()}
        remove = self._ports.scale_sets.remove_runner
        answers = await asyncio.gather(*(remove(runner.id) for runner in listening.values()), return_exceptions=True)
        found = dict(zip(listening, answers, strict=True))
        for id in [id for id, answer in found.items() if answer is Removal.BUSY or isinstance(answer, Refused)]:
            del self._doubtful[id]
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        for failure in failures:
            if not isinstance(failure, BullpenError):
                raise failure
        free = [one.instance for one in members if found.get(one.id) is Removal.REMOVED]
        return free, next((failure for failure in failures if isinstance(failure, BullpenError)), None)
