"""Jobs that are cancelled or run out of time: nothing that they started outlives them."""

import os
import signal
from pathlib import Path

import pytest

from scenario.pool import Pool

pytestmark = pytest.mark.slow

# Two that a kill of the group would miss: a session of its own, and one that ignores every polite signal.
TREE = (
    "setsid sh -c 'echo $$ > {0}/one; exec sleep 600' & sh -c 'trap \"\" TERM INT; echo $$ > {0}/two; sleep 600' & wait"
)


def noted(note: Path) -> bool:
    return note.exists() and note.read_text().strip().isdigit()


def submit(pool: Pool, *options: str) -> str:
    script = TREE.format(pool.folder)
    answer = pool.run("job", "submit", "--run-id", "run-1", "--json", *options, "--", "sh", "-c", script).answer
    pool.until(lambda: noted(pool.folder / "one") and noted(pool.folder / "two"), "the tree stands")
    return str(answer["id"])


def is_alive(note: Path) -> bool:
    """A zombie has ended: its parent will hear of it."""
    try:
        return Path(f"/proc/{int(note.read_text())}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it is collected between opening and reading
        return False


def ended(pool: Pool, job_id: str) -> tuple[str, int]:
    row = "SELECT result, exit_code FROM jobs WHERE id = ? AND state = 'finished'"
    pool.until(lambda: bool(pool.rows(row, job_id)), "the job has ended")
    ((result, code),) = pool.rows(row, job_id)
    return result, code


def test_a_cancelled_job_ends_with_everything_it_started(pool: Pool) -> None:
    pool.provision("run-1", 1)
    job_id = submit(pool)
    assert pool.run("job", "cancel", job_id).code == 0
    assert ended(pool, job_id) == ("cancelled", -signal.SIGKILL)
    assert not is_alive(pool.folder / "one")
    assert not is_alive(pool.folder / "two")


def test_a_job_that_runs_out_of_time_ends_with_everything_it_started(pool: Pool) -> None:
    pool.provision("run-1", 1)
    job_id = submit(pool, "--timeout", "3")  # long enough for the tree to stand on a busy machine
    assert ended(pool, job_id) == ("timed-out", -signal.SIGKILL)
    assert not is_alive(pool.folder / "one")
    assert not is_alive(pool.folder / "two")


def test_the_runner_of_a_cancelled_job_takes_the_next_one(pool: Pool) -> None:
    pool.provision("run-1", 1)
    job_id = submit(pool)
    pool.run("job", "cancel", job_id)
    assert pool.run_job("run-1", "true") == pool.ids("running")[0]


def test_an_interrupted_run_says_130_and_leaves_nothing_behind(pool: Pool) -> None:
    script = TREE.format(pool.folder)
    running = pool.start("run", "--run-id", "run-1", "--count", "1", "--", "sh", "-c", script)
    pool.until(lambda: noted(pool.folder / "one") and noted(pool.folder / "two"), "the tree stands")
    os.kill(running.pid, signal.SIGINT)
    ran = running.wait()
    assert ran.code == 130, ran
    assert pool.rows("SELECT state, result FROM jobs") == [("finished", "cancelled")]
    assert not is_alive(pool.folder / "one")
    assert not is_alive(pool.folder / "two")
    assert len(pool.on_offer()) == 1
    assert pool.audit() == []
