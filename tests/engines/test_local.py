"""Local compute with real processes: what it launches, how it runs out, and how surely it ends what it started."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.config import load
from bullpen.config import Agent, Local, ResourceClass, Settings
from bullpen.engines.local import LocalCompute, machines
from bullpen.engines.local import compute as local_compute
from bullpen.engines.local.compute import LAUNCH_LASTS
from bullpen.engines.local.launch import end as launched_end
from bullpen.engines.local.launch import launch, remove_directory
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.system import SystemChance
from bullpen.host.processes import ProcessIdentity, identify, is_running, mark_of
from bullpen.model.fleet import LaunchedMachine, shortfall
from bullpen.model.job import State as JobState
from bullpen.model.ticket import UsageClass
from real_machines import a_plan, a_pool, end_machines, quick_settings, with_room, with_script

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

SMALL = ResourceClass(cpu=1, mem=1024)


def a_machine(id_: str = "i-00000000000000aa") -> LaunchedMachine:
    return LaunchedMachine(id_, "local.small", UsageClass.ON_DEMAND, 1, 1024)


def book_a_machine(transaction: Transaction, at: datetime) -> None:
    machines.book(transaction, a_plan(), [a_machine()], at, {a_machine().id: ""}, {})


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def marked(instance_id: str) -> list[int]:
    """Processes that carry an instance's mark."""
    mark = mark_of(instance_id).encode()
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark in environment_of(int(name)).split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


# ---------------------------------------------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("asked", "wanted", "chosen"),
    [
        ({}, SMALL, "local.small"),
        ({}, ResourceClass(cpu=2, mem=4096), "local.medium"),
        ({}, ResourceClass(cpu=1, mem=4097), "local.large"),
        ({"cpu": 2}, SMALL, "local.medium"),
        ({"mem": 16384}, SMALL, "local.large"),
        ({"allowed_types": ("*.large", "c5.*")}, SMALL, "local.large"),
        ({"allowed_types": ("c5.*",)}, SMALL, None),
        ({"cpu": 5}, SMALL, None),
    ],
)
def test_the_smallest_type_that_fits_class_minimums_and_patterns_is_chosen(
    asked: dict[str, Any], wanted: ResourceClass, chosen: str | None
) -> None:
    kind = machines.choose_type(a_plan(**asked), wanted)
    assert (kind.name if kind else None) == chosen


async def test_a_fleet_that_no_type_fits_is_answered_with_an_error_and_launches_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        answer = await pool.compute.create_fleet(a_plan(cpu=64))
        assert answer.machines == ()
        assert [error.message for error in answer.errors] == [
            "no type fits class small, 64 cpu, 0 MiB, *; there are local.small, local.medium, local.large"
        ]
        assert await pool.compute.sightings() == []


# ------------------------------------------------------------------------------------------------------------- capacity


async def test_beyond_its_capacity_a_fleet_is_answered_in_part(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_room(2)) as pool:
        plan = a_plan(3)
        answer = await pool.compute.create_fleet(plan)
        assert len(answer.machines) == 2
        assert shortfall(plan, answer) == (
            "only 2 of 3 machines could be launched (this host has no room for 1 more local.small (on-demand):"
            " local.capacity is 2)"
        )
        remedy = "Raise local.capacity, ask for fewer runners, or release some."
        assert [error.remedy for error in answer.errors] == [remedy]
        none = await pool.compute.create_fleet(a_plan(1, client_token="t-2"))
        assert (none.machines, len(none.errors)) == ((), 1)


async def test_spot_machines_have_a_capacity_of_their_own(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_room(3, spot_capacity=1)) as pool:
        spot = await pool.compute.create_fleet(a_plan(2, usage_class=UsageClass.SPOT))
        on_demand = await pool.compute.create_fleet(a_plan(2, client_token="t-2"))
        assert [machine.usage_class for machine in spot.machines] == [UsageClass.SPOT]
        assert spot.errors[0].message.endswith("1 more local.small (spot): local.spot-capacity is 1")
        assert len(on_demand.machines) == 2


