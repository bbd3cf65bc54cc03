"""The holder of one set: listener, supplier and lease of this process, from taking the set to giving it up."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated
from bullpen.model.pause import Pause
from bullpen.model.scale_set import READY, RETIRING, ScaleSet
from bullpen.ports import Ports
from bullpen.scale_sets.actions import NoteActions, unnoted
from bullpen.scale_sets.lapsed_runs import LapsedRuns
from bullpen.scale_sets.listener import SetListener
from bullpen.scale_sets.members import MemberState
from bullpen.scale_sets.queued_runs import QueuedRuns
from bullpen.scale_sets.rules import UNNAMED_TABLE, tables
from bullpen.scale_sets.session import SessionLost, SessionRecord
from bullpen.scale_sets.supplier import Supplier
from bullpen.structured_log import get_logger

log = get_logger("bullpen.scale_sets")


class SetHolder:
    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        scale_set: ScaleSet,
        record: SessionRecord,
        *,
        linger: float,
        on_missing: Callable[[], None],
        on_queued: Callable[[Sequence[str], str], object],
        lists: Callable[[str, bool], bool] = lambda name, is_bare: is_bare,
        note: NoteActions = unnoted,
    ) -> None:
        """`lists` says whether the holder of this set lists queued jobs, which may have no runner at the moment."""
        self._ports = ports
        self._lease = settings.timings.lease
        self._was_lost = False
        self.record = record
        self.listener = SetListener(ports, scale_set, record, self._wake, note)
        self.listener.table = tables(settings).get(scale_set.name, UNNAMED_TABLE)
        started = self.listener.board.given
        self.supplier = Supplier(
            ports, settings, scale_set, self.listener, record, started, linger=linger, on_missing=on_missing, note=note
        )
        self.listener.rests = self.supplier.may_rest
        self._lapsed = LapsedRuns(ports, self.listener.board)
        self._lists = lists
        self._queued = QueuedRuns(ports, lambda: self.scale_set, self._lists_now, on_queued, settings.github.poll)

    @property
    def scale_set(self) -> ScaleSet:
        return self.listener.scale_set

    def adopt(self, scale_set: ScaleSet, linger: float) -> None:
        """The record of the set has changed: other rules, or it retires."""
        self.listener.scale_set = scale_set
        self.supplier.adopt(scale_set, linger=linger)

    def heed(self, pause: Pause | None) -> None:
        """Whether an operator has paused the class of the set, or the pool. Then it gets no further job and no further
        runner; what runs goes on."""
        self.listener.is_paused = pause is not None
        self.supplier.heed(pause)

    def why_given_up(self) -> str:
        """After the end of `run`."""
        if self.listener.is_missing:
            return "the CI does not have it any more"
        if self._was_lost:
            return "another process holds it"
        trouble = self.listener.trouble()
        return f"the CI does not answer: {trouble}" if trouble else "this process does not serve it any more"

    async def run(self) -> None:
        """Hold the set until it is cancelled, lost or missing, or the CI does not answer; then give it up."""
        loop = asyncio.get_running_loop()
        duties = (self.listener.run(), self.supplier.run(), self.record.keep(self._lease), self._queued.run())
        work = [loop.create_task(duty) for duty in (*duties, self._lapsed.run())]
        ended = asyncio.Event()
        for task in work:
            task.add_done_callback(lambda _: ended.set())
        try:
            await ended.wait()
        finally:
            for task in work:
                task.cancel()
            results = await asyncio.gather(*work, return_exceptions=True)
            self._was_lost = self.record.is_lost
            await self._give_up()
        for result in results:
            if isinstance(result, Outdated) or (
                isinstance(result, Exception) and not isinstance(result, BullpenError | SessionLost)
            ):
                raise result

    async def _give_up(self) -> None:
        """Close the session, and let the next process have the set at once. If that fails, its lease runs out."""
        if self.listener.is_missing and self.scale_set.state is READY:
            await self._recall_idle()
        closed = await self.listener.close()
        if not self.record.is_lost:
            with suppress(BullpenError, SessionLost):
                await self.record.yield_(closed=closed)

    async def _recall_idle(self) -> None:
        """The CI has deleted the set: idle runners register with the one that is created in its place. That it is
        missing is written by `desired`, which also looks whether another owner has taken its name."""
        with suppress(BullpenError):  # refresh recalls members that the CI does not list
            await self.supplier.recall_idle("its scale set was deleted")

    def _lists_now(self) -> bool:
        return self._lists(self.scale_set.name, self._is_bare())

    def _is_bare(self) -> bool:
        """Whether the set has no registered runner, and gets none: then the CI may not announce every job."""
        made = self.supplier.plan
        is_quiet = made is not None and not made.is_frozen and not made.claims
        has_none = all(one.state is MemberState.CLEANING for one in self.supplier.members)
        return self.scale_set.state is READY and is_quiet and has_none

    def _wake(self) -> None:
        self.supplier.wake()


def is_served(scale_set: ScaleSet) -> bool:
    """Whether a process should listen to it."""
    return scale_set.state in (READY, RETIRING) and scale_set.ci_id > 0
