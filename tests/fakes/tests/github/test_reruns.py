"""Running again: when GitHub allows it, and what a new attempt looks like."""

from collections.abc import Sequence

import httpx
import pytest

from fakes.github.acting import WIDGETS
from fakes.github.hub import FakeGithub, JobSpec, Run

RUNS = f"{WIDGETS}/actions/runs"


def a_run(github: FakeGithub, ends: Sequence[str] = ("failure", "success")) -> Run:
    """Jobs a and b, ended so; c needs a."""
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b"), JobSpec("c", needs=("a",))])
    for key, conclusion in zip("ab", ends, strict=True):
        github.hosted(run, key, conclusion)
    return run


def rerun_job(api: httpx.Client, run: Run, key: str, attempt: int = 1) -> httpx.Response:
    return api.post(f"{WIDGETS}/actions/jobs/{run.job(key, attempt).id}/rerun")


def test_a_job_is_run_again_with_those_that_need_it_in_a_new_attempt(api: httpx.Client, github: FakeGithub) -> None:
    run = a_run(github)
    assert rerun_job(api, run, "a").status_code == 201
    assert (run.attempt, run.state) == (2, "queued")
    github.hosted(run, "a")
    assert {job.key: job.status for job in run.jobs()} == {"a": "completed", "b": "completed", "c": "queued"}


def test_a_new_attempt_has_new_ids_and_shows_untouched_jobs_as_they_ended(
    api: httpx.Client, github: FakeGithub
) -> None:
    run = a_run(github)
    rerun_job(api, run, "a")
    before, after = (
        {job["name"]: job for job in api.get(f"{RUNS}/{run.id}/attempts/{number}/jobs").json()["jobs"]}
        for number in (1, 2)
    )
    assert not {job["id"] for job in before.values()} & {job["id"] for job in after.values()}
    assert (after["b"]["conclusion"], after["b"]["run_attempt"]) == ("success", 2)
    assert after["b"]["started_at"] == before["b"]["started_at"]
    assert after["a"]["status"] == "queued"
    assert before["a"]["conclusion"] == "failure"


def test_the_attempt_before_is_shown_as_it_ended(api: httpx.Client, github: FakeGithub) -> None:
    run = a_run(github)
    rerun_job(api, run, "a")
    old, new = (api.get(f"{RUNS}/{run.id}/attempts/{number}").json() for number in (1, 2))
    assert (old["status"], old["conclusion"], new["status"]) == ("completed", "failure", "queued")
    assert (old["head_sha"], new["previous_attempt_url"]) == (new["head_sha"], old["url"] + "/attempts/1")
    everything = api.get(f"{RUNS}/{run.id}/jobs", params={"filter": "all"}).json()
    assert everything["total_count"] == 5


def test_nothing_is_run_again_before_the_whole_run_has_ended(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b")])
    github.hosted(run, "a", "failure")
    one, failed, all_ = (
        rerun_job(api, run, "a"),
        api.post(f"{RUNS}/{run.id}/rerun-failed-jobs"),
        api.post(f"{RUNS}/{run.id}/rerun"),
    )
    assert [answer.status_code for answer in (one, failed, all_)] == [403, 403, 403]
    assert one.json()["message"] == "The workflow run containing this job is already running"
    assert "already running" in failed.json()["message"]
    assert run.attempt == 1


def test_a_job_of_an_attempt_that_is_not_the_current_one_is_not_run_again(
    api: httpx.Client, github: FakeGithub
) -> None:
    run = a_run(github)
    github.rerun(run, "a")
    github.hosted(run, "a", "failure")
    refused = rerun_job(api, run, "a", attempt=1)
    assert refused.status_code == 403
    assert refused.json()["message"] == "Only jobs from the current attempt can be re-run"
    assert run.attempt == 2


def test_of_two_requests_to_rerun_a_job_one_succeeds(api: httpx.Client, github: FakeGithub) -> None:
    run = a_run(github)
    assert [rerun_job(api, run, "a").status_code for _ in range(2)] == [201, 403]
    assert run.attempt == 2


def test_nothing_is_run_again_after_thirty_days(api: httpx.Client, github: FakeGithub) -> None:
    run = a_run(github)
    github.advance(30 * 86400 + 1)
    refused = rerun_job(api, run, "a")
    assert (refused.status_code, "cannot be retried" in refused.json()["message"]) == (403, True)


def test_a_run_is_run_again_fifty_times_and_no_more(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a")])
    for _ in range(50):
        github.hosted(run, "a", "failure")
        github.rerun(run)
    github.hosted(run, "a", "failure")
    assert api.post(f"{RUNS}/{run.id}/rerun").status_code == 403
    assert run.attempt == 51


@pytest.mark.parametrize(("ends", "again"), [(("failure", "success"), ["a"]), (("failure", "cancelled"), ["a", "b"])])
def test_failed_jobs_are_run_again_and_cancelled_ones_too(
    api: httpx.Client, github: FakeGithub, ends: tuple[str, str], again: list[str]
) -> None:
    run = a_run(github, ends)
    assert api.post(f"{RUNS}/{run.id}/rerun-failed-jobs").status_code == 201
    assert sorted(job.key for job in run.jobs() if job.status == "queued") == again


def test_a_run_without_failed_jobs_has_none_to_run_again(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a")])
    github.hosted(run, "a")
    assert api.post(f"{RUNS}/{run.id}/rerun-failed-jobs").status_code == 403
    assert api.post(f"{RUNS}/{run.id}/rerun").status_code == 201


def test_jobs_of_one_matrix_are_run_again_one_by_one(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("test", name=f"test ({n})") for n in (1, 2)])
    github.hosted(run, "test (1)")
    github.hosted(run, "test (2)", "failure")
    assert rerun_job(api, run, "test (2)").status_code == 201
    assert [(job.name, job.status) for job in run.jobs()] == [("test (1)", "completed"), ("test (2)", "queued")]