async def test_a_dead_machine_takes_no_room(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_room(1)) as pool:
        instance = await pool.launch()
        agent = await pool.agent(instance)
        os.kill(agent.pid, signal.SIGKILL)
        await pool.ended(agent)
        assert len((await pool.compute.create_fleet(a_plan(1, client_token="t-2"))).machines) == 1


# --------------------------------------------------------------------------------------------------------------- launch


async def test_the_same_token_again_answers_with_the_same_machines_and_launches_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        first = await pool.compute.create_fleet(a_plan(2))
        again = await pool.compute.create_fleet(a_plan(2))
        assert {machine.id for machine in again.machines} == {machine.id for machine in first.machines}
        assert len(await pool.compute.sightings()) == 2
        await pool.compute.terminate([machine.id for machine in first.machines])
        assert len((await pool.compute.create_fleet(a_plan(2))).machines) == 2
        assert await pool.compute.sightings() == []


async def test_a_sighting_shows_the_machine_its_provision_and_its_process(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        (machine,) = (await pool.compute.create_fleet(a_plan())).machines
        (sighting,) = await pool.compute.sightings()
        assert (sighting.id, sighting.provision_id, sighting.alive) == (machine.id, "p-1", True)
        assert sighting.pid in marked(machine.id)


async def test_a_machine_inherits_no_secret_of_its_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hush")
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        agent = await pool.agent(instance)
        assert b"hush" not in environment_of(agent.pid)
        assert "hush" not in (pool.directory(instance.id) / "agent.json").read_text()


async def test_what_the_launcher_writes_is_what_the_agent_reads(tmp_path: Path) -> None:
    settings = quick_settings(agent=Agent(pre_runner_script="true", pre_runner_timeout=7.0, keep=(".cache",)))
    async with a_pool(tmp_path, settings) as pool:
        (machine,) = (await pool.compute.create_fleet(a_plan())).machines
        told = load(pool.directory(machine.id) / "agent.json")
        assert (told.instance_id, told.home, told.heartbeat) == (machine.id, tmp_path, 0.2)
        assert (told.pre_runner_script, told.pre_runner_timeout, told.keep) == ("true", 7.0, ("home/.cache",))
        assert told.appears_within == settings.timings.provision + settings.timings.claim_grace


LAUNCH_AND_DIE = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from real_machines import a_plan, a_pool

async def main():
    async with a_pool(Path(sys.argv[1])) as pool:
        await pool.compute.create_fleet(a_plan(2))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def launch_and_die(home: Path) -> None:
    """Let another process launch two machines and be killed."""
    command = [sys.executable, "-c", LAUNCH_AND_DIE, str(home), str(Path(__file__).parents[1])]
    launcher = subprocess.run(command, capture_output=True, check=False)
    assert launcher.returncode == -signal.SIGKILL, launcher.stderr


async def test_machines_outlive_the_process_that_launched_them(tmp_path: Path) -> None:
    try:
        launch_and_die(tmp_path)
        async with a_pool(tmp_path) as pool:
            sightings = await pool.compute.sightings()
            assert [sighting.alive for sighting in sightings] == [True, True]
            assert [os.getsid(sighting.pid or 0) for sighting in sightings] == [sighting.pid for sighting in sightings]
    finally:
        end_machines(tmp_path)


async def test_a_machine_that_cannot_be_started_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path / "home") as pool:
        instances = tmp_path / "home" / "instances"
        instances.write_text("in the way")
        answer = await pool.compute.create_fleet(a_plan())
        instances.unlink()
        assert answer.machines == ()
        assert [error.code for error in answer.errors] == [""]
        assert await pool.compute.sightings() == []
        assert (await pool.compute.create_fleet(a_plan())).machines == ()


# ------------------------------------------------------------------------------------------------------- killed halfway


