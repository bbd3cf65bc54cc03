"""A job fills the disk: what gives back and ends works all the same, and frees it."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bullpen.engines.sqlite.reserve import ROOM, room
from scenario.pool import Pool, Starter
from server.served import a_server
from small_disks import a_small_disk, fill

FILL = "cat /dev/zero > big 2>/dev/null; sleep 600"
FILL_FOR_EVER = "while :; do cat /dev/zero >> big 2>/dev/null; cat /dev/zero >> more 2>/dev/null; done"


@pytest.fixture
def disk() -> Iterator[Path]:
    with a_small_disk() as mounted:
        yield mounted


@pytest.fixture
def small(disk: Path, folder: Path, starter: Starter) -> Iterator[Pool]:
    """A pool whose home is on a small disk."""
    pool = Pool(home=disk / "home", folder=folder, starter=starter)
    yield pool
    pool.end()


def filled(pool: Pool, disk: Path, script: str = FILL) -> str:
    """Have a job fill the disk; returns the instance that executes it."""
    pool.submit("run-1", script)
    pool.until(lambda: room(disk) == 0, "the disk is full")
    ((id,),) = pool.rows("SELECT instance_id FROM jobs WHERE state = 'running'")
    return str(id)


def test_a_release_gives_everything_back_and_frees_the_disk(small: Pool, disk: Path) -> None:
    small.provision("run-1", 2)
    filled(small, disk)
    refused = small.run("provision", "--run-id", "run-2", "--count", "1")
    assert refused.code == 75
    assert "the disk is full or nearly full" in refused.err
    assert "Traceback" not in refused.err
    assert len(small.release("run-1")["offered"]) == 2
    assert room(disk) > ROOM
    small.provision("run-2", 2)
    assert small.run("down", "--yes").code == 0


@pytest.mark.parametrize("script", [FILL, FILL_FOR_EVER], ids=["once", "again and again"])
def test_down_ends_everything_and_frees_the_disk(small: Pool, disk: Path, script: str) -> None:
    small.provision("run-1", 2)
    filled(small, disk, script)
    done = small.run("down", "--yes")
    assert (done.code, small.live()) == (0, []), done.err
    assert room(disk) > ROOM


def test_refresh_ends_a_machine_whose_agent_died_and_frees_the_disk(small: Pool, disk: Path) -> None:
    small.provision("run-1", 2)
    sick = filled(small, disk)
    small.signal(sick, signal.SIGKILL)
    small.refresh()
    assert sick not in small.live()
    assert room(disk) > ROOM


def test_a_pool_that_no_process_has_open_is_taken_down_on_a_full_disk(small: Pool, disk: Path) -> None:
    small.provision("run-1", 1)
    (id,) = small.live()
    small.signal(id, signal.SIGTERM)  # it leaves in good order, and with it the last connection
    small.until(lambda: not (small.home / "bullpen.db-wal").exists(), "no process has the database open")
    fill(disk / "filler")
    assert small.run("down", "--yes").code == 0
    assert small.live() == []


def test_a_service_says_that_it_is_not_ready_and_still_gives_back(small: Pool, disk: Path) -> None:
    small.provision("run-1", 2)
    with a_server(small.home) as served:
        small.until(lambda: served.ask("GET", "/readyz")[0] == 200, "it is ready")
        filled(small, disk)
        small.until(lambda: served.ask("GET", "/readyz")[0] == 503, "it is not ready")
        assert served.ask("GET", "/readyz")[1]["store"] is False
        assert served.ask("POST", "/v1/runs/run-2/provision", {"count": 1})[0] in (202, 503)
        code, begun = served.ask("POST", "/v1/runs/run-1/release", {})
        assert code == 202
        path = f"/v1/operations/{begun['id']}"
        small.until(lambda: served.ask("GET", path)[1]["state"] == "succeeded", "the runners are given back")
        small.until(lambda: served.ask("GET", "/readyz")[0] == 200, "it is ready again")
    assert small.run("down", "--yes").code == 0


def test_with_a_work_dir_on_another_disk_the_home_stays_writable(pools: Callable[[], Pool], disk: Path) -> None:
    pool = pools()
    pool.settings["local.work-dir"] = str(disk / "work")
    pool.provision("run-1", 2)
    filled(pool, disk)
    failed = pool.run("provision", "--run-id", "run-2", "--count", "1")
    assert failed.code == 1  # the machine found no room; the pool did
    assert "No space left" in failed.err
    assert len(pool.release("run-1")["offered"]) == 2
    assert room(disk) > ROOM
    assert pool.run("down", "--yes").code == 0
    assert os.listdir(disk / "work") == []
