"""One call of provision: attempts until as many instances run as were requested.

    count ──▶ attempt ──▶ count what runs ─┬─ all ──────▶ the answer
      ▲                                    │
      └──────────── some were lost ────────┘
                     cannot be replaced ───▶ revoke what this call has committed, and fail

A commit is one write, and each member has its own write after it. In between a member may be ended: by refresh, a lost
worker, an interruption, `down`. The answer counts the instances that run after all writes, with those that served the
run before. If some are missing, one more attempt with a record of its own follows, within the deadline of the first.
"""

import asyncio
from collections import Counter, defaultdict
from dataclasses import field, replace

from bullpen.concurrency import Arm, gather_or_cancel
from bullpen.config import Settings
from bullpen.errors import BullpenError, FailureCause, ProvisionFailed, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.model.ticket import Verdict
from bullpen.model.times import later
from bullpen.ports import Ports
from bullpen.provision.attempt import ProvisionAttempt, halts
from bullpen.provision.existing_members import ExistingMembers
from bullpen.provision.lanes import lanes_of
from bullpen.provision.outcome import Member, Outcome, Request


@dataclass(slots=True)
class ProvisionCall:
    ports: Ports
    settings: Settings
    request: Request
    stop: asyncio.Event
    tell: Tell
    existing: ExistingMembers
    began: float
    """When it was asked, by the event loop."""
    attempts: list[ProvisionAttempt] = field(default_factory=list)
    """The decided ones, in order. All but the last are committed."""
    committed: list[ProvisionAttempt] = field(default_factory=list)
    kept: list[Member] = field(default_factory=list)

    async def serve(self) -> Outcome:
        """Acquire what is missing. If that fails, what this call has committed is given back."""
        try:
            outcome = await self._acquire()
            if not outcome.succeeded and await self._suffices(outcome):
                outcome = self._empty()
        except Exception as error:
            await self._revoke(str(error))
            raise
        if not outcome.succeeded:
            await self._revoke(outcome.reason, hurry=outcome.interrupted)
        return self._answer(outcome)

    async def _acquire(self) -> Outcome:
        """The last attempt's outcome. An attempt that withdrew for another provision of the run is repeated."""
        ports, settings, request = self.ports, self.settings, self.request
        arm = self._arm()
        while True:
            try:
                (missing,) = await gather_or_cancel([self.existing.missing()], arm=arm)
            except ProvisionFailed as failure:
                return self._empty().failed(failure)
            if missing <= 0:
                return self._empty()
            first = self.committed[0] if self.committed else None
            if first:
                request = replace(request, wait=0.0)  # a waiting call holds nothing, and this one holds members
            attempt = await ProvisionAttempt.open(ports, settings, request, self.existing, missing, self.tell, first)
            try:
                outcome = await attempt.run(self.stop)
            except Exception:
                self.attempts.append(attempt)
                raise
            if outcome is None:
                continue
            self.attempts.append(attempt)
            if not outcome.succeeded:
                return outcome
            self.committed.append(attempt)
            self.kept += outcome.kept
            if not attempt.has_lost and await self.existing.still_serve():
                return outcome
            self.existing.gained(outcome.provision_id, (*outcome.members, *outcome.kept))
            self.tell(ProgressReport(WorkPhase.REPLACE, "a member was lost as it was committed: replacing it"))
            arm = self._arm()

    def _arm(self) -> Arm:
        """What ends the count: a stop, and the deadline of the call."""
        patience = self.settings.timings.provision
        if self.committed:
            deadline = self.committed[0].record.stored.deadline
            overdue = ProvisionFailed(
                f"{self.request.run_id}: a lost member was not replaced within {patience:g} s",
                remedy="Provision again.",
            )
        else:
            patience += self.request.wait  # the other provision may wait as long for room
            deadline = later(self.ports.clock.now(), patience)
            overdue = ProvisionFailed(
                f"{self.request.run_id}: another provision of the run was not decided within {patience:g} s",
                remedy="Wait for it, or release the run, then provision again.",
            )
        return halts(self.stop, self.ports.clock, deadline, overdue)

    async def _suffices(self, failed: Outcome) -> bool:
        """True if fewer are acceptable, and some run. If an engine did not answer, a later call may find more."""
        if not self.request.allow_partial or failed.interrupted or failed.unavailable or not self.existing.members:
            return False
        await self.existing.still_missing()
        return bool(self.existing.members)

    async def _revoke(self, reason: str, *, hurry: bool = False) -> None:
        """Give back what this call has committed. Raise Unavailable if that cannot be written."""
        if not self.committed:
            return
        self.tell(ProgressReport(WorkPhase.SETTLE, "giving everything back"))
        try:
            async with asyncio.timeout(self.settings.timings.settle if hurry else None):
                for attempt in self.committed:
                    await attempt.settlement.revoke(reason)
        except (Unavailable, TimeoutError) as error:
            ids = ", ".join(id for attempt in self.committed for id in attempt.holdings.held)
            why = str(error) or "no answer in time"
            raise Unavailable(
                f"{reason}; and not everything could be given back: {why}; these may still run: {ids}",
                remedy=f"Release {self.request.run_id}, or provision it again.",
            ) from error

    def broken(self, error: Exception) -> Outcome:
        """What there is to report of a call that ended in this error. Without a provision of its own it has no id."""
        cause = error.cause if isinstance(error, BullpenError) else FailureCause.FAULT
        last = self.attempts[-1].record.stored.id if self.attempts else ""
        return self._answer(
            replace(self._empty(), provision_id=last, reason=str(error) or type(error).__name__, cause=cause)
        )

    def _empty(self) -> Outcome:
        return Outcome(self.request.run_id, "", self.request.count)

    def _answer(self, last: Outcome) -> Outcome:
        """All attempts together. The first that was committed gives the call its id."""
        members = (*self.existing.members, *last.members) if last.succeeded else ()
        named = {member.instance.id for member in members}
        timings: defaultdict[WorkPhase, float] = defaultdict(float)
        for attempt in self.attempts:
            for phase, seconds in attempt.timings.items():
                timings[phase] += seconds
        kept = tuple(one for one in self.kept if one.instance.id not in named) if last.succeeded else ()
        discarded = (*self.existing.discarded, *(one for a in self.attempts for one in a.holdings.discarded))
        books = [attempt.holdings.lanes for attempt in self.attempts]
        return replace(
            last,
            provision_id=self.committed[0].record.stored.id if self.committed else last.provision_id,
            members=members,
            kept=kept,
            held=self.existing.held,
            discarded=discarded,
            verdicts=sum((attempt.holdings.verdicts for attempt in self.attempts), Counter[Verdict]()),
            lanes=lanes_of(books, self.began, (*members, *kept), discarded),
            collisions=sum(attempt.holdings.collisions for attempt in self.attempts),
            timings=dict(timings),
        )
