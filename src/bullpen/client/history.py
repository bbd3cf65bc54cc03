"""The past of the pool: what machines cost, and what was done and why."""

from collections.abc import AsyncIterator

from bullpen.client.base import PAGE, Methods
from bullpen.schema.activity import ActivityList, NotedAction
from bullpen.schema.cost import CostAnswer, HourCostList


class HistoryMethods(Methods):
    async def cost(self, *, since: str = "7d", until: str = "", by: str = "repository") -> CostAnswer:
        """What machines cost, and whose it was. `since` and `until` are lengths such as 7d or 24h, counted back from
        now, or times in UTC; `by` is repository, class or run."""
        return await self._get("/v1/cost", CostAnswer, since=since, until=until, by=by)

    async def cost_hours(self, *, since: str = "7d", until: str = "") -> HourCostList:
        """The same by hour and owner, the oldest hour first."""
        return await self._get("/v1/cost/hours", HourCostList, since=since, until=until)

    async def activity(self, *, by: str = "", did: str = "", containing: str = "") -> AsyncIterator[NotedAction]:
        """What was done and why, the newest first, read page by page."""
        before = ""
        while True:
            page = await self.activity_page(by=by, did=did, containing=containing, before=before)
            for one in page.actions:
                yield one
            if not (before := page.next):
                return

    async def activity_page(
        self, *, by: str = "", did: str = "", containing: str = "", before: str = "", limit: int = PAGE
    ) -> ActivityList:
        """Actions before the place that an earlier page named as `next`."""
        found = {"by": by, "did": did, "q": containing, "before": before}
        return await self._get("/v1/activity", ActivityList, **found, limit=limit)
