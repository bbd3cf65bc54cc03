"""Long polls of agents that wait for a change of their record: one read of the store serves all of them."""

import asyncio
from datetime import datetime, timedelta

from bullpen.errors import BullpenError, Unavailable
from bullpen.jobs.assignment import CANDIDATES, Spread, capabilities_of, is_alone, spread
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.job import Job
from bullpen.model.worker import Worker
from bullpen.ports import Ports

TICK = 0.2  # seconds between reads where nothing wakes the process: how long a claim waits for its agent at most
RUNS = 1000  # runs with queued jobs that one read covers
STARTS = 50  # workers of one instance looked at: one for each start of its agent, until cleaned up


@dataclass(frozen=True, slots=True)
class RecordView:
    """An instance's record, if there is one, and whether a job of its run waits that its worker may take now."""

    instance: Instance | None
    has_job: bool

    @property
    def mark(self) -> str:
        """What a caller has seen: another one means a change."""
        return f"{self.instance.version if self.instance else 0}.{int(self.has_job)}"


@dataclass(eq=False, slots=True)
class _Waiter:
    instance_id: str
    seen: str
    news: "asyncio.Future[RecordView]"


class LongPoll:
    """Agents' long polls. Its one task reads only while an agent waits."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._waiting: list[_Waiter] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def read(self, instance_id: str) -> RecordView:
        views = await self._read([instance_id])
        if instance_id not in views:
            raise Unavailable(f"{instance_id}: its record cannot be read", remedy="See the log of `bullpen serve`.")
        return views[instance_id]

    async def news(self, instance_id: str, seen: str, within: float) -> RecordView:
        """The record once it differs from what was seen, or as it is after `within` seconds."""
        view = await self.read(instance_id)
        if view.mark != seen or within <= 0 or self._closed:
            return view
        waiter = _Waiter(instance_id, seen, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch())
        try:
            async with asyncio.timeout(within):
                return await waiter.news
        except TimeoutError:
            return view
        finally:
            self._waiting.remove(waiter)

    async def close(self) -> None:
        """Answer all waiting agents with what they have seen, and every later one without waiting."""
        self._closed = True
        for waiter in self._waiting:
            if not waiter.news.done():
                waiter.news.set_exception(TimeoutError())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while self._waiting:
            await self._ports.signals.wait(TICK)
            try:
                views = await self._read(list(dict.fromkeys(waiter.instance_id for waiter in self._waiting)))
            except BullpenError:
                continue  # the store does not answer: the poll ends by its own time-out, and the next one says so
            for waiter in self._waiting:
                view = views.get(waiter.instance_id)
                if view is not None and view.mark != waiter.seen and not waiter.news.done():
                    waiter.news.set_result(view)

    async def _read(self, ids: list[str]) -> dict[str, RecordView]:
        """An instance whose record cannot be read is left out: an agent without a record ends its machine."""
        found = await self._ports.records.instances(ids)
        unread = [id for id in ids if id not in found]
        unreadable = await self._ports.records.known(unread) if unread else set()
        waiting = dict.fromkeys(await self._ports.jobs.waiting_runs(RUNS))
        served = [one for one in found.values() if one.state is RUNNING and one.run_id in waiting]
        suited = await self._suited(served) if served else {}
        return {id: RecordView(found.get(id), id in suited) for id in ids if id not in unreadable}

    async def _suited(self, served: list[Instance]) -> dict[str, None]:
        """The instances whose worker would get a job, by the rules of `jobs.take`: what is announced is given."""
        now = self._ports.clock.now()
        workers = {one.id: worker for one in served if (worker := await self._worker(one.id, now))}
        cards = await self._ports.workers.cards([worker.id for worker in workers.values()])
        pages: dict[tuple[str, tuple[str, ...]], list[Job]] = {}
        spreads: dict[tuple[str, tuple[str, ...]], Spread] = {}
        suited: dict[str, None] = {}
        for one in served:
            if (worker := workers.get(one.id)) is None:
                continue
            able = capabilities_of(cards.get(worker.id))
            lease = timedelta(seconds=worker.lease)
            if (one.run_id, able) not in pages:
                # Read at once for all workers of a run that have the same capabilities.
                page = await self._ports.jobs.queued(one.run_id, now, CANDIDATES, able)
                pages[one.run_id, able] = page
                if page:
                    spreads[one.run_id, able] = await spread(self._ports, one.run_id, page, able, lease)
            page = pages[one.run_id, able]
            if page and spreads[one.run_id, able].leaves(one.id):
                continue
            if (
                any(job.avoid != worker.id for job in page)
                or (page and await self._ports.jobs.queued(one.run_id, now, 1, able, without=worker.id))
                or (page and await is_alone(self._ports, one, lease))
            ):
                suited[one.id] = None
        return suited

    async def _worker(self, instance_id: str, now: datetime) -> Worker | None:
        """The instance's worker that beat last, if its lease holds and it is not leaving: no other one gets a job."""
        listed = await self._ports.workers.listed(STARTS, after=f"{instance_id}/")
        alive = [one for one in listed if one.instance_id == instance_id and one.takes_jobs(now)]
        return max(alive, key=lambda one: (one.beat_at or now, one.id), default=None)
