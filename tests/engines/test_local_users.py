"""As root: each machine of this box has a user of its own for its jobs, for as long as it lives."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.actions_stage import a_ground
from bullpen.agent.account import account_of
from bullpen.config import Engines, Github, Local, Settings
from bullpen.engines.local import machines, users
from bullpen.engines.processes import descendants
from bullpen.model.signal import Kind
from real_machines import Pool, a_plan, a_pool, quick_settings
from users import lent

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as somebody else"),
]


@asynccontextmanager
async def with_users(count: int) -> AsyncIterator[tuple[Pool, tuple[str, ...]]]:
    with lent(count) as names, a_ground() as ground:
        async with a_pool(ground / "home", quick_settings(local=Local(runner_users=names))) as pool:
            yield pool, names


async def user_of(pool: Pool, instance_id: str) -> str:
    (line,) = await pool.database.read(lambda snapshot: machines.of_ids(snapshot, [instance_id]))
    return line.user


def running_as(user: str) -> list[str]:
    """The commands of its processes."""
    found = descendants(None, "no mark", users.number_of(user))
    return [Path(f"/proc/{process.pid}/comm").read_text().strip() for process in found]


async def test_jobs_of_two_machines_run_as_two_users_and_are_closed_to_each_other() -> None:
    async with with_users(2) as (pool, names):
        first, second = await pool.ready("run-1"), await pool.ready("run-2")
        assert {await user_of(pool, one.id) for one in (first, second)} == set(names)
        work = pool.directory(first.id) / "work"
        secret = 'echo $$ >pid; export SECRET=x; until [ -e "$HOME/go" ]; do sleep 0.05; done'
        victim = await pool.jobs.submit("run-1", ("sh", "-c", secret))
        await pool.until((work / "pid").exists)
        await pool.until(lambda: bool((work / "pid").read_text()))
        pid = (work / "pid").read_text().strip()
        for deed in (f"ls {work}", f"cat /proc/{pid}/environ", f"kill {pid}", f"ls {work.parent}/runner"):
            spy = await pool.run_job("run-2", "sh", "-c", f"id -un; {deed}")
            assert spy.exit_code != 0, deed
        (pool.directory(first.id) / "home" / "go").touch()
        assert (await pool.job_ended(victim)).exit_code == 0


async def test_more_machines_than_users_there_are_not_and_the_answer_names_the_setting() -> None:
    async with with_users(1) as (pool, names):
        answer = await pool.compute.create_fleet(a_plan(3))
        (machine,) = answer.machines
        (error,) = answer.errors
        assert error.code == "InsufficientInstanceCapacity"
        assert "each needs a user of its own, and local.runner-users names 1" in error.message
        assert (await pool.compute.create_fleet(a_plan(client_token="t-2"))).machines == ()
        await pool.compute.terminate([machine.id])
        (later,) = (await pool.compute.create_fleet(a_plan(client_token="t-3"))).machines
        assert await user_of(pool, later.id) == names[0]


async def test_the_user_of_a_dead_machine_is_free_only_when_nothing_runs_as_it() -> None:
    async with with_users(1) as (pool, names):
        instance = await pool.ready()
        await pool.jobs.submit("run-1", ("sh", "-c", "setsid --fork env -i sleep 600"))
        await pool.until(lambda: "sleep" in running_as(names[0]))
        agent = await pool.agent(instance)
        os.kill(agent.pid, signal.SIGKILL)
        await pool.ended(agent)
        assert (await pool.compute.create_fleet(a_plan(client_token="t-2"))).machines == ()
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert running_as(names[0]) == []
        assert len((await pool.compute.create_fleet(a_plan(client_token="t-3"))).machines) == 1


async def test_whatever_runs_as_the_user_ends_with_the_run_whoever_started_it() -> None:
    async with with_users(1) as (pool, names):
        instance = await pool.ready()
        # As cron would, on behalf of a job.
        stray = await asyncio.create_subprocess_exec(
            "sleep", "20", env={}, user=names[0], group=account_of(names[0]).group, extra_groups=[]
        )
        await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert await stray.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), "GitHub's runner refuses to run as root: local.runner-users must name users"),
        (("no-such-user",), "local.runner-users: there is no user 'no-such-user'"),
        (("root",), "local.runner-users: 'root' is root"),
        (("nobody", "sync"), "local.runner-users: 'nobody' and 'sync' share group id 65534"),
    ],
)
async def test_users_as_whom_jobs_cannot_run_are_refused_by_the_setting(names: tuple[str, ...], why: str) -> None:
    settings = Settings(
        engines=Engines(ci="github"), github=Github(scope="acme/widgets"), local=Local(runner_users=names)
    )
    with pytest.raises(users.Unusable, match=why):
        users.offered(settings)


async def test_a_user_named_twice_is_one() -> None:
    assert users.offered(Settings(local=Local(runner_users=("nobody", "nobody")))) == ("nobody",)
