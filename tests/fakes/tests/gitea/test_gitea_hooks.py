"""Webhooks of the real Gitea."""

from __future__ import annotations

from collections.abc import Callable

from fakes.gitea.api import GiteaRepository
from fakes.gitea.receiver import GiteaHookReceiver
from fakes.gitea.runner import GiteaRunner
from fakes.tests.gitea.workflows import OWN_LABEL, one_job

SECRET = "known to both"


def test_each_step_of_a_job_and_of_its_run_arrives_with_a_signature_over_the_body(
    gitea_repository: GiteaRepository, gitea_hooks: GiteaHookReceiver, gitea_runner: Callable[..., GiteaRunner]
) -> None:
    gitea_repository.add_hook(gitea_hooks.url, SECRET)
    run = gitea_repository.run_of(gitea_repository.push(one_job("true", OWN_LABEL)))
    queued = gitea_hooks.delivered("workflow_job", run_id=run["id"], status="queued")
    assert queued.payload["action"] == "queued"
    assert queued.payload["workflow_job"]["labels"] == [f"run-{run['id']}"]
    assert queued.payload["repository"]["full_name"] == gitea_repository.name
    runner = gitea_runner()
    labels = [f"run-{run['id']}:host"]
    assert runner.register(gitea_repository.registration_token(), "hooked", labels) == 0
    runner.start()
    taken = gitea_hooks.delivered("workflow_job", run_id=run["id"], status="in_progress")
    assert taken.payload["workflow_job"]["runner_id"] == runner.registration["id"]
    done = gitea_hooks.delivered("workflow_job", run_id=run["id"], status="completed")
    assert done.payload["workflow_job"]["conclusion"] == "success"
    ended = gitea_hooks.delivered("workflow_run", id=run["id"], status="completed")
    assert (ended.payload["action"], ended.payload["workflow_run"]["conclusion"]) == ("completed", "success")
    assert runner.wait() == 0
    assert all(one.is_signed_with(SECRET) for one in gitea_hooks.deliveries)
    assert not any(one.is_signed_with("another") for one in gitea_hooks.deliveries)
