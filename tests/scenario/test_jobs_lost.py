"""Runners that die, stop and come back under their jobs: real processes, and what the records say afterwards."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from busy_machines import slowness
from scenario.pool import Command, Pool

pytestmark = pytest.mark.slow

# Only the worker that a test stops is lost, though a busy machine may let a process wait for seconds.
QUICK = {
    "timings.lease": 10,
    "timings.alive": 10,
    "liveness.confirm": 2,
    "liveness.grace-gap": 7,
}
NOTICED_WITHIN = 25.0  # seconds from the last beat, with the usual settings


@pytest.fixture
def pool(pool: Pool) -> Pool:
    pool.settings |= QUICK
    return pool


def gated(gates: Path, **extra: Any) -> dict[str, Any]:
    """A job that ends when its gate is opened: a file named after its index."""
    wait = f'echo began; while ! test -e "{gates}/$BULLPEN_JOB_INDEX"; do sleep 0.02; done; echo ended'
    return {"command": ["sh", "-c", wait], **extra}


def start_run(pool: Pool, count: int, jobs: Sequence[dict[str, Any]]) -> Command:
    pool.run("refresh")  # makes the home, so that the tables are there to be looked at
    file = pool.folder / "jobs.jsonl"
    file.write_text("".join(json.dumps(job) + "\n" for job in jobs))
    return pool.start("run", "--run-id", "run-1", "--count", str(count), "--jobs", str(file))


def jobs_of(pool: Pool) -> dict[int, dict[str, Any]]:
    """The records of the run's own jobs, by index."""
    names = "job_index, id, state, fence, worker, epoch, instance_id, losses, result, exit_code"
    rows = pool.rows(f"SELECT {names} FROM jobs WHERE name <> ''")
    return {row[0]: dict(zip(names.split(", "), row, strict=True)) for row in rows}


def until_running(pool: Pool, index: int, fence: int = 1) -> dict[str, Any]:
    def runs() -> bool:
        job = jobs_of(pool).get(index, {})
        return job.get("state") == "running" and job["fence"] == fence

    pool.until(runs, f"job {index} runs under fence {fence}")
    return jobs_of(pool)[index]


def steps(pool: Pool, id: str) -> list[tuple[str, int]]:
    """A record's steps and their times in microseconds."""
    return pool.rows("SELECT step, at FROM stories WHERE record_id = ? ORDER BY version", id)


def finishes(pool: Pool, job: dict[str, Any]) -> int:
    return [step for step, _ in steps(pool, job["id"])].count("finish")


def log_of(pool: Pool, job: dict[str, Any], fence: int) -> str:
    return (pool.home / "jobs" / f"{job['id']}.{fence}.log").read_text()


def test_a_killed_runner_is_noticed_and_its_job_finished_once_by_another(pool: Pool) -> None:
    running = start_run(pool, 3, [gated(pool.folder)] * 3)
    victim = until_running(pool, 0)
    for index in (1, 2):
        until_running(pool, index)
    pool.signal(victim["instance_id"], signal.SIGKILL)
    rescued = until_running(pool, 0, fence=2)
    assert rescued["instance_id"] != victim["instance_id"]
    for index in range(3):
        (pool.folder / str(index)).touch()
    ran = running.wait()
    assert ran.code == 0, ran
    found = jobs_of(pool)
    assert [(job["result"], finishes(pool, job)) for job in found.values()] == [("succeeded", 1)] * 3
    ((beat, lost),) = pool.rows(
        "SELECT beat_at, at FROM workers JOIN stories ON record_id = id WHERE step = 'lose_lease'"
    )
    assert 0 < (lost - beat) / 1e6 < NOTICED_WITHIN * slowness()
    assert "attempt 2" in ran.out
    told = pool.run("job", "show", victim["id"]).out
    assert f"its worker {victim['worker']} is lost" in told
    assert pool.ids("running") == []
    assert pool.audit() == []


def test_a_stopped_runner_that_comes_back_does_no_harm_and_takes_new_work(pool: Pool) -> None:
    # One runner more than jobs, so that the lost one is not replaced: whether it returns first would be a race.
    running = start_run(pool, 3, [gated(pool.folder)] * 2)
    stopped = until_running(pool, 0)
    until_running(pool, 1)
    pool.signal(stopped["instance_id"], signal.SIGSTOP)
    until_running(pool, 0, fence=2)
    (silent,) = pool.run("status", "--json").answer["silentWorkers"]
    assert (silent["key"], silent["state"], silent["jobIds"]) == (stopped["worker"], "inactive", [])
    (pool.folder / "0").touch()  # both the stopped runner's copy and the other one end now
    pool.until(lambda: jobs_of(pool)[0]["state"] == "finished", "the job is finished elsewhere")
    pool.signal(stopped["instance_id"], signal.SIGCONT)
    new = [pool.submit("run-1", f"while ! test -e {pool.folder}/new; do sleep 0.02; done") for _ in range(2)]
    taken = "SELECT 1 FROM jobs WHERE state = 'running' AND worker = ? AND epoch = 2"
    pool.until(lambda: bool(pool.rows(taken, stopped["worker"])), "it takes new work in its new epoch")
    (pool.folder / "new").touch()
    done = "SELECT 1 FROM jobs WHERE state = 'finished' AND result = 'succeeded' AND id = ?"
    pool.until(lambda: all(pool.rows(done, id) for id in new), "its new work counts")
    (pool.folder / "1").touch()
    ran = running.wait()
    assert ran.code == 0, ran
    # Its copy ended by itself and came too late, or was stopped on its return: dropped either way.
    assert "but the result was refused" in (pool.home / "instances" / stopped["instance_id"] / "agent.log").read_text()
    assert "refused" not in log_of(pool, stopped, 2)
    found = jobs_of(pool)
    assert (found[0]["result"], finishes(pool, found[0])) == ("succeeded", 1)
    assert found[0]["worker"] != stopped["worker"]
    assert pool.audit() == []


def test_a_job_with_side_effects_waits_until_the_machine_of_its_lost_runner_is_gone(pool: Pool) -> None:
    running = start_run(pool, 2, [gated(pool.folder, **{"side-effects": True}), gated(pool.folder)])
    stopped = until_running(pool, 0)
    until_running(pool, 1)
    pool.signal(stopped["instance_id"], signal.SIGSTOP)
    until_running(pool, 0, fence=2)
    told = dict(steps(pool, stopped["id"]))
    gone = dict(steps(pool, stopped["instance_id"]))
    assert gone["done"] <= told["reschedule"]
    assert not [one for one in pool.live() if one == stopped["instance_id"]]
    for index in range(2):
        (pool.folder / str(index)).touch()
    assert running.wait().code == 0
    assert pool.audit() == []


def test_after_a_killed_run_a_release_gives_everything_back_and_ends_its_jobs(pool: Pool) -> None:
    running = start_run(pool, 2, [gated(pool.folder)] * 3)
    until_running(pool, 0)
    until_running(pool, 1)
    running.kill()
    released = pool.run("release", "--run-id", "run-1", "--json").answer
    assert len(released["offered"]) == 2
    assert [(job["state"], job["result"]) for job in jobs_of(pool).values()] == [("finished", "cancelled")] * 3
    reasons = pool.rows("SELECT DISTINCT reason FROM jobs")
    assert reasons == [("its run was released",)]
    assert pool.audit() == []
