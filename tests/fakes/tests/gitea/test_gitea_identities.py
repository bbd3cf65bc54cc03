"""Who a runner is to the real Gitea, and who a job is."""

from __future__ import annotations

import httpx

from fakes.gitea.api import GiteaRepository, GiteaUser
from fakes.gitea.server import GiteaServer
from fakes.tests.gitea.workflows import PATH, Runners, at_work, let_end, one_job, waiting

ARTIFACTS = "/twirp/github.actions.results.api.v1.ArtifactService/ListArtifacts"


def test_a_runner_serves_with_what_another_process_has_registered(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    run, _ = waiting(gitea_repository, "true")
    registration = gitea_repository.register_runner("made-elsewhere", [f"run-{run['id']}"])
    runner = gitea_runner()
    runner.adopt(registration)
    runner.start()
    assert runner.wait() == 0, runner.log.read_text()
    done = gitea_repository.job_that(run["id"], "build", status="completed")
    assert (done["conclusion"], done["runner_id"]) == ("success", registration["id"])


def test_the_runtime_token_of_a_job_proves_its_run_while_the_job_runs(
    gitea_repository: GiteaRepository, gitea_runner: Runners
) -> None:
    """There is no OIDC in this version. The server, asked with the token, says whose it is."""
    runner, job = at_work(gitea_runner, gitea_repository, "printf %s $ACTIONS_RUNTIME_TOKEN > $HOME/token")
    token = (runner.folder / "token").read_text()

    def asked_of(run: int, token: str = token) -> httpx.Response:
        body = {"workflow_run_backend_id": str(run), "workflow_job_run_backend_id": str(job["id"])}
        headers = {"authorization": f"Bearer {token}"}
        return gitea_repository.caller.http.post(ARTIFACTS, json=body, headers=headers)

    assert asked_of(job["run_id"]).status_code == 200
    other = asked_of(job["run_id"] + 1)
    assert (other.status_code, other.text.strip()) == (400, "run-id does not match")
    head, claims, signature = token.split(".")
    assert asked_of(job["run_id"], ".".join((head, claims, signature[::-1]))).status_code == 500
    let_end(runner)
    assert runner.wait() == 0
    assert asked_of(job["run_id"]).status_code == 500


def test_the_run_of_a_strangers_pull_request_waits_for_an_approval_and_does_not_name_the_fork(
    gitea: GiteaServer, gitea_owner: GiteaUser
) -> None:
    repository = gitea_owner.add_repository("widgets", private=False)
    repository.push({PATH: one_job("true")[PATH].replace("on: push", "on: pull_request")})
    fork = gitea.admin.add_user(f"stranger-of-{gitea_owner.name}").fork(repository)
    sha = fork.push({"change": "1"})
    number = repository.propose(fork)
    run = repository.run_of(sha)
    assert (run["event"], run["path"]) == ("pull_request", f"check.yaml@refs/pull/{number}/head")
    assert (run["repository"]["full_name"], "head_repository" in run) == (repository.name, False)
    assert repository.caller.get(f"{repository.path}/pulls/{number}")["head"]["repo"]["full_name"] == fork.name
    assert repository.job_that(run["id"], "build")["status"] == "waiting"
    gitea_owner.approve(repository, run["id"])
    assert repository.job_that(run["id"], "build")["status"] == "queued"
