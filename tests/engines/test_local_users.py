"""As root: each machine of this box has a user of its own for its jobs, for as long as it lives."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.github.fixtures import a_ground
from bullpen.agent.account import account_of
from bullpen.config import Engines, Github, Local, Settings
from bullpen.engines.local import compute as local_compute
from bullpen.engines.local import launch as launching
from bullpen.engines.local import machines, users
from bullpen.engines.local.launch import end
from bullpen.host.processes import ProcessIdentity, descendants, name_of
from bullpen.model.signal import Kind
from real_machines import RealPool, a_plan, a_pool, quick_settings
from users import lent

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user"),
]


@asynccontextmanager
async def with_users(count: int) -> AsyncIterator[tuple[RealPool, tuple[str, ...]]]:
    with lent(count) as names, a_ground() as ground:
        async with a_pool(ground / "home", quick_settings(local=Local(runner_users=names))) as pool:
            yield pool, names


async def user_of(pool: RealPool, instance_id: str) -> str:
    (line,) = await pool.database.read(lambda snapshot: machines.of_ids(snapshot, [instance_id]))
    return line.user


def running_as(user: str) -> list[str]:
    """The commands of its processes; without those that end meanwhile."""
    found = descendants(None, "no mark", users.number_of(user))
    return [name for process in found if (name := name_of(process)) is not None]


async def a_process_of(user: str) -> asyncio.subprocess.Process:
    """As cron would start it: neither below an agent nor marked."""
    group = account_of(user).group
    return await asyncio.create_subprocess_exec("sleep", "20", env={}, user=user, group=group, extra_groups=[])


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


async def test_there_are_no_more_machines_than_users_and_the_answer_names_the_setting() -> None:
    async with with_users(1) as (pool, names):
        answer = await pool.compute.create_fleet(a_plan(3))
        (machine,) = answer.machines
        (error,) = answer.errors
        assert error.code == ""
        assert "each needs a user of its own, and local.runner-users names 1" in error.message
        assert error.remedy.startswith("Name more users in local.runner-users")
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


async def test_every_process_of_the_user_ends_with_the_run() -> None:
    async with with_users(1) as (pool, names):
        instance = await pool.ready()
        stray = await a_process_of(names[0])
        await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert await stray.wait() == -signal.SIGKILL


async def test_a_terminate_that_was_held_up_ends_nothing_of_the_next_machine_of_that_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def held_up(home: Path, instance_id: str, process: ProcessIdentity | None, user: int | None = None) -> bool | None:
        if not arrived.is_set():
            arrived.set()
            go_on.wait(20)
        return end(home, instance_id, process, user)

    async with with_users(1) as (pool, names):
        first = await pool.ready()
        monkeypatch.setattr(local_compute, "end", held_up)
        late = asyncio.create_task(pool.compute.terminate([first.id]))
        await pool.until(arrived.is_set)
        assert await pool.compute.terminate([first.id]) == [first.id]
        second = await pool.ready("run-2")
        assert await user_of(pool, second.id) == names[0]
        stray = await a_process_of(names[0])
        monkeypatch.setattr(launching, "FREED_WITHIN", 0.1)
        monkeypatch.setattr(local_compute, "FREED_WITHIN", 0.1)
        go_on.set()
        assert await late == [first.id]
        assert stray.returncode is None
        await pool.compute.terminate([second.id])
        assert await stray.wait() == -signal.SIGKILL


async def test_terminate_counts_a_machine_as_gone_that_another_process_just_ended() -> None:
    async with with_users(1) as (pool, names):
        instance = await pool.ready()
        held = users.hold(account_of(names[0]).user)
        assert held is None  # the agent has it
        agent = await pool.agent(instance)
        os.kill(agent.pid, signal.SIGKILL)
        await pool.ended(agent)
        held = users.hold(account_of(names[0]).user)
        assert held is not None
        second = asyncio.create_task(pool.compute.terminate([instance.id]))
        await asyncio.sleep(0.1)
        at = pool.clock.now()
        await pool.database.write(lambda transaction: machines.note_ends(transaction, [instance.id], at))
        stray = await a_process_of(names[0])
        held.release()
        assert await second == [instance.id]
        assert stray.returncode is None
        stray.kill()
        await stray.wait()


async def test_a_machine_whose_user_is_not_available_says_why_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_users(1) as (pool, _):
        instance = await pool.ready()
        locks = pool.home / "locks"
        locks.mkdir()
        locks.chmod(0o755)
        monkeypatch.setattr(users, "LOCKS", locks)
        assert await pool.compute.terminate([instance.id]) == []
        (seen,) = await pool.compute.sightings()
        assert seen.alive  # as far as is known
        assert (
            f"{locks} must be a directory that only root can use: chown root {locks}; chmod 700 {locks}" in seen.stays
        )
        locks.chmod(0o700)
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert await pool.compute.sightings() == []


async def test_a_user_of_another_home_is_refused_and_stays_with_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "FREED_WITHIN", 0.1)
    async with with_users(1) as (pool, names):
        await pool.ready()
        with a_ground() as ground:
            async with a_pool(ground / "home", quick_settings(local=Local(runner_users=names))) as other:
                answer = await other.compute.create_fleet(a_plan())
                assert (answer.machines, answer.errors[0].code) == ((), "")
                assert f"user {names[0]!r} is used by another machine" in answer.errors[0].message
        assert (await pool.run_job("run-1", "true")).exit_code == 0


async def test_a_user_that_something_runs_as_is_given_to_no_machine() -> None:
    async with with_users(2) as (pool, names):
        stray = await a_process_of(names[0])
        answer = await pool.compute.create_fleet(a_plan(2))
        (machine,) = answer.machines
        assert await user_of(pool, machine.id) == names[1]
        assert (
            f"{names[0]!r} must be used for jobs only, but already has processes: {stray.pid}"
            in answer.errors[0].message
        )
        with pytest.raises(launching.UserTaken, match=f"already has processes: {stray.pid}"):
            launching.launch(pool.home, "i-x", quick_settings(), names[0])
        stray.kill()
        await stray.wait()


async def test_a_user_that_was_not_available_is_not_the_next_one_to_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(launching, "FREED_WITHIN", 0.0)
    async with with_users(2) as (pool, names):
        held = users.hold(account_of(names[0]).user)
        assert held is not None
        os.utime(held.handle, (0, 0))  # another home's, for ages
        assert (await pool.compute.create_fleet(a_plan())).machines == ()
        (machine,) = (await pool.compute.create_fleet(a_plan(client_token="t-2"))).machines
        assert await user_of(pool, machine.id) == names[1]


async def test_users_are_given_out_in_turn_and_first_those_that_never_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = tmp_path / "locks"
    monkeypatch.setattr(users, "LOCKS", locks)
    settings = Settings(local=Local(runner_users=("games", "news", "nobody")))
    uids = {name: account_of(name).user for name in settings.local.runner_users}
    users.note_turn(uids["games"])
    assert users.offered(settings) == ("news", "nobody", "games")
    for name, at in {"games": 3, "news": 2, "nobody": 1}.items():
        users.note_turn(uids[name])
        os.utime(locks / str(uids[name]), (at, at))
    assert users.offered(settings) == ("nobody", "news", "games")
    held = users.hold(uids["nobody"])  # as a process that ends a machine does
    assert held is not None
    assert users.offered(settings) == ("nobody", "news", "games")


async def test_a_user_name_with_another_uid_than_at_launch_ends_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert users.number_of("root") is None
    assert users.number_at_end("nobody", account_of("nobody").user) == account_of("nobody").user
    assert users.number_at_end("nobody", 1) is None
    async with with_users(2) as (pool, names):
        instance = await pool.ready()
        (other,) = {*names} - {await user_of(pool, instance.id)}
        stray = await a_process_of(other)
        renamed = pwd.getpwnam(other)
        with monkeypatch.context() as patch:
            patch.setattr(pwd, "getpwnam", lambda _: renamed)
            assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert stray.returncode is None
        stray.kill()
        await stray.wait()


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


async def test_in_a_work_dir_a_job_runs_as_its_user_and_the_machine_leaves_nothing_there() -> None:
    with lent(1) as (name,), a_ground() as ground:
        place = ground / "work"
        local = Local(runner_users=(name,), work_dir=str(place))
        async with a_pool(ground / "home", quick_settings(local=local)) as pool:
            instance = await pool.ready()
            await pool.run_job(instance.run_id, "/bin/sh", "-c", "id -un > seen")
            seen = place / instance.id / "work" / "seen"
            assert (seen.read_text().strip(), seen.owner()) == (name, name)
            assert await pool.compute.terminate([instance.id]) == [instance.id]
            assert os.listdir(place) == []


async def test_a_work_dir_in_which_jobs_could_replace_each_other_s_directories_is_refused() -> None:
    with lent(1) as names, a_ground() as ground:
        place = ground / "work"
        place.mkdir()
        place.chmod(0o777)
        local = Local(runner_users=names, work_dir=str(place))
        async with a_pool(ground / "home", quick_settings(local=local)) as pool:
            answer = await pool.compute.create_fleet(a_plan())
            assert f"others may write to {place}" in answer.errors[0].message
            assert os.listdir(place) == []
