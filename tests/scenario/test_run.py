"""`bullpen run` with real processes: one job on each runner, a runner that is killed, retries, and failing fast."""

import signal
from typing import Any

from scenario.pool import Pool


def run(pool: Pool, *arguments: str, code: int = 0) -> dict[str, Any]:
    ran = pool.run("run", "--json", *arguments)
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    return ran.answer


def runners(answer: dict[str, Any]) -> list[str]:
    return [job["instanceId"] for job in answer["jobs"]]


def test_four_jobs_that_end_at_once_run_on_four_runners_cold_and_warm(pool: Pool) -> None:
    for _ in range(3):
        answer = run(pool, "--count", "4", "--", "true")
        assert len(set(runners(answer))) == 4, answer
    assert len(pool.on_offer()) == 4
    assert pool.audit() == []


def test_a_second_command_of_the_same_run_has_one_job_on_each_runner_too(pool: Pool) -> None:
    for _ in range(2):
        assert len(set(runners(run(pool, "--run-id", "run-1", "--count", "3", "--", "true")))) == 3


def test_jobs_of_a_file_are_a_queue(pool: Pool) -> None:
    (pool.folder / "jobs").write_text('{"command": ["true"]}\n' * 6)
    answer = run(pool, "--count", "2", "--jobs", str(pool.folder / "jobs"))
    assert len(answer["jobs"]) == 6
    assert len(set(runners(answer))) == 2


def test_the_job_of_a_killed_runner_runs_again_on_its_replacement_although_others_are_free(pool: Pool) -> None:
    """Job 0 waits for a file; the others end at once, and their runners are free when the runner of job 0 dies."""
    go = pool.folder / "go"
    script = f"test $BULLPEN_JOB_INDEX != 0 || while ! test -e {go}; do sleep 0.1; done"
    running = pool.start("run", "--json", "--run-id", "run-1", "--count", "3", "--", "sh", "-c", script)
    done = "SELECT count(*) FROM jobs WHERE state = 'finished'"
    pool.until(lambda: bool(pool.rows("SELECT 1 FROM sqlite_master WHERE name = 'jobs'")), "the pool is there")
    pool.until(lambda: pool.rows(done) == [(2,)], "the others have ended")
    held = "SELECT instance_id FROM jobs WHERE state = 'running'"
    pool.until(lambda: bool(pool.rows(held)), "it runs")
    ((victim,),) = pool.rows(held)
    pool.signal(victim, signal.SIGKILL)
    pool.until(lambda: pool.rows("SELECT losses FROM jobs WHERE job_index = 0") == [(1,)], "it is lost")
    go.touch()
    ran = running.wait()
    assert ran.code == 0, ran
    job = ran.answer["jobs"][0]
    assert (job["losses"], job["attempts"]) == (1, 2)
    assert len({victim, *runners(ran.answer)}) == 4, "on a runner that had no job before"
    assert pool.audit() == []


def test_a_job_that_fails_once_succeeds_with_its_second_try(pool: Pool) -> None:
    note = pool.folder / "tried"
    script = f"echo here; test -e {note} || {{ touch {note}; exit 3; }}"
    ran = pool.run("run", "--count", "1", "--retries", "2", "--", "sh", "-c", script)
    assert ran.code == 0, ran
    assert ran.out.splitlines()[:3] == ["job-0 | here", "job-0 | [exit code 3; trying again, 2 left]", "job-0 | here"]
    assert "1 failed attempt tried again" in ran.out
    answer = run(pool, "--count", "1", "--retries", "2", "--", "sh", "-c", "exit 5", code=5)
    (job,) = answer["jobs"]
    assert (job["attempts"], len(job["earlier"]), job["exitCode"]) == (3, 2, 5)


def test_a_failure_ends_the_other_jobs_and_gives_its_own_exit_code(pool: Pool) -> None:
    (pool.folder / "jobs").write_text(
        '{"name": "long", "command": ["sleep", "600"]}\n'
        '{"name": "bad", "command": ["sh", "-c", "exit 7"]}\n'
        '{"name": "later", "command": ["sleep", "600"]}\n'
        '{"name": "last", "command": ["sleep", "600"]}\n'
    )
    answer = run(pool, "--count", "2", "--fail-fast", "--jobs", str(pool.folder / "jobs"), code=7)
    by_name = {job["name"]: job for job in answer["jobs"]}
    assert answer["failedFirst"] == by_name["bad"]["id"]
    assert {name: job["result"] for name, job in by_name.items()} == {
        "long": "cancelled",
        "bad": "failed",
        "later": "cancelled",
        "last": "cancelled",
    }
    assert "bad failed" in by_name["last"]["reason"]
    assert len(pool.on_offer()) == 2
    assert pool.audit() == []


def test_a_command_that_is_not_found_is_named(pool: Pool) -> None:
    ran = pool.run("run", "--count", "1", "--", "no-such-program")
    assert ran.code == 127, ran
    assert "job-0 | [no-such-program: not found on the runner i-" in ran.out
    ran = pool.run("run", "--count", "1", "--", "./no-such.sh")
    assert "./no-such.sh: no such file in the job's working directory" in ran.out


def test_of_each_job_is_known_when_it_started_and_how_long_it_took(pool: Pool) -> None:
    (job,) = run(pool, "--count", "1", "--", "sleep", "0.2")["jobs"]
    assert job["queuedAt"] <= job["startedAt"] <= job["finishedAt"]
    assert job["ranSeconds"] >= 0.2
    assert job["waitedSeconds"] >= 0


def test_artifacts_come_back_below_the_name_of_their_job_and_links_do_not(pool: Pool) -> None:
    out = pool.folder / "out"
    script = "mkdir -p dist/a; echo {index} > dist/a/x; echo r > r.xml; echo no > other; ln -s /etc/passwd dist/link"
    wanted = ("--artifact", "dist/**", "--artifact", "*.xml", "--out", str(out))
    answer = run(pool, "--no-sync", "--count", "2", "--name", "../it", *wanted, "--", "sh", "-c", script)
    found = sorted(str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir())
    assert found == [f".._it-{n}/{file}" for n in range(2) for file in ("dist/a/x", "r.xml")]
    assert (out / ".._it-1/dist/a/x").read_text() == "1\n"
    assert sorted(path for job in answer["jobs"] for path in job["files"]) == found
    ran = pool.run("run", "--no-sync", "--count", "1", "--artifact", "none*", "--out", str(out), "--", "true")
    assert ran.code == 0, ran
    assert "no artifacts: no file that matches 'none*' came back" in ran.out


def test_artifacts_that_cannot_be_written_fail_the_command_but_not_the_jobs(pool: Pool) -> None:
    out = pool.folder / "out"
    out.mkdir()
    (out / "job-0").write_text("in the way")
    ran = pool.run("run", "--no-sync", "--count", "1", "--artifact", "x", "--out", str(out), "--", "touch", "x")
    assert ran.code == 1, ran
    assert "1 of 1 job succeeded" in ran.out
    assert "artifacts of job-0" in ran.err
    assert (out / "job-0").read_text() == "in the way"
