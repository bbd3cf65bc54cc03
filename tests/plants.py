"""Bugs to plant: each a context in which the code lacks one of its conditions."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from bullpen import release
from bullpen.engines.memory import tables
from bullpen.model import instance as instances
from bullpen.model import provision as provision_steps
from bullpen.model import ticket as tickets
from bullpen.model import trust
from bullpen.model.provision import Origin
from bullpen.model.transition import Debt, Transition
from bullpen.pool import lifecycle, offering
from bullpen.ports import Ports
from bullpen.provision.fleets import Fleets
from bullpen.provision.outcome import Member
from bullpen.provision.pickup import TicketPickup
from bullpen.provision.selection import ClaimWorker
from bullpen.provision.settlement import Settlement


def without_guard(step: str, *fields: str) -> Any:
    """A step of an instance that no longer asks for these fields."""
    real: Transition[Any, Any] = getattr(instances, step)

    def body(subject: Any, event: Any) -> Any:
        after, guards = real.body(subject, event)
        return after, tuple(guard for guard in guards if guard.field not in fields)

    return patch.object(instances, step, replace(real, body=body))


@contextmanager
def without_version(step: str, *, state: bool = True, guards: bool = True) -> Iterator[None]:
    """A store that lands this step whatever the version; perhaps also whatever the state and the guards."""
    real = tables.Tables._landing

    def landing(self: tables.Tables, change: Any) -> Any:
        stored = self._table(change.before).get(change.before.id)
        if change.step == step and stored is not None and (not state or stored.state == change.before.state):
            before = replace(change.before, version=stored.version, state=stored.state)
            change = replace(change, before=before, guards=change.guards if guards else ())
        return real(self, change)

    with (
        patch.object(tables.Tables, "_landing", landing),
        patch.object(tables, "_assert_cleaned_before_claimed", lambda stored, landing: None),
    ):
        yield


def repositories_by_name() -> Any:
    """Every id of a repository's name means what the bare name means."""

    def spellings(domain: str, first_ids: Any) -> tuple[str, ...]:
        found = trust.of_repository(domain)
        if found is None:
            return (domain,)
        first = first_ids.get(found.name.casefold(), 0)
        return tuple(dict.fromkeys([domain, *(str(replace(found, id=id)) for id in (0, first))]))

    return patch.object(trust, "spellings", spellings)


@contextmanager
def carried_out_before_it_is_decided() -> Iterator[None]:
    real = Settlement.commit

    async def commit(self: Settlement, members: Any) -> Any:
        record = replace(
            self.record.stored, state=provision_steps.COMMITTED, members=tuple(m.instance.id for m in members)
        )
        for member in members:
            await lifecycle.carry_out(self.ports, self.settings, record, [member.instance], by="a bug")
        return await real(self, members)

    with patch.object(Settlement, "commit", commit):
        yield


@contextmanager
def offered_without_proof() -> Iterator[None]:
    with (
        patch.object(instances, "_require_proof", lambda instance, signal, kind: None),
        patch.object(offering, "is_proven", lambda one, pulse: one.is_pending),
        without_guard("offer", "round"),
    ):
        yield


@contextmanager
def registered_without_its_provision() -> Iterator[None]:
    async def register(self: Fleets, plan: Any, machines: Any) -> Any:
        created = await self.ports.records.apply(*[self._registration(machine) for machine in machines])
        for one in created:
            self.holdings.hold(one, Origin.CREATED)
        return created

    with patch.object(Fleets, "_register", register):
        yield


@contextmanager
def expired_without_a_debt() -> Iterator[None]:
    real = instances.expire

    def body(subject: Any, event: Any) -> Any:
        after, guards = real.body(subject, event)
        return replace(after, owes=None), guards

    with patch.object(instances, "expire", replace(real, body=body)):
        yield


@contextmanager
def rolled_back_without_an_abort() -> Iterator[None]:
    async def abort(self: Settlement, reason: str) -> bool:
        self.record.stored = replace(self.record.stored, state=provision_steps.ABORTED, reason=reason)
        return True

    with patch.object(Settlement, "_abort", abort):
        yield


