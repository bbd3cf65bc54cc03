"""Jobs of the embedded CI, up to where an agent takes them."""

from pathlib import Path

import pytest

from builders import running
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.notify import Listener
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.model.job import QUEUED
from conformance.landing import land
from engines.sqlite.plans import plans_checked
from real_machines import SubmittedJobs

pytestmark = pytest.mark.real_loop


async def test_a_submitted_job_is_queued_with_its_command(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        jobs = SubmittedJobs(database)
        with plans_checked(database.path):
            job_id = await jobs.submit("run-1", ["sh", "-c", "echo 'ü'"])
            found = await jobs.get(job_id)
        assert found is not None
        assert (found.run_id, found.state, found.command) == ("run-1", QUEUED, ("sh", "-c", "echo 'ü'"))


async def test_an_unknown_job_is_absent(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        assert await SubmittedJobs(database).get("j-0") is None


async def test_a_job_wakes_the_runners_of_its_run_and_no_others(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        for id_, run_id in (("i-1", "run-1"), ("i-2", "run-2")):
            await land(SqliteRecords(database), running(id_, run_id))
    async with Database.open(tmp_path) as database:
        mine, others = Listener(database.sockets, "i-1"), Listener(database.sockets, "i-2")
        await SubmittedJobs(database).submit("run-1", ["true"])
        await database.close()
        assert (mine.drain(), others.drain()) == ([b""], [])
        mine.close()
        others.close()
