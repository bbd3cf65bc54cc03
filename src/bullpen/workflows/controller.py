"""Follower: looks after the workflow runs that we have runners for, until they are over and everything is given back.

A webhook only wakes: it carries no truth into any decision. Lost, doubled, late or out of order, it costs one look at
most, and none of GitHub if we have nothing of its run. What no webhook tells is found by polling, once in
`github.poll` seconds for each run that holds instances or has lost some. So only ends wake: that of a run; and that of
a job in a run that has lost somebody, for others may wait for it. A busy pool has hundreds of other events a minute.

Any number of followers may look at once. Looks at different runs go on beside each other, for one that waits for new
runners takes minutes; a run is looked at by one of them at a time.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from bullpen.config import Settings
from bullpen.errors import BullpenError, Outdated, Throttled
from bullpen.liveness.debt import settle
from bullpen.liveness.lost_worker import Loss, losses_among
from bullpen.model.worker import ACTIVE, Worker
from bullpen.ports import Ports
from bullpen.workflows import holdings
from bullpen.workflows.alerts import Following, Voice
from bullpen.workflows.holdings import Held
from bullpen.workflows.machine_state import Proof
from bullpen.workflows.reconcile_run import Look

BY = "follower"
PAGE = 1000  # lost workers of one pass
MOST_NOTES = 10_000  # runs noted between two passes: what is beyond, polling finds
STRANGERS = 10.0  # seconds that a note of a run may wait of which we had nothing a moment ago
AT_ONCE = 16  # looks
PATIENCE = 5.0  # seconds that a pass waits for its looks; longer ones go on, and are heard of later
FIRST_BACKOFF = 2.0  # seconds after a look that failed
LONGEST_BACKOFF = 60.0


class Follower:
    """`run_once()` every other second; `rest()` when it is over."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings
        self._voice = Voice()
        self._stop = asyncio.Event()
        self._proof = Proof(ports, settings, self._voice)
        self._look = Look(ports, settings, self._proof, self._voice, self._stop)
        self._noted: dict[str, str] = {}
        self._woken = False
        self._poll_at = 0.0
        self._quiet_until = 0.0
        self._repositories: dict[str, str] = {}
        """Whose the runs are that we hold, where only a note has said so."""
        self._held: frozenset[str] = frozenset()
        """Runs that we had anything of when we looked last."""
        self._strangers_at = 0.0
        """When notes of other runs are looked at: by then they may be ours."""
        self._lossy: frozenset[str] = frozenset()
        """Runs that had lost somebody when we looked last."""
        self._failed: dict[str, tuple[int, float]] = {}
        """Runs whose look failed: how often in a row, and when to try again."""
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._missed: set[str] = set()
        """Runs that were to be looked at while they were."""

    def note(self, repository: str, run: str) -> None:
        """Something happened to a run, whatever it was: look at it soon. Costs no request if it is none of ours."""
        if run in self._noted or len(self._noted) < MOST_NOTES:
            self._noted[run] = repository

    def note_job(self, repository: str, run: str) -> None:
        """A job of a run has ended: as `note` if it may be what a loss waits for, else nothing."""
        if run in self._lossy:
            self.note(repository, run)

    def wake(self) -> None:
        """Workers were lost: look soon whether a run misses them."""
        self._woken = True

    def adopt(self, settings: Settings) -> None:
        """Other `liveness.*`: of all settings, only whether losses are tracked and rescheduled matters here."""
        self._settings = settings

    async def run_once(self) -> Following:
        """One pass: the runs that were noted, those that lost somebody since, and now and then each that we hold."""
        self._reap()
        time = asyncio.get_running_loop().time()
        polls = time >= self._poll_at
        again = [run for run, (_, at) in self._failed.items() if at <= time]
        if time >= self._quiet_until and (polls or self._has_news(time) or self._woken or again):
            noted, self._noted, self._woken = self._noted, {}, False
            try:
                begun = await self._pass(noted, again, polls=polls)
            except Exception:
                self._noted, self._woken = noted | self._noted, True
                raise
            if polls:
                self._poll_at = time + self._settings.github.poll
            await _some_time(begun)
            if polls:
                await self._look.forget_missing(self._held)
            self._reap()
        return self._voice.said()

    async def see_to_all(self) -> Following:
        """One whole pass over everything, with all that follows from it: for whoever looks once, and goes."""
        begun = await self._pass({}, [], polls=True)
        await asyncio.gather(*begun, return_exceptions=True)
        await self._look.forget_missing(self._held)
        self._reap()
        return self._voice.said()

    async def held(self) -> list[str]:
        """The runs that a whole pass would ask GitHub about. Changes nothing."""
        losses = await losses_among(self._ports, self._settings, await self._owing())
        return list(await holdings.gather(self._ports, self._settings, losses))

    async def look(self, repository: str, run: str) -> Following:
        """See to one run now, if we have anything of it."""
        losses = await self._losses()
        await self._proof.gather(losses)
        held = (await holdings.gather(self._ports, self._settings, losses)).get(run)
        if held is not None and (owner := _owner(held, repository)):
            await self._look.at(replace(held, repository=owner))
        return self._voice.said()

    async def rest(self) -> None:
        """Stop: what is at work is finished, or given back."""
        self._stop.set()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)

    async def _pass(self, noted: dict[str, str], again: list[str], *, polls: bool) -> list[asyncio.Task[None]]:
        """Begin the looks that are due."""
        losses = await self._losses()
        fresh = [loss.run for loss in losses if self._proof.is_new(loss)]
        if polls or fresh:
            # Before anybody counts who serves a label: an instance that is gone serves nobody.
            await self._proof.gather(losses)
        held = await holdings.gather(self._ports, self._settings, losses)
        self._held, self._lossy = frozenset(held), frozenset(loss.run for loss in losses)
        self._strangers_at = asyncio.get_running_loop().time() + STRANGERS
        known = self._repositories | noted
        self._repositories = {run: known[run] for run in held if run in known}
        self._failed = {run: entry for run, entry in self._failed.items() if run in held}
        due = held if polls else dict.fromkeys([*noted, *again, *fresh])
        return [begun for run in due if run in held and (begun := self._begin(held[run])) is not None]

    def _has_news(self, time: float) -> bool:
        """Whether there are notes to look at now. Those of runs that we had nothing of wait for each other: hardly any
        is ours, and one reading of the store answers for all."""
        return bool(self._noted) and (time >= self._strangers_at or any(run in self._held for run in self._noted))

    async def _losses(self) -> list[Loss]:
        """All that there are. Who was mute and is heard again, with its runner and what that runs, has lost nothing."""
        listed = await self._owing()
        # The list may lag, and somebody's machine may be ended for what it says.
        stored = await self._ports.workers.workers([one.id for one in listed]) if listed else {}
        losses = await losses_among(self._ports, self._settings, list(stored.values()))
        for loss in losses:
            if loss.worker.state is ACTIVE and await settle(self._ports, loss.worker, "it came back", by=BY):
                self._voice.tell(f"{loss.worker.id} came back")
        return [loss for loss in losses if loss.worker.state is not ACTIVE]

    async def _owing(self) -> list[Worker]:
        rules = self._settings.liveness
        return await self._ports.workers.owing(PAGE) if rules.tracking and rules.reschedule else []

    def _begin(self, held: Held) -> "asyncio.Task[None] | None":
        run, owner = held.run, _owner(held, self._repositories.get(held.run, ""))
        if not owner:
            return None
        if run in self._looks:
            self._missed.add(run)
            return None
        look = asyncio.get_running_loop().create_task(self._try(replace(held, repository=owner)))
        self._looks[run] = look
        return look

    async def _try(self, held: Held) -> None:
        """One look; a failure is said, and tried again, later each time."""
        async with self._places:
            try:
                await self._look.at(held)
            except BullpenError as exc:
                self._back_off(held.run, exc)
                if isinstance(exc, Outdated):
                    raise
                self._voice.alarm(f"run {held.run} of {held.repository} could not be seen to: {exc}")
            except Exception as exc:
                self._back_off(held.run, exc)
                raise
            else:
                self._failed.pop(held.run, None)

    def _back_off(self, run: str, failure: Exception) -> None:
        time = asyncio.get_running_loop().time()
        failures = self._failed.get(run, (0, 0.0))[0] + 1
        self._failed[run] = (failures, time + min(FIRST_BACKOFF ** min(failures, 16), LONGEST_BACKOFF))
        if isinstance(failure, Throttled):
            self._quiet_until = max(self._quiet_until, time + failure.retry_after)

    def _reap(self) -> None:
        """Forget the looks that have ended. Raise what nobody expected of them."""
        ended = {run: look for run, look in self._looks.items() if look.done()}
        for run in ended:
            del self._looks[run]
            if run in self._missed:
                self._missed.discard(run)
                self._noted.setdefault(run, self._repositories.get(run, ""))
        for look in ended.values():
            look.result()


async def _some_time(begun: list[asyncio.Task[None]]) -> None:
    """Wait for looks, not for long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(asyncio.shield(look) for look in begun), return_exceptions=True)


def _owner(held: Held, noted: str) -> str:
    """Whose run it is: as our records have it, else as a note has; empty if neither says."""
    return held.repository or noted
