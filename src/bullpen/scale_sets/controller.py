"""The scale sets of one process of `serve`: which of them it holds, and which it watches in case their holder dies.

Any number of processes may run this. Of each set one is the holder; the others read its record every few seconds and
take it over once it has stood still for a whole lease.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from bullpen.config import Settings
from bullpen.lazy_dataclass import dataclass
from bullpen.model.pause import Pause, paused_by
from bullpen.model.scale_set import WANTED, ScaleSet, fits_set
from bullpen.model.times import later
from bullpen.model.wait import ExplainedWait, WaitCause, WaitKind
from bullpen.ports import Ports
from bullpen.scale_sets.actions import NoteActions, SetAction, unnoted
from bullpen.scale_sets.desired import DesiredSets
from bullpen.scale_sets.holder import SetHolder, is_served
from bullpen.scale_sets.job_tally import JobTally
from bullpen.scale_sets.queued_hints import QueuedHints
from bullpen.scale_sets.queued_labels import QueuedLabels
from bullpen.scale_sets.rules import UNNAMED_TABLE, lingers, tables
from bullpen.scale_sets.session import StandBy
from bullpen.structured_log import get_logger

RECONCILED = 60.0  # seconds between two comparisons with the settings: later only accidents change a set
MISSING = 10.0  # seconds between two attempts to create a set that the CI does not have
RESTED = 30.0  # seconds after giving up a set that is still served: another process goes first
LONGEST_MISSING = 300.0  # seconds before a set is taken again that the CI still does not have; doubled up to here

log = get_logger("bullpen.scale_sets")


@dataclass(frozen=True, slots=True)
class _MissingSet:
    """The CI does not have the set of this id. It is not taken again before `until`, unless it gets another id."""

    ci_id: int
    pause: float
    until: float


class ScaleSetController:
    """Call `run_once()` every other second, and `stop()` at the end. `process` is unique among all replicas."""

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        process: str,
        *,
        on_missing: Callable[[], None] = lambda: None,
        note: NoteActions = unnoted,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._process = process
        self._lingers = lingers(settings)
        self._on_missing = on_missing
        self._note = note
        self._desired = DesiredSets(ports, settings, by=process, holds=self._rounds)
        self._compare_at = 0.0
        self._failed: dict[str, str] = {}
        self._left: list[SetAction] = []  # what the last comparison left alone: noted once, not every minute
        self._stand_by = StandBy(ports, settings.timings.lease, process)
        self._holders: dict[str, SetHolder] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._missing: dict[str, _MissingSet] = {}
        self._pauses: list[Pause] = []
        self._queued = QueuedLabels()
        self._hints = QueuedHints(ports)
        self._names: tuple[str, ...] = ()  # of all sets
        self._tables = tables(settings)
        self._shares_list = "/" in settings.github.scope and not settings.github.webhook_secret
        self._lister = ""  # the set whose holder lists for all of them
        self._is_stopping = False
        self._tracks = settings.liveness.tracking
        self._unheard: set[str] = set()  # sets that are reported
        self.tally = JobTally()  # of all sets that this process has held

    @property
    def held(self) -> Mapping[str, SetHolder]:
        """The sets that this process holds, by name."""
        return self._holders

    def note_queued(self, labels: Sequence[str], repository: str = "") -> bool:
        """A queued job asks for these labels. True if a set can run it. Any job may be noted: most are none of a set's,
        and those that only seem so are reported."""
        self._queued.note(labels, asyncio.get_running_loop().time(), repository)
        return any(fits_set(labels, name) for name in self._names)

    def unmatched(self) -> list[ExplainedWait]:
        """Queued jobs that ask for labels that no set has, as far as this process was told of them."""
        time, now = asyncio.get_running_loop().time(), self._ports.clock.now()
        return [
            ExplainedWait(
                subject=", ".join(one.wrong.labels),
                kind=WaitKind.JOB,
                cause=WaitCause.NO_MATCH,
                because=f"a {one.wrong.what}",
                next=one.wrong.remedy(self._tables),
                repository=one.repository,
                since=later(now, one.first_at - time),
            )
            for one in self._queued.unmatched(time)
        ]

    async def run_once(self) -> None:
        """Compare the sets with the settings now and then, take what is free, and follow changes of what is held."""
        self._reap()
        if self._is_stopping:
            return
        found = await self._ports.records.scale_sets()
        time = asyncio.get_running_loop().time()
        is_missing = (
            any(one.state is WANTED for one in found.values()) and time >= self._compare_at - RECONCILED + MISSING
        )
        if time >= self._compare_at or is_missing:
            self._compare_at = time + RECONCILED
            await self._compare()
            found = await self._ports.records.scale_sets()
        listening = [name for name, one in self._holders.items() if one.listener.current() is not None]
        self._lister = min(listening, default="")
        served = {name: one for name, one in found.items() if is_served(one) and self._hears(name)}
        self._pauses = await self._ports.records.pauses() if served else []
        self._give_up([task for name, task in self._tasks.items() if name not in served])
        for name, holder in self._holders.items():
            if name in served and served[name] != holder.scale_set:
                holder.adopt(served[name], self._linger(name))
            holder.heed(paused_by(self._pauses, holder.scale_set.rules.resource_class))
        await self._heed_queued([name for name, one in found.items() if one.may_have_runners])
        free = {name: one for name, one in served.items() if name not in self._holders}
        if free:
            await self._take(free)

    def adopt(self, settings: Settings) -> None:
        """Use these `liveness.*` from now on: only whether heartbeats are recorded matters here."""
        self._tracks = settings.liveness.tracking
        self._unheard.clear()
        if not self._tracks:  # at once: in a moment every runner of theirs looks silent
            self._give_up(self._tasks.values())

    def _hears(self, name: str) -> bool:
        """Whether the server records the heartbeats that report what the runners of a set do. The settings allow no set
        without them, but a set that was removed from the settings may still have runners. The controller does not
        serve such a set: it regards none of the runners as idle, and every job can use all its time."""
        if not self._tracks and name not in self._unheard:
            self._unheard.add(name)
            remedy = "Set liveness.tracking = true until the set is retired."
            log.error("scale set is not served without heartbeats", set=name, remedy=remedy)
            self._note([SetAction("alarm", name, f"it is not served without heartbeats. {remedy}", is_done=False)])
        return self._tracks

    async def stop(self) -> None:
        """Give up every set, so that another process can take it at once."""
        self._is_stopping = True
        self._give_up(self._tasks.values())
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._note([SetAction("give up set", name, "the process ends") for name in self._tasks])
        self._tasks.clear()
        self._holders.clear()

    async def _compare(self) -> None:
        """Bring the sets to what the settings say. A set that fails stops no other one, and is tried again."""
        report = await self._desired.run_once()
        for action in report.actions:
            if action.is_done:
                log.info(action.what, set=action.subject, reason=action.reason)
        self._note([one for one in report.actions if one.is_done or one not in self._left])
        self._left = [one for one in report.actions if not one.is_done]
        failed = {name: str(failure) for name, failure in report.failures.items()}
        for name, why in failed.items():
            if self._failed.get(name) != why:
                log.error("scale set is not as the settings say", set=name, error=why)
                self._note([SetAction("cannot check set", name, why, is_done=False)])
        self._failed = failed

    def _rounds(self) -> dict[str, str]:
        return {name: holder.record.stored.round for name, holder in self._holders.items()}

    async def _heed_queued(self, known: Collection[str]) -> None:
        """Pass on what was noted about queued jobs: to the holders of this process, and to those of others. `known` are
        the names of all sets."""
        self._names = tuple(known)
        time = asyncio.get_running_loop().time()
        for wrong, repository in self._queued.mistaken(known):
            remedy, sets = wrong.remedy(self._tables), ", ".join(sorted(known))
            asked = ", ".join(wrong.labels)
            log.error(wrong.what, labels=asked, repository=repository or None, sets=sets, remedy=remedy)
            self._note([SetAction("alarm", asked, f"{wrong.what}. {remedy}", is_done=False)])
        for name, at in self._queued.take(self._holders, known, time).items():
            self._holders[name].supplier.note_queued(at)
        await self._hints.send(self._queued.left())
        for name, holder in list(self._holders.items()):
            is_needed = not holder.scale_set.rules.min  # otherwise a runner is registered anyway
            if is_needed and (told := await self._hints.receive(name)) is not None:
                holder.supplier.note_queued(told)

    def _lists(self, name: str, is_bare: bool) -> bool:
        """Whether the holder of this set lists queued jobs now. In a repository's scope all sets share one list."""
        return name == self._lister if self._shares_list else is_bare

    def _linger(self, name: str) -> float:
        return self._lingers.get(name, 0.0)  # a set that retires keeps no runner

    async def _take(self, free: Mapping[str, ScaleSet]) -> None:
        sessions = await self._ports.records.set_sessions()
        time = asyncio.get_running_loop().time()
        for name, scale_set in free.items():
            missing = self._missing.get(name)
            is_missing = missing is not None and missing.ci_id == scale_set.ci_id and time < missing.until
            if time < self._not_before.get(name, 0.0) or is_missing:
                continue
            record = await self._stand_by.try_take(name, sessions.get(name))
            if record is None:
                continue
            log.info("holds scale set", set=name, epoch=record.stored.epoch)
            self._note([SetAction("hold set", name, "no other process listens to it")])
            holder = self._holders[name] = SetHolder(
                self._ports,
                self._settings,
                scale_set,
                record,
                linger=self._linger(name),
                on_missing=self._on_missing,
                on_queued=self.note_queued,
                lists=self._lists,
                note=self._note,
            )
            holder.listener.tally = self.tally
            holder.heed(paused_by(self._pauses, scale_set.rules.resource_class))
            self._tasks[name] = asyncio.get_running_loop().create_task(holder.run())

    def _give_up(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """End these holders, each once: a holder closes its session at its end, and that may take longer than a turn of
        this loop."""
        for task in tasks:
            if not task.cancelling():
                task.cancel()

    def _reap(self) -> None:
        """Forget holders that have ended. Raise their unexpected errors."""
        ended = {name: task for name, task in self._tasks.items() if task.done()}
        for name in ended:
            holder = self._holders.pop(name)
            del self._tasks[name]
            self._note([SetAction("give up set", name, holder.why_given_up())])
            if holder.listener.is_missing:
                self._meet_missing(holder)
            else:  # another process has it, or should try
                self._not_before[name] = asyncio.get_running_loop().time() + RESTED
        for task in ended.values():
            if not task.cancelled():
                task.result()

    def _meet_missing(self, holder: SetHolder) -> None:
        """The CI has deleted a set. It is compared with the settings at once, which creates it again, under another id.
        Where that fails, this process takes it less and less often."""
        one, before = holder.scale_set, self._missing.get(holder.scale_set.name)
        pause = MISSING
        if before is None or before.ci_id != one.ci_id or holder.listener.current() is not None:
            table = self._tables.get(one.name, UNNAMED_TABLE)
            remedy = (
                f"To keep it, do nothing: `serve` creates it again. To remove it, remove [{table}] from the settings."
            )
            log.error(
                "scale set was deleted at the CI", set=one.name, id=one.ci_id, setting=f"{table}.name", remedy=remedy
            )
            self._note([SetAction("alarm", one.name, f"it was deleted at the CI. {remedy}", is_done=False)])
            self._compare_at = 0.0
        else:
            pause = min(2 * before.pause, LONGEST_MISSING)
        self._missing[one.name] = _MissingSet(one.ci_id, pause, asyncio.get_running_loop().time() + pause)
