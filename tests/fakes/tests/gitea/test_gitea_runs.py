"""Runs, jobs and runners of the real Gitea, and its real runner: what our engine stands on."""

from __future__ import annotations

import signal

import pytest

from fakes.gitea.api import GiteaRepository, GiteaUser
from fakes.gitea.server import GiteaServer
from fakes.gitea.waiting import until
from fakes.tests.gitea.workflows import PATH, Runners, one_job, registered, waiting


def test_a_push_starts_a_run_whose_job_waits_for_a_label_of_this_run_alone(gitea_repository: GiteaRepository) -> None:
    sha = gitea_repository.push(one_job("true"))
    run = gitea_repository.run_of(sha)
    job = gitea_repository.job_that(run["id"], "build")
    assert (run["event"], run["status"], run["path"]) == ("push", "queued", "check.yaml@refs/heads/main")
    assert (job["run_id"], job["status"], job["labels"]) == (run["id"], "queued", [f"run-{run['id']}"])


def test_a_run_that_is_dispatched_exists_when_the_server_answers(gitea_repository: GiteaRepository) -> None:
    gitea_repository.push({PATH: one_job("true")[PATH].replace("on: push", "on: workflow_dispatch")})
    ids = [gitea_repository.dispatch("check.yaml") for _ in range(2)]
    assert [run["id"] for run in gitea_repository.runs()] == sorted(ids, reverse=True)
    assert [gitea_repository.run(id)["event"] for id in ids] == ["workflow_dispatch"] * 2
    assert [job["labels"] for id in ids for job in gitea_repository.jobs(id)] == [[f"run-{id}"] for id in ids]


def test_an_ephemeral_runner_of_the_repository_executes_the_job_and_is_gone_from_the_list(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    run, _ = waiting(gitea_repository, "echo built by $(id -un)")
    runner = registered(gitea_runner, gitea_repository, run)
    (listed,) = gitea_repository.runners()
    assert (listed["id"], listed["name"], listed["ephemeral"]) == (runner.registration["id"], "bullpen-1", True)
    assert [label["name"] for label in listed["labels"]] == [f"run-{run['id']}"]
    runner.start()
    assert runner.wait() == 0, runner.log.read_text()
    done = gitea_repository.job_that(run["id"], "build", status="completed")
    assert (done["conclusion"], done["run_attempt"], done["runner_id"]) == ("success", 1, listed["id"])
    assert gitea_repository.run(run["id"])["conclusion"] == "success"
    assert "built by" in gitea_repository.log_of(done["id"])
    until(lambda: not gitea_repository.runners(), "the runner is gone from the list")


@pytest.mark.parametrize("scope", ["organisation", "instance"])
def test_a_runner_of_a_wider_scope_executes_the_job_too(
    scope: str, gitea: GiteaServer, gitea_owner: GiteaUser, gitea_runner: Runners
) -> None:
    organisation = gitea_owner.add_organisation(f"company-of-{gitea_owner.name}")
    repository = gitea_owner.add_repository("widgets", f"company-of-{gitea_owner.name}")
    where = organisation if scope == "organisation" else gitea.admin.instance()
    run, _ = waiting(repository, "true")
    runner = registered(gitea_runner, where, run)
    id = runner.registration["id"]
    assert id in [one["id"] for one in where.runners()]
    assert repository.runners() == [], "a repository lists its own"
    runner.start()
    assert runner.wait() == 0, runner.log.read_text()
    done = repository.job_that(run["id"], "build", status="completed")
    assert (done["conclusion"], done["runner_id"]) == ("success", id)
    until(lambda: id not in [one["id"] for one in where.runners()], "the runner is gone from the list")


def test_the_job_runs_as_the_user_of_the_runner(
    gitea_repository: GiteaRepository, gitea_runner: Runners, job_user: str
) -> None:
    if not job_user:
        pytest.skip("only root starts processes as another user")
    run, _ = waiting(gitea_repository, "echo built by $(id -un)")
    runner = registered(gitea_runner, gitea_repository, run)
    runner.start()
    assert runner.wait() == 0
    job = gitea_repository.job_that(run["id"], "build", status="completed")
    assert f"built by {job_user}\n" in gitea_repository.log_of(job["id"])


def test_a_job_is_run_again_once_its_run_is_done_and_not_before(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    run, job = waiting(gitea_repository, "exit 3")
    early = gitea_repository.rerun(run["id"], job["id"])
    assert (early.status_code, early.json()["message"]) == (400, "this workflow run is not done")
    for attempt in (1, 2):
        runner = registered(gitea_runner, gitea_repository, run)
        runner.start()
        assert runner.wait() == 0, "the runner itself has not failed"
        done = gitea_repository.job_that(run["id"], "build", status="completed", run_attempt=attempt)
        assert (done["id"], done["conclusion"]) == (job["id"], "failure")
        if attempt == 1:
            again = gitea_repository.rerun(run["id"], job["id"])
            assert (again.status_code, again.json()["id"], again.json()["status"]) == (201, job["id"], "queued")


def test_a_runner_that_is_disabled_takes_no_job_until_it_is_enabled(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    run, _ = waiting(gitea_repository, "true")
    runner = registered(gitea_runner, gitea_repository, run)
    path = f"{gitea_repository.path}/actions/runners/{runner.registration['id']}"
    assert gitea_repository.caller.call("PATCH", path, {"disabled": True})["disabled"] is True
    assert runner.ask("FetchTask", {"tasksVersion": 0}).json().keys() == {"tasksVersion"}
    gitea_repository.caller.call("PATCH", path, {"disabled": False})
    assert runner.ask("FetchTask", {"tasksVersion": 0}).json().keys() == {"task", "tasksVersion"}
    assert gitea_repository.job_that(run["id"], "build")["status"] == "in_progress"


def test_a_runner_without_a_job_ends_when_it_is_told_to_and_stays_in_the_list(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    run, _ = waiting(gitea_repository, "true")
    runner = gitea_runner()
    token = gitea_repository.registration_token()
    assert runner.register(token, "idle", ["another-label:host"]) == 0
    runner.start()
    until(lambda: "declare successfully" in runner.log.read_text(), "the runner waits for a job")
    runner.signal(signal.SIGTERM)
    assert runner.wait() == 0
    (left,) = gitea_repository.runners()
    assert left["name"] == "idle"
    assert gitea_repository.remove_runner(left["id"]).status_code == 204
    assert gitea_repository.remove_runner(left["id"]).status_code == 404
    assert gitea_repository.job_that(run["id"], "build")["status"] == "queued"
