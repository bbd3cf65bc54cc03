"""The pool as a whole: its instances, workers, stories and events. Questions, which change nothing."""

from collections.abc import AsyncIterator

from bullpen.client.base import PAGE, Methods, part
from bullpen.client.event_stream import PoolEvent, events_in
from bullpen.client.transport import HttpRequest, ServerAway
from bullpen.errors import Unavailable
from bullpen.model.instance import State as InstanceState
from bullpen.schema.instance import InstanceAnswer, InstanceList
from bullpen.schema.plan import PlanAnswer, PlanRun
from bullpen.schema.queue import QueueAnswer
from bullpen.schema.status import ServerStatus
from bullpen.schema.story import StoryList
from bullpen.schema.why import WhyAnswer
from bullpen.schema.worker import WorkerAnswer, WorkerList

SILENCE = 45.0  # seconds: a server sends a sign of life every 15
AGAIN_AFTER = 2.0  # seconds, as the server asks for
MOST_FAILURES = 30  # one after the other: a minute and more


class PoolMethods(Methods):
    async def reach(self, within: float) -> None:
        """Ask whether a server answers at this URL, for so many seconds at most. Raise Unavailable if none does."""
        await self._requester.reach(within)

    async def status(self) -> ServerStatus:
        """The pool in numbers, and the loops and settings of the server that answers."""
        return await self._get("/v1/status", ServerStatus)

    async def instances(
        self, *, state: InstanceState | None = None, resource_class: str = "", run_id: str = ""
    ) -> AsyncIterator[InstanceAnswer]:
        """The instances that are alive or whose termination is owed, read page by page."""
        after = ""
        while True:
            page = await self.instance_page(state=state, resource_class=resource_class, run_id=run_id, after=after)
            for one in page.instances:
                yield one
            if not (after := page.next):
                return

    async def instance_page(
        self,
        *,
        state: InstanceState | None = None,
        resource_class: str = "",
        run_id: str = "",
        limit: int = PAGE,
        after: str = "",
    ) -> InstanceList:
        """Some of them; `after` is `next` of the page before."""
        asked = {
            "state": state.value if state else "",
            "resourceClass": resource_class,
            "runId": run_id,
            "after": after,
        }
        return await self._get("/v1/instances", InstanceList, limit=limit, **asked)

    async def instance(self, instance_id: str) -> InstanceAnswer:
        """An instance and its story. Raise NotFound."""
        return await self._get(f"/v1/instances/{part(instance_id)}", InstanceAnswer)

    async def workers(self, *, state: str = "") -> AsyncIterator[WorkerAnswer]:
        """The workers, read page by page. `state` is active, inactive or suspect."""
        after = ""
        while True:
            page = await self.worker_page(state=state, after=after)
            for one in page.workers:
                yield one
            if not (after := page.next):
                return

    async def worker_page(self, *, state: str = "", limit: int = PAGE, after: str = "") -> WorkerList:
        """Some of them; `after` is `next` of the page before."""
        return await self._get("/v1/workers", WorkerList, limit=limit, state=state, after=after)

    async def worker(self, key: str) -> WorkerAnswer:
        """A worker and its story. Raise NotFound."""
        return await self._get(f"/v1/workers/{part(key)}", WorkerAnswer)

    async def stories(self, id: str) -> StoryList:
        """The last steps of an instance, provision, job or worker, of a scale set and its session, or of all that
        belongs to a run. Raise NotFound."""
        return await self._get(f"/v1/stories/{part(id)}", StoryList)

    async def evidence(self, id: str) -> AsyncIterator[bytes]:
        """A zip with everything that is known about a record, piece by piece. Raise NotFound."""
        async with self._requester.stream(HttpRequest("GET", f"/v1/evidence/{part(id)}"), SILENCE) as pieces:
            async for piece in pieces:
                yield piece

    async def why(self, id: str) -> WhyAnswer:
        """Why an instance, provision, job, run or scale set waits, and where its time went; also for the URL of a
        workflow run or of one of its jobs. Raise NotFound."""
        return await self._get(f"/v1/why/{part(id)}", WhyAnswer)

    async def plan(self, wanted: PlanRun) -> PlanAnswer:
        """What a provision would do now. It changes nothing."""
        return await self._post("/v1/plan", PlanAnswer, wanted)

    async def queue(self) -> QueueAnswer:
        """Everything that waits, and how long provisions took in the last day."""
        return await self._get("/v1/queue", QueueAnswer)

    async def events(self) -> AsyncIterator[PoolEvent]:
        """What happens in the pool, without end: first everything there is, then what changes. After a lost connection
        it begins again with everything there is."""
        failures = 0
        while True:
            try:
                async with self._requester.stream(HttpRequest("GET", "/v1/events"), SILENCE) as pieces:
                    async for event in events_in(pieces):
                        failures = 0
                        yield event
            except Unavailable as exc:
                failures += 1
                first_contact = isinstance(exc, ServerAway) and not self._requester.has_answered
                if first_contact or failures > MOST_FAILURES:
                    raise
            await self._requester.transport.pause(AGAIN_AFTER)