@contextmanager
def rolled_forward_though_aborted() -> Iterator[None]:
    real = lifecycle._consequence

    def consequence(ports: Any, settings: Any, decided: Any, held: Any, now: Any, by: str) -> Any:
        forward = replace(decided, state=provision_steps.COMMITTED, members=(held.id,))
        return real(ports, settings, forward, held, now, by)

    with patch.object(lifecycle, "_consequence", consequence):
        yield


@contextmanager
def lost_answers_are_failures() -> Iterator[None]:
    async def fence(self: Settlement, unknown: Any) -> None:
        return None

    with patch.object(Settlement, "_fence", fence):
        yield


@contextmanager
def handed_out_twice() -> Iterator[None]:
    real = TicketPickup._judge

    def forgetful(self: TicketPickup, ticket: Any, now: Any) -> Any:
        handed, self._handed = self._handed, {}
        waiting, self._return_at_close = self._return_at_close, {}
        try:
            return real(self, ticket, now)
        finally:
            self._handed, self._return_at_close = handed, waiting

    with patch.object(TicketPickup, "_judge", forgetful):
        yield


@contextmanager
def no_last_look() -> Iterator[None]:
    async def look(self: TicketPickup) -> bool:
        return False

    with patch.object(TicketPickup, "_check_index", look):
        yield


@contextmanager
def fallback_does_not_fit(*modules: ModuleType) -> Iterator[None]:
    """Only the requested usage class fits, in the judgement of these modules."""

    def judge(ticket: Any, needs: Any, *rest: Any) -> Any:
        return tickets.judge(ticket, replace(needs, fallback=()), *rest)

    with ExitStack() as planted:
        for module in modules:
            planted.enter_context(patch.object(module, "judge", judge))
        yield


@contextmanager
def lost_members_count() -> Iterator[None]:
    """A commit is answered as it was decided, whatever became of its members."""

    async def finish_commit(self: Settlement, members: Any) -> Any:
        landed, at_work = await self._carry_out()
        await self._close(at_work)
        return [Member(landed.get(m.instance.id) or m.instance, m.origin) for m in members]

    with patch.object(Settlement, "finish_commit", finish_commit):
        yield


@contextmanager
def revoked_without_the_intent() -> Iterator[None]:
    async def write(self: Settlement, reason: str) -> bool:
        debt = Debt(provision_steps.ProvisionDebt.RELEASE, self.ports.clock.now())
        self.record.stored = replace(self.record.stored, reason=reason, owes=debt)
        return True

    with patch.object(Settlement, "_write_revocation", write):
        yield


@contextmanager
def released_without_the_intent() -> Iterator[None]:
    async def conclude(*args: Any) -> list[Any]:
        return []

    with patch.object(release, "_conclude", conclude):
        yield


@contextmanager
def done_before_the_machine_is_gone() -> Iterator[None]:
    real = lifecycle.terminate

    async def terminate(ports: Ports, settings: Any, marked: Any, *, by: str) -> Any:
        async def at_once(ids: Any) -> list[str]:
            return list(ids)

        hasty = replace(ports, compute=SimpleNamespace(terminate=at_once))
        return await real(hasty, settings, marked, by=by)

    with patch.object(lifecycle, "terminate", terminate):
        yield


@contextmanager
def surplus_runs() -> Iterator[None]:
    real = Settlement.commit

    async def keep(self: ClaimWorker, loser: Any, patience: float) -> None:
        return None

    async def commit(self: Settlement, members: Any) -> Any:
        held = self.holdings.held.values()
        return await real(self, [Member(one.instance, one.origin) for one in held])

    with patch.object(ClaimWorker, "_part_with", keep), patch.object(Settlement, "commit", commit):
        yield


@contextmanager
def settled_without_carrying_out() -> Iterator[None]:
    async def carry_out(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}

    with patch.object(lifecycle, "carry_out", carry_out):
        yield


@contextmanager
def claims_expire_before_their_provision() -> Iterator[None]:
    real = instances.claim

    def body(subject: Any, event: Any) -> Any:
        after, guards = real.body(subject, event)
        return replace(after, threshold=event.at + timedelta(seconds=1)), guards

    with patch.object(instances, "claim", replace(real, body=body)):
        yield


@contextmanager
def released_runs_stay_open() -> Iterator[None]:
    """A release that does not abort what is open: more is acquired for a run that is over."""

    async def decide(*args: Any) -> list[Any]:
        return []

    with patch.object(release, "_decide", decide):
        yield
