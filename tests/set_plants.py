"""Bugs of scale sets to plant: each a context in which listener, supplier, agent or refresh lacks one of its rules."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from bullpen.agent import decide as agent
from bullpen.agent.github.listener import RunnerListener
from bullpen.engines.github.scale_sets.sessions import MessageSessions
from bullpen.engines.github.set_runners import SetRegistrations
from bullpen.errors import NotFound, SessionGone
from bullpen.model import served_set
from bullpen.model import set_session as sessions
from bullpen.refresh import launch, registrations, warm
from bullpen.refresh.lack import lacking
from bullpen.scale_sets import claims, supply
from bullpen.scale_sets.desired import DesiredSets
from bullpen.scale_sets.listener import FIRST_BACKOFF, SetListener
from bullpen.scale_sets.members import MemberState
from bullpen.scale_sets.session import SessionRecord, StandBy
from bullpen.scale_sets.started_jobs import StartedJobs

# ---- the listener


def acknowledges_first() -> Any:
    real = SetListener._take

    async def take(self: SetListener, session: Any, message: Any) -> None:
        await self._ports.scale_sets.acknowledge(session, message.id)
        await real(self, session, message)

    return patch.object(SetListener, "_take", take)


def counts_messages() -> Any:
    """Jobs that messages assigned and did not report as started or completed, whatever the statistics say."""
    real = SetListener._count

    def count(self: SetListener, statistics: Any, *, assigns: bool) -> None:
        waiting, given = len(self.board._waiting), len(self.board.started())
        real(self, replace(statistics, assigned=waiting + given, running=given), assigns=assigns)

    return patch.object(SetListener, "_count", count)


class _Polling:
    """The port, with a poll of its own."""

    def __init__(self, port: Any, poll: Any) -> None:
        self._port, self.poll = port, poll

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def announces_the_gap() -> Any:
    """What is left of the maximum, instead of the maximum."""
    real = SetListener.__init__

    def init(self: SetListener, ports: Any, *rest: Any) -> None:
        async def poll(session: Any, last: int, capacity: int) -> Any:
            used = self._demand.assigned if self._demand is not None else 0
            return await ports.scale_sets.poll(session, last, max(0, capacity - used))

        real(self, ports, *rest)
        self._ports = replace(ports, scale_sets=_Polling(ports.scale_sets, poll))

    return patch.object(SetListener, "__init__", init)


def stops_at_poison() -> Any:
    """An unreadable message is tried again and again."""

    async def meet(self: SetListener, failure: Any) -> None:
        await self._fail(failure, FIRST_BACKOFF)

    return patch.object(SetListener, "_meet_unreadable", meet)


def dies_at_refresh_404() -> Any:
    """A session that cannot be renewed is taken for a set that does not exist."""
    real = MessageSessions._renewed

    async def renewed(self: MessageSessions, held: Any) -> Any:
        try:
            return await real(self, held)
        except SessionGone as gone:
            raise NotFound(str(gone)) from gone

    return patch.object(MessageSessions, "_renewed", renewed)


# ---- the lease


def lease_by_wall_clock() -> Any:
    """By the time that the holder wrote, and the clock of the process that looks."""
    real = StandBy.try_take

    async def try_take(self: StandBy, name: str, found: Any) -> Any:
        if found is not None and found.beat_at is not None:
            age = (self._ports.clock.now() - found.beat_at).total_seconds()
            with patch.object(self._stillness, "seconds", lambda session: age):
                return await real(self, name, found)
        return await real(self, name, found)

    return patch.object(StandBy, "try_take", try_take)


@contextmanager
def no_epoch() -> Iterator[None]:
    """A holder that was replaced goes on from what it finds."""

    def meet(self: SessionRecord, conflict: Any) -> None:
        self.stored = conflict.found

    with patch.object(sessions, "_own", lambda event: ()), patch.object(SessionRecord, "_meet", meet):
        yield


# ---- jobs that a runner was given


def trusts_job_completed() -> Any:
    """The message ends what is known of the job, whatever its agent reports."""

    def complete(self: StartedJobs, id: str) -> None:
        self._forget([id] if id in self._jobs else [])

    return patch.object(StartedJobs, "complete", complete)


def forgets_started() -> Any:
    return patch.object(StartedJobs, "begin", lambda self, job, time: None)


# ---- supply


def counts_the_unregistered() -> Any:
    """A member that is cleaned counts as one that waits for a job."""
    real = supply._in

    def counted(members: Any, state: MemberState) -> Any:
        return [*real(members, state), *(real(members, MemberState.CLEANING) if state is MemberState.IDLE else ())]

    return patch.object(supply, "_in", counted)


def keeps_phantoms() -> Any:
    return patch.object(supply, "_fallen", lambda memory, demand: memory)


def starves_behind_phantoms() -> Any:
    """No member stays registered while phantoms are counted."""
    real = supply._probes

    def probes(scale_set: Any, demand: Any, memory: Any, time: float) -> int:
        return real(scale_set, demand, replace(memory, phantom=0), time)

    return patch.object(supply, "_probes", probes)


def ends_machines_on_an_outage() -> Any:
    """A machine that cannot register is ended, whatever the reason."""
    real: Any = claims.ClaimWorker  # type: ignore[attr-defined]

    def worker(*args: Any, excuse: Any, **named: Any) -> Any:
        return real(*args, excuse=lambda: "", **named)

    return patch.object(claims, "ClaimWorker", worker)


@contextmanager
def launches_again_while_machines_boot() -> Iterator[None]:
    """Only what is on offer counts against what sets lack."""

    def only_on_offer(settings: Any, name: str, ready: Any, lacks: Any, now: Any) -> Any:
        return lacking(settings, name, [one for one in ready if one.is_claimable], lacks, now)

    with patch.object(warm, "lacking", only_on_offer), patch.object(launch, "lacking", only_on_offer):
        yield


# ---- sets, their owners and their registrations


def retires_anothers_set() -> Any:
    return patch.object(DesiredSets, "_veto", lambda self, name, session: "")


def adopts_a_strangers_set() -> Any:
    return patch("bullpen.scale_sets.desired.is_own", lambda scale_set, seen: True)


def admits_by_name() -> Any:
    def is_same(repository: Any, job: Any) -> bool:
        return bool(repository.name.casefold() == job.repository.casefold())

    return patch.object(served_set, "_is_same", is_same)


def reconciles_by_label() -> Any:
    """Members of sets are compared with the list of runners as instances that serve a run are."""
    return patch.object(registrations, "set_of", lambda instance: None)


def reuses_the_name() -> Any:
    return patch.object(SetRegistrations, "_number", lambda self, name: 1)


# ---- the agent


def interrupts_before_delete() -> Any:
    return patch.object(agent, "_withdraw", lambda sight, record, progress: agent.Step.HANG_UP)


def believes_204() -> Any:
    """The registration is removed, so no job can be on its way: the runner is interrupted at once."""
    return patch.object(RunnerListener, "withdraw", RunnerListener.stop)


def takes_an_idle_end_for_a_failure() -> Any:
    return patch.object(RunnerListener, "_is_used_up", lambda self, code: self.jobs > 0)
