"""Jobs: submitted, watched and cancelled, and their output line by line."""

from collections.abc import AsyncIterator

import msgspec

from bullpen.client.base import PAGE, Methods, drawn_key, part
from bullpen.client.transport import HttpRequest
from bullpen.jobs.log_tail import JobLogTail
from bullpen.model.job import FINISHED
from bullpen.model.job import State as JobState
from bullpen.schema.job import JobAnswer, JobList
from bullpen.schema.requests import PostponeJob, SubmitJob

LOG_PAGE = 64 * 1024  # bytes that a server sends at once
FOLLOW_EVERY = 0.25  # seconds between two looks at a job's output


class JobMethods(Methods):
    async def submit(self, wanted: SubmitJob, *, key: str = "") -> JobAnswer:
        """Queue a job for the runners of a run. With the `key` of an earlier call, it is the job of that call: without
        one a key is drawn, so that a lost answer queues no second job."""
        return await self._post("/v1/jobs", JobAnswer, wanted, key or drawn_key())

    async def jobs(self, run_id: str, *, state: JobState | None = None) -> AsyncIterator[JobAnswer]:
        """The jobs of a run, read page by page."""
        after = ""
        while True:
            page = await self.job_page(run_id, state=state, after=after)
            for one in page.jobs:
                yield one
            if not (after := page.next):
                return

    async def job_page(
        self, run_id: str, *, state: JobState | None = None, limit: int = PAGE, after: str = ""
    ) -> JobList:
        """Some of them; `after` is `next` of the page before."""
        asked = {"runId": run_id, "state": state.value if state else "", "after": after}
        return await self._get("/v1/jobs", JobList, limit=limit, **asked)

    async def job(self, job_id: str) -> JobAnswer:
        """A job and its story. Raise NotFound."""
        return await self._get(f"/v1/jobs/{part(job_id)}", JobAnswer)

    async def cancel_job(self, job_id: str) -> JobAnswer:
        """End a job that waits; ask the worker of a running one to end it. One that has ended stays as it is."""
        request = HttpRequest("POST", f"/v1/jobs/{part(job_id)}/cancel")
        return await self._requester.ask(request, JobAnswer)

    async def postpone_job(self, job_id: str, seconds: float) -> JobAnswer:
        """Keep a job that waits for a runner on its way, for at most 300 seconds; with 0, any runner may have it. One
        that does not wait stays as it is."""
        content = msgspec.json.encode(PostponeJob(seconds))
        request = HttpRequest("POST", f"/v1/jobs/{part(job_id)}/postpone", content=content)
        return await self._requester.ask(request, JobAnswer)

    async def job_lines(self, job_id: str, *, follow: bool = True) -> AsyncIterator[str]:
        """What a job prints, attempt after attempt: until it has ended, or with `follow=False` until now."""
        tail = JobLogTail(self.job_log, job_id)
        while True:
            job = await self.job(job_id)
            while lines := await tail.new_lines(job):
                for line in lines:
                    yield line
            if job.state is FINISHED or not follow:
                return
            await self._requester.transport.pause(FOLLOW_EVERY)

    async def job_log(self, job_id: str, fence: int = 0, offset: int = 0, limit: int = LOG_PAGE) -> bytes:
        """A part of what one attempt printed, as it is; `fence` 0 is the last attempt."""
        query = {"fence": fence, "offset": offset}
        reply = await self._requester.reply(HttpRequest("GET", f"/v1/jobs/{part(job_id)}/logs", query))
        return reply.content[:limit]
