"""Claims for a set: idle instances of the pool, claimed and verified as for a run, and engaged one by one.

A run gets all its runners or none. A set has no such number: each runner serves as soon as it is registered, whatever
becomes of the others. So there is no provision record. A claim that its process does not finish is engaged by the next
holder if its runner has registered and the set has room, and rolled back at its threshold otherwise.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import Conflict
from bullpen.model import provision as provisions
from bullpen.model import set_member
from bullpen.model.instance import Instance, InstanceFate
from bullpen.model.registration_failure import RegistrationFailure
from bullpen.model.scale_set import READY, ScaleSet, must_be_ready
from bullpen.model.ticket import Requirements
from bullpen.model.times import later
from bullpen.pool.repositories import with_inherited
from bullpen.pool.watcher import Watcher
from bullpen.ports import Ports
from bullpen.provision.holdings import Holdings
from bullpen.provision.pickup import TicketPickup
from bullpen.provision.selection import ClaimWorker
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.scale_sets.session import SessionRecord
from bullpen.scale_sets.supply import MARGIN


def needs_of(settings: Settings, scale_set: ScaleSet) -> Requirements:
    """What an instance must be to serve the set. Raise ConfigError if its class is not configured any more."""
    rules = scale_set.rules
    return settings.requirements(rules.resource_class, rules.usage_class, trust_domain=rules.trust_domain)


def engaged_until(scale_set: ScaleSet, now: datetime) -> datetime:
    return later(now, scale_set.rules.max_runtime + MARGIN)


async def engage(
    ports: Ports, scale_set: ScaleSet, claimed: Instance, record: SessionRecord, note: NoteActions = unnoted
) -> Instance | None:
    """Let the CI's jobs have it; None if it was moved meanwhile, the set does not want it any more, or another process
    holds the set by now: only the holder knows how many members the set has."""
    now = ports.clock.now()
    event = set_member.Engaged(
        at=now,
        by=record.by,
        why="its runner is registered",
        round=claimed.round,
        scale_set=scale_set,
        until=engaged_until(scale_set, now),
    )
    try:
        change = set_member.engage(claimed, event)
        (landed,) = await ports.records.apply(change, checks=[must_be_ready(scale_set.name), record.fence])
    except Conflict:
        return None
    note([SetAction("engage", claimed.id, f"set {scale_set.name}: {event.why}")])
    return landed  # type: ignore[no-any-return]


class ClaimBurst:
    """Some claims at once, which share the candidates of the pool. `failing` says why the CI registers no runner:
    then nothing more is claimed, and what could not register for that reason is given back."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        current: Callable[[], ScaleSet],
        failing: Callable[[], RegistrationFailure | None],
        record: SessionRecord,
        note: NoteActions = unnoted,
    ) -> None:
        self.open_places = 0  # claims that are neither engaged nor given up, or whose outcome is not known
        self._ports = ports
        self._settings = settings
        self._set = current()
        self._current = current  # its rules may change while a runner registers
        self._is_refused = False  # a claim could not be engaged
        self._failing = failing
        self._record = record
        self._note = note
        self._holdings = Holdings(ports)

    @property
    def held(self) -> set[str]:
        """Instances that are claimed here and not engaged yet."""
        return set(self._holdings.held)

    @property
    def tried(self) -> list[str]:
        """Instances of which a claim was sent. Also one whose answer was lost may become a member."""
        return list(self._holdings.tried)

    @property
    def refused_versions(self) -> dict[str, str]:
        """The versions of runners that the CI refused to register, by instance."""
        return dict(self._holdings.refused_versions)

    async def run(self, count: int, on_change: Callable[[], None]) -> int:
        """Returns how many the pool did not have. Raise as the store does: then what was claimed is left to the next
        holder, or to its threshold."""
        self.open_places = count
        ports, settings, by = self._ports, self._settings, self._record.by
        try:
            needs = await with_inherited(ports, settings, needs_of(settings, self._set), by)
            # Another place of the index each time: two sets of one class do not collide on its first entries.
            pickup = TicketPickup(ports, settings, needs, f"{self._set.run_id}{ports.chance.token()}", by=by)
            async with Watcher(ports.signals, ports.clock, settings.timings) as watcher:
                worker = self._worker(needs, pickup, watcher, on_change)
                try:
                    ones = (self._one(worker, on_change) for _ in range(count))
                    found = await asyncio.gather(*ones, return_exceptions=True)
                finally:
                    await pickup.close()
        finally:
            self.open_places = 0
            self._note_parted()
        for failure in [one for one in found if isinstance(one, BaseException)]:
            raise failure
        return 0 if self._is_hindered() else sum(one is None for one in found)

    def _note_parted(self) -> None:
        """What was claimed and did not become a member. What another process moved is not this one's action."""
        name, holdings = self._set.name, self._holdings
        ended = [one for one in holdings.discarded if one.outcome is not InstanceFate.NOT_OURS]
        self._note([SetAction("terminate", one.instance_id, f"set {name}: {one.reason}") for one in ended])
        self._note([SetAction("roll back", id, f"set {name}: {why}") for id, (_, _, why) in holdings.losers.items()])

    def _is_hindered(self) -> bool:
        # A process that was paused: another one may hold the set, and fill its places.
        if not self._record.is_sure(self._settings.timings.lease):
            return True
        # Else each claim that the set does not take would be followed by the next one, through the whole pool.
        if self._is_refused or not _takes_same(self._current(), self._set):
            return True
        failure = self._failing()
        return failure is not None and not failure.is_due(asyncio.get_running_loop().time())

    def _excuse(self) -> str:
        """GitHub may be slow without failing: a machine is never ended for that."""
        failure = self._failing()
        return failure.why if failure is not None else "the CI did not register it in time"

    def _worker(
        self, needs: Requirements, pickup: TicketPickup, watcher: Watcher, on_change: Callable[[], None]
    ) -> ClaimWorker:
        ports = self._ports

        def begin(claimed: Instance) -> None:
            """What the pool lacks is less by one from now on, and the registration may begin."""
            ports.ci.prepare(claimed.id, claimed.run_id, claimed.round)
            on_change()

        # The claim itself has to outlast its registration, and the hedges of it.
        deadline = later(ports.clock.now(), 3 * self._settings.timings.registration)
        return ClaimWorker(
            ports,
            self._settings,
            provisions.absent("", self._set.run_id, 0, needs, deadline, 0.0),
            pickup,
            watcher,
            self._holdings,
            self._record.by,
            excuse=self._excuse,
            is_hindered=self._is_hindered,
            on_claim=begin,
        )

    async def _one(self, worker: ClaimWorker, on_change: Callable[[], None]) -> Instance | None:
        """Its place stays open if it fails: what it claimed may become a member."""
        landed = None
        while landed is None and (member := await worker.select()) is not None:
            landed = await engage(self._ports, self._current(), member.instance, self._record, self._note)
            self._is_refused |= landed is None
            self._holdings.held.pop(member.instance.id, None)
        self.open_places -= 1
        if landed is not None:
            on_change()
        return landed


def _takes_same(now: ScaleSet, before: ScaleSet) -> bool:
    """Whether the set still takes the instances that it took before."""
    kinds = [(one.rules.resource_class, one.rules.usage_class, one.rules.trust_domain) for one in (now, before)]
    return now.state is READY and kinds[0] == kinds[1]