async def test_a_machine_whose_launcher_died_before_its_start_is_dead_after_an_allowance(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        at = pool.clock.now()
        await pool.database.write(partial(book_a_machine, at=at))
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [True]
        assert await pool.compute.terminate([a_machine().id]) == [], "its launcher may be about to start it"
        pool.clock.shift = LAUNCH_LASTS + timedelta(seconds=1)
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [False]
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [False], "to look changes nothing"
        assert await pool.compute.terminate([a_machine().id]) == [a_machine().id]
        assert await pool.compute.sightings() == []
        assert (await pool.compute.create_fleet(a_plan())).machines == ()


async def test_a_machine_whose_launcher_died_after_its_start_is_seen_and_ended(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        at = pool.clock.now()
        await pool.database.write(partial(book_a_machine, at=at))
        process = launch(tmp_path, a_machine().id, quick_settings())
        pool.clock.shift = LAUNCH_LASTS + timedelta(seconds=1)
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [True]
        assert await pool.compute.terminate([a_machine().id]) == [a_machine().id]
        assert identify(process.pid) != process


async def test_a_machine_that_was_terminated_while_it_started_does_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ProcessIdentity] = []

    def launch_late(home: Path, instance_id: str, settings: Settings, user: str, token: str) -> ProcessIdentity:
        with sqlite3.connect(home / "bullpen.db") as connection:
            connection.execute("UPDATE machines SET ended_at = 1 WHERE id = ?", (instance_id,))
        connection.close()
        started.append(launch(home, instance_id, settings, user, token))
        return started[-1]

    monkeypatch.setattr(local_compute, "launch", launch_late)
    async with a_pool(tmp_path) as pool:
        answer = await pool.compute.create_fleet(a_plan())
        assert answer.machines == ()
        assert "terminated while it started" in answer.errors[0].message
        assert [identify(process.pid) for process in started] == [None]


# ------------------------------------------------------------------------------------------------------------ terminate


async def test_terminate_leaves_no_process_no_directory_no_socket_and_no_registration(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        job_id = await pool.jobs.submit("run-1", ("sh", "-c", "sleep 600 & setsid sleep 600 & mkdir -m 0 locked; wait"))
        await pool.job_is(job_id, JobState.RUNNING)
        await pool.until((pool.directory(instance.id) / "work" / "locked").exists)
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert marked(instance.id) == []
        assert not pool.directory(instance.id).exists()
        await pool.until(lambda: not (pool.database.sockets / f"{instance.id}.sock").exists())
        assert await pool.ci.registrations() == []
        assert await pool.compute.sightings() == []


async def test_after_a_killed_agent_terminate_still_finds_what_it_had_started(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.ready()
        job_id = await pool.jobs.submit("run-1", ("sh", "-c", "setsid sleep 600 & sleep 600"))
        await pool.job_is(job_id, JobState.RUNNING)
        await pool.until(lambda: len(marked(instance.id)) >= 4)
        agent = await pool.agent(instance)
        os.kill(agent.pid, signal.SIGKILL)
        await pool.ended(agent)
        assert marked(instance.id) != []
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [False]
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert marked(instance.id) == []


async def test_terminate_ends_an_agent_in_the_middle_of_its_script(tmp_path: Path) -> None:
    async with a_pool(tmp_path, with_script("sleep 600")) as pool:
        (machine,) = (await pool.compute.create_fleet(a_plan())).machines
        await pool.until(lambda: len(marked(machine.id)) >= 3)
        assert await pool.compute.terminate([machine.id]) == [machine.id]
        assert marked(machine.id) == []


async def test_an_unknown_machine_and_one_that_is_gone_count_as_gone(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        (machine,) = (await pool.compute.create_fleet(a_plan())).machines
        assert await pool.compute.terminate([machine.id, "i-stranger"]) == [machine.id, "i-stranger"]
        assert await pool.compute.terminate([machine.id]) == [machine.id]
        assert await pool.compute.terminate([]) == []


@pytest.fixture
def stranger() -> Iterator[ProcessIdentity]:
    """A process that Bullpen did not start."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            theirs = identify(process.pid)
            assert theirs is not None
            yield theirs
        finally:
            process.kill()


async def test_an_unrelated_process_with_the_pid_of_a_machine_is_not_ended(
    tmp_path: Path, stranger: ProcessIdentity
) -> None:
    ours = replace(stranger, started=stranger.started - 1)
    async with a_pool(tmp_path) as pool:
        at = pool.clock.now()
        await pool.database.write(partial(book_a_machine, at=at))
        await pool.database.write(lambda transaction: machines.note_starts(transaction, {a_machine().id: ours}))
        assert [sighting.alive for sighting in await pool.compute.sightings()] == [False]
        assert await pool.compute.terminate([a_machine().id]) == [a_machine().id]
        assert is_running(stranger)


def test_removing_a_directory_that_is_gone_leaves_those_of_other_machines_open(tmp_path: Path) -> None:
    (tmp_path / "instances" / "i-1").mkdir(parents=True)
    (tmp_path / "instances").chmod(0o755)
    for _ in ("there", "gone"):
        remove_directory(tmp_path, "i-1")
        assert stat.S_IMODE((tmp_path / "instances").stat().st_mode) == 0o755


# ----------------------------------------------------------------------------------------------- what jobs leave behind


def dig(top: Path, levels: int) -> None:
    """A tree deeper than any path may be long."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


async def test_a_machine_whose_job_left_a_thousand_nested_directories_ends_and_leaves_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as pool:
        instance = await pool.launch()
        agent = await pool.agent(instance)
        dig(pool.directory(instance.id) / "work", 3000)
        os.kill(agent.pid, signal.SIGKILL)  # it ends without cleaning
        await pool.ended(agent)
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert not pool.directory(instance.id).exists()


async def test_a_machine_whose_end_fails_keeps_no_other_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pool(tmp_path, with_room(3)) as pool:
        sick, *others = [await pool.launch(f"run-{number}") for number in range(3)]
        real = launched_end

        def end(home: Path, instance_id: str, *rest: Any) -> bool | None:
            if instance_id == sick.id:
                raise RecursionError("maximum recursion depth exceeded")
            return real(home, instance_id, *rest)

        monkeypatch.setattr(local_compute, "end", end)
        ended = await pool.compute.terminate([sick.id, *(one.id for one in others)])
        assert ended == [one.id for one in others]
        (stays,) = [seen for seen in await pool.compute.sightings() if seen.alive]
        assert (stays.id, "maximum recursion depth exceeded" in stays.stays) == (sick.id, True)
        monkeypatch.setattr(local_compute, "end", real)
        assert await pool.compute.terminate([sick.id]) == [sick.id]


# ----------------------------------------------------------------------------------------------------------- other disk


def with_work_dir(place: Path) -> Settings:
    return quick_settings(local=Local(work_dir=str(place)))


async def test_with_a_work_dir_a_machine_lives_there_and_leaves_nothing_in_either_place(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "other" / "work"
    async with a_pool(home, with_work_dir(place)) as pool:
        instance = await pool.ready()
        assert pool.directory(instance.id).is_symlink()
        assert sorted(os.listdir(place / instance.id))[:2] == ["agent.json", "agent.log"]
        await pool.run_job(instance.run_id, "/bin/sh", "-c", 'pwd > "$HOME/seen"; echo "$HOME" >> "$HOME/seen"')
        seen = (place / instance.id / "home" / "seen").read_text().split()
        assert seen == [f"{place}/{instance.id}/{name}" for name in ("work", "home")]
        assert await pool.compute.terminate([instance.id]) == [instance.id]
        assert (os.listdir(place), os.listdir(home / "instances")) == ([], [])


async def test_a_machine_in_a_work_dir_is_ended_after_the_setting_has_changed(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "work"
    async with a_pool(home, with_work_dir(place)) as pool:
        instance = await pool.launch()
        dig(place / instance.id / "work", 1500)
        compute = LocalCompute(pool.database, home, quick_settings(), pool.clock, SystemChance())
        assert await compute.terminate([instance.id]) == [instance.id]
        assert (os.listdir(place), os.listdir(home / "instances")) == ([], [])
        await compute.close()


def test_a_link_that_leads_elsewhere_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances" / "i-1").symlink_to(tmp_path / "precious")
    remove_directory(tmp_path, "i-1")
    assert os.listdir(tmp_path / "instances") == []
    assert (tmp_path / "precious").is_dir()


async def test_a_machine_whose_work_dir_cannot_be_made_is_not_launched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with a_pool(tmp_path / "home", with_work_dir(tmp_path / "file" / "work")) as pool:
        answer = await pool.compute.create_fleet(a_plan())
        assert [error.code for error in answer.errors] == [""]
        assert "could not be started" in answer.errors[0].message
        assert list((tmp_path / "home").glob("instances/*")) == []
