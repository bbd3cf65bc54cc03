"""A run on a server, where the server has trouble of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

from builders import needs
from bullpen.cli.remote_pool import RemotePool
from bullpen.cli.remote_run import _RemoteWatch
from bullpen.client import AsyncClient
from bullpen.client.transport import ServerAway
from bullpen.errors import Unavailable
from bullpen.jobs.log_tail import JobLogTail
from bullpen.jobs.request import JobRequest
from bullpen.model.job import FINISHED, QUEUED, RUNNING, Job
from bullpen.model.progress import ProgressReport, Tell
from bullpen.provision.outcome import Request
from bullpen.run import RunOptions
from bullpen.run.replacement import REPLACE_AGAIN
from bullpen.run.watch import FollowedJob
from bullpen.schema.job import JobAnswer, job_of


class RestartedServer:
    """A server that has no runner of the run, and is restarted while it launches one."""

    def __init__(self) -> None:
        self.asked = 0

    async def provision(self, request: Request, **_: Any) -> None:
        self.asked += 1
        raise Unavailable("4711: the process that ran it has ended")

    async def instances(self, **_: Any) -> AsyncIterator[Any]:
        for one in list[Any]():
            yield one


def watch_on(server: object, tell: Tell) -> _RemoteWatch:
    pool, client = cast(RemotePool, server), cast(AsyncClient, server)
    return _RemoteWatch(pool, client, Request("4711", 1, needs(), 3600.0), RunOptions(), tell, lambda job, line: None)


async def test_a_run_whose_server_stays_away_does_not_wait_for_it_a_second_time() -> None:
    error = ServerAway("http://127.0.0.1:8420: does not answer", remedy="", was_sent=False)
    watch = watch_on(None, lambda report: None)  # it is asked nothing
    await watch.give_back_after(error)
    assert error.remedy == "Give the runners back with `bullpen release --run-id 4711`."


async def test_a_replacement_that_is_lost_with_its_server_is_asked_for_again() -> None:
    server, told = RestartedServer(), list[ProgressReport]()
    watch = watch_on(server, told.append)
    wanted = JobRequest("4711", ("true",))
    job = Job(id="j-1", version=0, state=QUEUED, run_id="4711", command=("true",))
    watch.followed = [FollowedJob(wanted, job, cast(JobLogTail, None))]
    for _ in range(2):
        await watch._replace_lost()
        await asyncio.sleep(REPLACE_AGAIN)
        await watch._replace_lost()
        await asyncio.sleep(REPLACE_AGAIN)
    assert server.asked >= 2
    assert "no replacement: 4711: the process that ran it has ended" in [report.text for report in told]


async def test_the_progress_of_jobs_is_that_of_a_local_run() -> None:
    jobs = [Job(f"j-{n}", state, 2, "4711", ("true",)) for n, state in enumerate((RUNNING, RUNNING, QUEUED, FINISHED))]
    reports: list[ProgressReport] = []

    class Server:
        async def jobs(self, run_id: str) -> AsyncIterator[JobAnswer]:
            for job in jobs:
                yield job_of(job)

        async def job_log(self, *_: Any) -> bytes:
            return b""

    watch = watch_on(Server(), reports.append)
    for job in jobs:
        log = JobLogTail(watch._client.job_log, job.id)
        watch.followed.append(FollowedJob(JobRequest("4711", ("true",)), replace(job, state=QUEUED), log))
    await asyncio.sleep(7)
    assert not await watch._all_ended()
    (report,) = reports
    assert report.text == "1 of 4 jobs ended, 2 running, 1 queued; 7 s"
    assert (report.done, report.total) == (1, 4)
