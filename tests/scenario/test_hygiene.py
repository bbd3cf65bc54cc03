"""What a job leaves behind is gone before the next run, or the instance is never offered again."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenario import processes
from scenario.pool import Pool
from scenario.test_everyday import ids

PLANTS = """
echo secret > token
mkdir -p "$HOME/.config" && echo secret > "$HOME/.config/token"
echo secret > "$TMPDIR/token"
mkdir locked && echo secret > locked/token && chmod 0 locked
ln -s / everything
"""
DAEMON = "(setsid sh -c 'exec sleep 600' >/dev/null 2>&1 &) ; (env -i /usr/bin/setsid /bin/sleep 600 &)"


def everything_in(pool: Pool, id: str) -> list[str]:
    places = [pool.home / "instances" / id / name for name in ("work", "home", "tmp")]
    return [str(path) for place in places for path in place.rglob("*")]


def strays(pool: Pool, id: str) -> list[int]:
    """Processes of an instance besides its agent: by their mark, and by their parent where they have wiped it off."""
    agent = pool.agent(id)
    children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    marked = [one.pid for one in processes.of_home(pool.home) if one.instance_id == id and not one.is_agent]
    return sorted({*map(int, children), *marked})


def test_files_that_a_job_planted_are_gone_after_release(pool: Pool) -> None:
    (id,) = ids(pool.provision("run-1", 1))
    pool.run_job("run-1", PLANTS)
    assert len(everything_in(pool, id)) >= 6
    assert pool.release("run-1")["offered"] == [id]
    assert everything_in(pool, id) == []
    assert ids(pool.provision("run-2", 1)) == [id]
    assert pool.run_job("run-2", 'test -z "$(ls -A . "$HOME" "$TMPDIR" | grep -v :)"') == id
    assert pool.audit() == []


def test_processes_that_a_job_left_running_are_gone_after_release(pool: Pool) -> None:
    (id,) = ids(pool.provision("run-1", 1))
    pool.run_job("run-1", DAEMON)
    pool.until(lambda: len(strays(pool, id)) == 2, "both daemons run")
    left = strays(pool, id)
    assert pool.release("run-1")["offered"] == [id]
    assert not any(os.path.exists(f"/proc/{pid}") for pid in left)
    assert strays(pool, id) == []
    assert pool.audit() == []


def test_a_job_that_still_runs_is_ended_by_release(pool: Pool) -> None:
    (id,) = ids(pool.provision("run-1", 1))
    pool.submit("run-1", "sleep 600 & sleep 600")
    pool.until(lambda: len(strays(pool, id)) > 0, "the job runs")
    assert pool.release("run-1")["offered"] == [id]
    assert strays(pool, id) == []
    assert pool.rows("SELECT state FROM jobs") == [("finished",)]
    assert pool.audit() == []


@pytest.fixture
def stubborn(folder: Path) -> Iterator[str]:
    """A shell command that makes `file` impossible to remove; undone after the test."""
    probe = folder / "probe"
    probe.touch()
    if subprocess.run(["chattr", "+i", str(probe)], capture_output=True).returncode != 0:
        pytest.skip("needs chattr +i: a file system that knows immutable files, and the right to make some")
    subprocess.run(["chattr", "-i", str(probe)], check=True)
    yield "chattr +i file"
    subprocess.run(["chattr", "-R", "-i", str(folder)], capture_output=True)


def test_an_instance_that_cannot_be_cleaned_is_never_offered_and_says_why(pool: Pool, stubborn: str) -> None:
    (id,) = ids(pool.provision("run-1", 1))
    pool.run_job("run-1", f"echo secret > file && {stubborn}")
    released = pool.release("run-1")
    assert (released["offered"], released["terminated"]) == ([], [id])
    assert "work/file" in pool.story(id)
    assert id not in ids(pool.provision("run-2", 1))
    assert [one for one in processes.of_home(pool.home) if one.instance_id == id] == []
