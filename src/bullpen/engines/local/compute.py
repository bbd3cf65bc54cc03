"""Compute as processes on this machine: `ports.Compute` with a capacity that really runs out."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from bullpen.config import Settings
from bullpen.engines.local import machines, users
from bullpen.engines.local.launch import FREED_WITHIN, LOOK_AGAIN_AFTER, NotLaunched, end, launch
from bullpen.engines.local.machines import Line
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.tokens import SqliteTokens
from bullpen.engines.sqlite.writer import Transaction
from bullpen.errors import BullpenError
from bullpen.host import scheduled_jobs
from bullpen.host.processes import ProcessIdentity, descendants, is_running, mark_of
from bullpen.model.fleet import FleetAnswer, FleetError, FleetPlan, LaunchedMachine
from bullpen.model.ticket import UsageClass
from bullpen.ports import Chance, Clock, Sighting
from bullpen.structured_log import get_logger

T = TypeVar("T")

log = get_logger("bullpen.engines.local")

LAUNCH_LASTS = timedelta(seconds=5)
"""For so long a machine without a pid may be about to start. It takes milliseconds; a stopped launcher takes longer,
and finds on its return that the machine was ended."""

REMEMBERED = timedelta(days=1)
"""How long a client token is answered as before; longer than any provision lasts."""

HANDS = 8  # threads: starting and ending processes is mostly waiting for the kernel


class LocalCompute:
    """Any number may work on one home. Blocking work is done by threads of its own; `close` lets go of them."""

    def __init__(self, database: Database, home: Path, settings: Settings, clock: Clock, chance: Chance) -> None:
        self._database = database
        self._home = home.resolve()
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._hands: ThreadPoolExecutor | None = None
        self._stay: dict[str, str] = {}  # would not end when this process asked for it, and why
        self._children: list[int] = []  # started by this process; collected when they have ended, or by init after it

    async def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        kind = machines.choose_type(plan, self._settings.resource_class(plan.resource_class))
        if kind is None:
            wanted = f"class {plan.resource_class}, {plan.cpu} cpu, {plan.mem} MiB, {' '.join(plan.allowed_types)}"
            offered = ", ".join(offer.name for offer in machines.TYPES)
            remedy = "Ask for less cpu or mem, or allow one of these instance types."
            return FleetAnswer((), (_error(f"no type fits {wanted}; there are {offered}", remedy),))
        try:
            names = users.offered(self._settings)
        except users.Unusable as exc:
            remedy = f"Correct {users.SETTING}: users for jobs only, each with an id and a group of its own."
            return FleetAnswer((), (_error(str(exc), remedy),))
        lines = await self._database.read(machines.alive)
        dead = await self._dead(lines)
        await self._bury(sorted(dead))
        unused = users.free(names or (), {line.user for line in lines}, len(names or ()))
        strange = await self._by_hand(partial(users.busy, unused)) if unused else {}
        uids = {name: number for name in names or () if (number := users.number_of(name)) is not None}
        ids = sorted(f"i-{self._chance.token()}" for _ in range(plan.count))
        drawn = [LaunchedMachine(id_, kind.name, plan.usage_class, kind.cpu, kind.mem) for id_ in ids]
        now = self._clock.now()

        def book(transaction: Transaction) -> tuple[list[LaunchedMachine], dict[str, str] | None, str]:
            """The answer; as whom the jobs of each machine run if it is new; the setting that allows no more."""
            answered = machines.of_fleet(transaction, plan.client_token)
            if answered is not None:
                return [line.machine for line in answered], None, "local.capacity" if names is None else users.SETTING
            alive = machines.alive(transaction)
            room, setting = self._room([line for line in alive if line.id not in dead], plan.usage_class)
            # The dead keep their users until all that they left running has ended.
            taken = {line.user for line in alive} | strange.keys()
            free = users.free(names, taken, min(room, plan.count))
            given = {machine.id: user for machine, user in zip(drawn, free, strict=False)}
            limit = setting if names is None or len(free) == room else users.SETTING
            fitting = drawn[: len(given)]
            machines.book(transaction, plan, fitting, now, given, uids)
            machines.forget(transaction, now - REMEMBERED)
            return fitting, given, limit

        answered, given, limit = await self._database.write(book)
        errors: list[FleetError] = []
        if len(answered) < plan.count:
            lacking = f"this host has no room for {plan.count - len(answered)} more {kind.name} ({plan.usage_class})"
            errors.append(self._no_room(lacking, limit, names or (), strange))
        if given is not None:
            failures = await self._start(given)
            answered = [machine for machine in answered if machine.id not in failures]
            errors += failures.values()
        return FleetAnswer(tuple(answered), tuple(errors))

    async def terminate(self, ids: Sequence[str]) -> list[str]:
        lines = {line.id: line for line in await self._database.read(lambda snapshot: machines.of_ids(snapshot, ids))}
        ending = [line for line in lines.values() if not line.has_ended]
        stayed = dict(self._stay)
        # One that fails stops no other.
        outcomes = await asyncio.gather(*(self._end(line) for line in ending), return_exceptions=True)
        self._collect_children()
        for line, outcome in zip(ending, outcomes, strict=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, BullpenError):
                self._stay[line.id] = f"an unexpected error kept it from being ended: {outcome!r}"
                if stayed.get(line.id) != self._stay[line.id]:  # it is tried again every second
                    log.error("machine cannot be ended", instance=line.id, exc_info=outcome)
            elif isinstance(outcome, BaseException):
                raise outcome  # the store is away: what ended is owed still, and found ended the next time
        certain = [line.id for line, outcome in zip(ending, outcomes, strict=True) if outcome is True]
        return [id_ for id_ in dict.fromkeys(ids) if id_ not in lines or lines[id_].has_ended or id_ in certain]

    async def sightings(self) -> list[Sighting]:
        lines = await self._database.read(machines.alive)
        dead = await self._dead(lines)
        self._collect_children()
        return [
            Sighting(
                id=line.id,
                provision_id=line.provision_id,
                launched_at=line.launched_at,
                alive=line.id not in dead or line.id in self._stay,  # what runs as its user may do so still
                pid=line.process.pid if line.process else None,
                stays=self._stay.get(line.id, ""),
            )
            for line in lines
        ]

    async def close(self) -> None:
        if self._hands is not None:
            self._hands.shutdown()

    def _no_room(self, lacking: str, limit: str, names: Sequence[str], strange: dict[str, str]) -> FleetError:
        """`limit` is the setting that allows no more machines."""
        if limit != users.SETTING:
            most = self._settings.local.capacity if limit == "local.capacity" else self._settings.local.spot_capacity
            return _error(f"{lacking}: {limit} is {most}", f"Raise {limit}, ask for fewer runners, or release some.")
        message = f"{lacking}: each needs a user of its own, and {users.SETTING} names {len(names)}"
        for name, pids in strange.items():
            message += f"; {name!r} must be used for jobs only, but already has processes: {pids}"
        remedy = f"Name more users in {users.SETTING}, ask for fewer runners, or release some first."
        return _error(message, remedy)

    def _room(self, living: list[Line], usage_class: UsageClass) -> tuple[int, str]:
        """For how many more machines this host has room, and the setting that says so."""
        local = self._settings.local
        room, setting = local.capacity - len(living), "local.capacity"
        if usage_class is UsageClass.SPOT:
            taken = sum(line.machine.usage_class is UsageClass.SPOT for line in living)
            if local.spot_capacity - taken < room:
                room, setting = local.spot_capacity - taken, "local.spot-capacity"
        return max(0, room), setting

    async def _agent_tokens(self, ids: Iterable[str]) -> dict[str, str]:
        """For `bullpen serve`: it derives the same from the same secret. Agents of the store itself need none."""
        from bullpen.auth.token_files import import_files
        from bullpen.auth.tokens import Keys

        store = SqliteTokens(self._database)
        await import_files(self._home, store)
        keys = await Keys.opened(store)
        now = self._clock.now().timestamp()
        return {id_: keys.agent_token(id_, now) for id_ in ids}

    async def _start(self, given: dict[str, str]) -> dict[str, FleetError]:
        """Start the processes of machines, given their users, and note them; return why, for those that do not run."""
        tokens = await self._agent_tokens(given) if self._settings.agent.serve_url else {}

        def start(id_: str) -> ProcessIdentity | NotLaunched:
            try:
                return launch(self._home, id_, self._settings, given[id_], tokens.get(id_, ""))
            except NotLaunched as exc:
                return exc

        outcomes = await asyncio.gather(*(self._by_hand(partial(start, id_)) for id_ in given))
        outcome_of = dict(zip(given, outcomes, strict=True))
        not_launched = {id_: outcome for id_, outcome in outcome_of.items() if isinstance(outcome, NotLaunched)}
        failures = {id_: _error(str(failure), failure.remedy) for id_, failure in not_launched.items()}
        started = {id_: outcome for id_, outcome in outcome_of.items() if isinstance(outcome, ProcessIdentity)}
        self._children += [process.pid for process in started.values()]
        at = self._clock.now()

        def note(transaction: Transaction) -> list[str]:
            machines.note_ends(transaction, failures, at)
            return machines.note_starts(transaction, started)

        for id_ in await self._database.write(note):
            # Another process ended the machine between its line and its process, and found nothing to end.
            await self._by_hand(partial(end, self._home, id_, started[id_]))
            failures[id_] = _error(f"{id_} was terminated while it started", "Run the command again.")
        return failures

    async def _end(self, line: Line) -> bool:
        """Whether the machine's end is certain, and noted then."""
        self._stay.pop(line.id, None)
        # What is the machine's by descent and mark is ended without its user: the agent has that until it dies.
        ended = await self._by_hand(partial(end, self._home, line.id, line.process))
        if ended is False:
            return False
        # Where nothing ran or was noted, its launcher may be at work.
        if ended is None and line.process is None and self._clock.now() - line.launched_at <= LAUNCH_LASTS:
            return False
        held = None
        if (uid := users.number_at_end(line.user, line.uid)) is not None:
            # Another process may have ended the machine since, and given its user to a new one. So the user's
            # processes are looked for, and the end is noted, while no other process can have the user.
            held = await self._hold(line.id, uid)
            seen = await self._database.read(lambda snapshot: machines.of_ids(snapshot, [line.id]))
            if not seen or seen[0].has_ended:
                if held is not None:
                    held.release()
                return True
            if held is None:
                return False
            if not await self._end_user(held, seen[0], uid):
                held.release()
                return False
        at = self._clock.now()
        await self._database.write(lambda transaction: machines.note_ends(transaction, [line.id], at))
        if held is not None:
            held.release()
        return True

    async def _end_user(self, held: users.Hold, line: Line, uid: int) -> bool:
        """Whether nothing runs as the machine's user, or will later. Why it cannot be so is noted."""
        try:
            return await self._by_hand(partial(_end_all, held, self._home, line, uid))
        except OSError as exc:
            subject = f"what runs as user {line.user!r}, or shall run later"
            self._stay[line.id] = f"{subject}, cannot be ended: {exc}; fix that, and Bullpen ends it"
            return False

    async def _hold(self, instance_id: str, uid: int) -> users.Hold | None:
        """Lock the machine's user. None if another process holds the lock for too long, so that the end must be tried
        again later; and if the user cannot be locked at all: then the reason is noted, because only an operator can
        fix it."""
        try:
            for _ in range(round(FREED_WITHIN / LOOK_AGAIN_AFTER)):
                if (held := users.hold(uid)) is not None:
                    return held
                await asyncio.sleep(LOOK_AGAIN_AFTER)
        except users.Unusable as exc:
            self._stay[instance_id] = str(exc)
        return None

    async def _dead(self, lines: Sequence[Line]) -> set[str]:
        return await self._by_hand(lambda: {line.id for line in lines if not self._runs(line)})

    def _runs(self, line: Line) -> bool:
        if line.process is not None:
            return is_running(line.process)
        # Its launcher was killed before it could note the process, if it came so far: then the mark still shows it.
        is_young = self._clock.now() - line.launched_at <= LAUNCH_LASTS
        return is_young or bool(descendants(None, mark_of(line.id)))

    async def _bury(self, dead: list[str]) -> None:
        """Close the lines of the dead that no record will ever have ended: their launcher died before it could register
        them, or even start them. Refresh does so too; a pool that is never refreshed must not look at them for ever."""
        forgotten = await self._database.read(lambda snapshot: machines.unrecorded(snapshot, dead)) if dead else []
        if forgotten:
            await self.terminate(forgotten)

    def _collect_children(self) -> None:
        """Let the kernel forget the children that have ended."""
        left = []
        for pid in self._children:
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    left.append(pid)
        self._children = left

    async def _by_hand(self, work: Callable[[], T]) -> T:
        if self._hands is None:
            self._hands = ThreadPoolExecutor(HANDS, thread_name_prefix="bullpen-local")
        return await asyncio.get_running_loop().run_in_executor(self._hands, work)


def _end_all(held: users.Hold, home: Path, line: Line, uid: int) -> bool:
    """End whatever runs as the machine's user, or would be started as it later; False if something could not be ended.
    Raise OSError. No other process has the user for as long as this runs, for it refers to `held`."""
    scheduled_jobs.clear(line.user, uid)  # first, or cron would start the next of what is ended here
    while is_certain := end(home, line.id, line.process, uid) is not False:
        if not scheduled_jobs.clear(line.user, uid):  # a process that ended just now may have added another
            break
    return is_certain


def _error(message: str, remedy: str) -> FleetError:
    """Without a code: those of EC2 say nothing about this host."""
    return FleetError("", message, remedy=remedy)
