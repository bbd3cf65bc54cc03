"""What becomes of a job whose runner ends before it, on the real Gitea."""

from __future__ import annotations

import signal

from fakes.gitea.api import GiteaRepository, GiteaUser
from fakes.gitea.runner import GiteaRunner
from fakes.gitea.server import GiteaServer
from fakes.gitea.waiting import until
from fakes.tests.gitea.workflows import Runners, at_work, let_end, registered, waiting


def told_to_end(runner: GiteaRunner) -> None:
    runner.signal(signal.SIGTERM)
    until(lambda: "shutdown initiated" in runner.log.read_text(), "the runner has got the signal")


def test_the_job_of_a_runner_that_was_killed_runs_until_the_server_looks_for_silent_ones(
    gitea: GiteaServer, gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository)
    runner.kill()
    assert gitea_repository.job_that(job["run_id"], "build")["status"] == "in_progress"
    assert [one["id"] for one in gitea_repository.runners()] == [runner.registration["id"]]
    assert gitea_repository.rerun(job["run_id"], job["id"]).status_code == 400

    def is_given_up() -> bool:
        gitea.admin.run_cron_task("stop_zombie_tasks")
        return bool(gitea_repository.job_that(job["run_id"], "build")["status"] == "completed")

    until(is_given_up, "the server has given the job up")
    lost = gitea_repository.job_that(job["run_id"], "build")
    assert (lost["conclusion"], lost["runner_id"]) == ("failure", runner.registration["id"])
    assert gitea_repository.runners() == []
    assert gitea_repository.rerun(job["run_id"], job["id"]).status_code == 201
    assert gitea_repository.job_that(job["run_id"], "build")["status"] == "queued"


def test_who_has_the_credentials_of_a_dead_runner_ends_its_job_at_once(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository)
    runner.kill()
    ended = runner.ask("UpdateTask", {"state": {"id": runner.task, "result": "RESULT_FAILURE"}})
    assert ended.json()["state"]["result"] == "RESULT_FAILURE"
    lost = gitea_repository.job_that(job["run_id"], "build")
    assert (lost["status"], lost["conclusion"]) == ("completed", "failure")
    assert gitea_repository.runners() == []
    assert gitea_repository.rerun(job["run_id"], job["id"]).status_code == 201


def test_a_job_that_never_reached_its_runner_runs_for_the_server_until_its_task_is_ended(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    """As when the server is killed, or the connection, before it has answered the runner that asks for a job."""
    run, job = waiting(gitea_repository, "true")
    runner = registered(gitea_runner, gitea_repository, run)
    assert "task" in runner.ask("FetchTask", {"tasksVersion": 0}).json(), "the answer that was lost"
    assert "task" not in runner.ask("FetchTask", {"tasksVersion": 0}).json()
    assert gitea_repository.job_that(run["id"], "build")["status"] == "in_progress"
    (task,) = gitea_repository.tasks()
    assert (task["status"], task["name"], task["url"]) == ("running", "build", run["html_url"])
    runner.ask("UpdateTask", {"state": {"id": task["id"], "result": "RESULT_FAILURE"}})
    assert gitea_repository.job_that(run["id"], "build")["conclusion"] == "failure"
    assert gitea_repository.rerun(run["id"], job["id"]).status_code == 201


def test_a_runner_that_is_told_to_end_lets_its_job_finish_within_the_shutdown_timeout(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository, shutdown_timeout="10m")
    told_to_end(runner)
    let_end(runner)
    assert runner.wait() == 0
    done = gitea_repository.job_that(job["run_id"], "build", status="completed")
    assert done["conclusion"] == "success"
    assert (runner.folder / "ended").exists()


def test_a_runner_that_is_told_to_end_without_a_shutdown_timeout_abandons_its_job_and_reports_success(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository, shutdown_timeout="0s")
    told_to_end(runner)
    let_end(runner)
    assert runner.wait() == 0
    assert gitea_repository.job_that(job["run_id"], "build")["status"] == "in_progress"
    assert [one["id"] for one in gitea_repository.runners()] == [runner.registration["id"]]


def test_an_ephemeral_runner_is_not_told_that_its_job_was_cancelled(
    gitea_owner: GiteaUser, gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository)
    gitea_owner.cancel(gitea_repository, job["run_id"])
    assert gitea_repository.job_that(job["run_id"], "build")["conclusion"] == "cancelled"
    assert gitea_repository.runners() == []
    assert runner.ask("UpdateTask", {"state": {"id": runner.task}}).status_code == 500, "it is not known any more"
    let_end(runner)
    until(lambda: (runner.folder / "ended").exists(), "the job has gone on to its end")


def test_a_job_survives_that_the_server_is_killed_and_starts_again(
    gitea: GiteaServer, gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    runner, job = at_work(gitea_runner, gitea_repository)
    gitea.kill()
    gitea.start()
    let_end(runner)
    assert runner.wait() == 0
    assert gitea_repository.job_that(job["run_id"], "build", status="completed")["conclusion"] == "success"
    assert gitea_repository.runners() == []
