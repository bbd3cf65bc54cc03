"""Runs and jobs: needs, ends, cancelling, a runner that dies."""

import httpx
import pytest

from fakes.github.acting import RUNNERS, WIDGETS
from fakes.github.hub import FakeGithub, JobSpec

RUNS = f"{WIDGETS}/actions/runs"
ON_OURS = ("${{ github.run_id }}",)


def test_a_job_appears_once_what_it_needs_has_succeeded(github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b", needs=("a",))])
    assert [job.key for job in run.jobs()] == ["a"]
    github.hosted(run, "a")
    assert [(job.key, job.status) for job in run.jobs()] == [("a", "completed"), ("b", "queued")]


def test_a_job_whose_needs_failed_is_skipped(github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b", needs=("a",)), JobSpec("c", needs=("b",))])
    github.hosted(run, "a", "failure")
    assert [job.conclusion for job in run.jobs()] == ["failure", "skipped", "skipped"]
    assert (run.state, run.conclusion) == ("completed", "failure")


def test_outputs_of_a_job_reach_the_labels_of_those_that_need_it(github: FakeGithub) -> None:
    label = ("${{ needs.provision.outputs.label }}",)
    run = github.start_run("acme/widgets", [JobSpec("provision"), JobSpec("build", label, needs=("provision",))])
    github.hosted(run, "provision", outputs={"label": "4711"})
    assert run.job("build").labels == ("4711",)


@pytest.mark.parametrize(
    ("ends", "conclusion"),
    [
        (("success", "skipped"), "success"),
        (("success", "cancelled"), "cancelled"),
        (("cancelled", "failure"), "failure"),
    ],
)
def test_a_run_ends_as_badly_as_its_worst_job(github: FakeGithub, ends: tuple[str, str], conclusion: str) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b")])
    github.hosted(run, "a", ends[0])
    assert run.state == "in_progress"
    github.hosted(run, "b", ends[1])
    assert (run.state, run.conclusion) == ("completed", conclusion)


def test_a_run_and_its_jobs_are_shown(api: httpx.Client, github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "r-1")
    run = github.start_run("acme/widgets", [JobSpec("build", ON_OURS)])
    waiting = api.get(f"{RUNS}/{run.id}/attempts/1/jobs").json()["jobs"][0]
    assert (waiting["status"], waiting["runner_name"], waiting["runner_id"]) == ("queued", None, None)
    assert waiting["labels"] == [str(run.id)]
    github.begin(run, "build", "r-1")
    shown = api.get(f"{RUNS}/{run.id}").json()
    assert (shown["id"], shown["status"], shown["conclusion"]) == (run.id, "in_progress", None)
    assert (shown["run_attempt"], shown["head_sha"]) == (1, run.head_sha)
    job = api.get(f"{WIDGETS}/actions/jobs/{run.job('build').id}").json()
    assert (job["runner_name"], job["runner_group_name"], job["status"]) == ("r-1", "Default", "in_progress")
    github.finish(run, "build")
    assert api.get(f"{RUNS}/{run.id}/jobs").json()["jobs"][0]["runner_name"] == "r-1"


def test_runs_are_listed_newest_first_and_by_status(api: httpx.Client, github: FakeGithub) -> None:
    first, second = (github.start_run("acme/widgets", [JobSpec("a")]) for _ in range(2))
    github.hosted(first, "a")
    assert [run["id"] for run in api.get(RUNS).json()["workflow_runs"]] == [second.id, first.id]
    assert [run["id"] for run in api.get(RUNS, params={"status": "queued"}).json()["workflow_runs"]] == [second.id]


@pytest.mark.parametrize("path", ["runs/1", "runs/1/jobs", "runs/1/attempts/1/jobs", "jobs/1"])
def test_what_does_not_exist_is_not_found(api: httpx.Client, path: str) -> None:
    assert api.get(f"{WIDGETS}/actions/{path}").status_code == 404


def test_a_run_belongs_to_its_repository(api: httpx.Client, github: FakeGithub) -> None:
    github.add_repository("acme/gadgets")
    run = github.start_run("acme/gadgets", [JobSpec("a")])
    assert api.get(f"{RUNS}/{run.id}").status_code == 404
    assert api.get(f"{RUNS}/{run.id}/attempts/2/jobs").status_code == 404


def test_a_cancelled_run_ends_its_jobs_that_have_no_runner(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a", ON_OURS), JobSpec("b", needs=("a",))])
    assert api.post(f"{RUNS}/{run.id}/cancel").status_code == 202
    assert [(job.conclusion, job.runner_name) for job in run.jobs()] == [("cancelled", ""), ("cancelled", "")]
    assert (run.state, run.conclusion) == ("completed", "cancelled")


@pytest.mark.parametrize("word", ["cancel", "force-cancel"])
def test_a_completed_run_cannot_be_cancelled(api: httpx.Client, github: FakeGithub, word: str) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a")])
    github.hosted(run, "a")
    assert api.post(f"{RUNS}/{run.id}/{word}").status_code == 409


def test_a_dead_runners_job_fails_ten_minutes_after_its_last_renewal(api: httpx.Client, github: FakeGithub) -> None:
    runner = github.add_runner("acme/widgets", "r-1")
    run = github.start_run("acme/widgets", [JobSpec("build", ON_OURS)])
    github.begin(run, "build", "r-1")
    github.advance(300)
    github.renew("r-1")
    github.advance(599)
    shown = api.get(f"{RUNNERS}/{runner.id}").json()
    assert (shown["status"], shown["busy"], run.job("build").status) == ("offline", True, "in_progress")
    assert api.delete(f"{RUNNERS}/{runner.id}").status_code == 422
    github.advance(1)
    assert (run.job("build").conclusion, run.conclusion) == ("failure", "failure")
    assert "lost communication" in run.job("build").annotation
    assert api.delete(f"{RUNNERS}/{runner.id}").status_code == 204


def test_the_lease_can_be_short_and_runs_out_by_itself(github: FakeGithub) -> None:
    github.lease = 0.05
    github.add_runner("acme/widgets", "r-1")
    run = github.start_run("acme/widgets", [JobSpec("build", ON_OURS)])
    github.begin(run, "build", "r-1")
    github.wait_for(lambda: run.state == "completed")
    assert run.conclusion == "failure"


def test_cancelling_waits_for_a_dead_runner(api: httpx.Client, github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "r-1")
    run = github.start_run("acme/widgets", [JobSpec("build", ON_OURS)])
    github.begin(run, "build", "r-1")
    github.disconnect("r-1")
    assert api.post(f"{RUNS}/{run.id}/cancel").status_code == 202
    github.advance(599)
    assert run.state == "in_progress"
    github.advance(1)
    assert (run.state, run.job("build").conclusion) == ("completed", "cancelled")


def test_a_job_on_githubs_own_machine_has_no_lease(github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build")])
    github.begin(run, "build", "GitHub Actions 5")
    github.advance(3600)
    assert run.job("build").status == "in_progress"


def test_a_job_that_no_runner_takes_fails_after_a_day(github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ON_OURS)])
    github.advance(24 * 3600 + 1)
    assert (run.state, run.conclusion, run.job("build").runner_name) == ("completed", "failure", "")


def test_a_job_with_an_environment_is_a_deployment_whose_status_names_it(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("ship", environment="production"), JobSpec("test")])
    found = api.get(f"{WIDGETS}/deployments", params={"sha": run.head_sha}).json()
    statuses = api.get(f"{WIDGETS}/deployments/{found[0]['id']}/statuses").json()
    assert [one["environment"] for one in found] == ["production"]
    assert statuses[0]["log_url"].endswith(f"/acme/widgets/actions/runs/{run.id}/job/{run.job('ship').id}")
    assert api.get(f"{WIDGETS}/deployments", params={"sha": "0" * 40}).json() == []
    assert api.get(f"{WIDGETS}/deployments/1/statuses").status_code == 404
    assert api.get(f"{RUNS}/{run.id}/pending_deployments").json() == []


def test_waiting_in_vain_says_what_github_knows(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "r-1")
    github.start_run("acme/widgets", [JobSpec("build")])
    with pytest.raises(TimeoutError, match=r"jobs: build queued.*runners: r-1"):
        github.wait_for(lambda: False, 0.01)
