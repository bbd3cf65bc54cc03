"""FakeGithub: a GitHub of our own on 127.0.0.1, and how a test controls it.

    hub = FakeGithub()                                  # or the fixture `github`, which also fails on violations
    hub.url, hub.api_url, hub.issuer                    # settings github.url, github.api-url, github.oidc-issuer
    hub.add_repository("acme/widgets")                  # its owner is an organisation too; the fixture has this one
    token = hub.token()                                 # every permission; or token(permissions={"actions": "read"})
    app_id, pem = hub.app()                             # installed on everything; or app(permissions=…, scope=…)

    run = hub.start_run("acme/widgets", [
        JobSpec("provision"),
        JobSpec("build", runs_on=("${{ github.run_id }}",), needs=("provision",), script="make", environment=""),
    ])
    run.state, run.attempt, run.conclusion, run.jobs(1), run.job("build").runner_name
    hub.hosted(run, "provision", "success", {"label": "4711"})   # on one of GitHub's own machines, begun and ended
    hub.begin(run, "build", "r-1"); hub.finish(run, "build", "failure")   # on a runner without a process
    hub.rerun(run, "build"); hub.cancel(run)                     # as a user who presses the button

    hub.add_runner("acme/widgets", "r-1", ["4711"])              # no process behind it; hub.renew("r-1") keeps it alive
    hub.runners(), hub.runner("r-1").busy, hub.is_online("r-1"), hub.disconnect("r-1"), hub.delete_runner("r-1")
    hub.release("2.336.0", days_ago=3); hub.oldest_version = "2.300.0"    # of the runner; older ones are refused (426)

    hub.sets                                                     # runner scale sets: see `scale_sets.control`

    hook = hub.webhook(url, secret, drop=("workflow_job.queued",), duplicate=("*",), reorder=("*.completed",))
    hook.deliveries, hub.deliveries, hub.redeliver(id), hub.settle_webhooks()
    hub.oidc_token(repository="acme/widgets", run_id="4711"), hub.oidc_environment(job)

and, of `Conditions`:

    hub.wait_for(lambda: run.state == "completed", timeout=10)   # blocks; in async tests: asyncio.to_thread
    hub.calls                                                    # "GET /repos/acme/widgets/actions/runners?page=2", …
    hub.fail("GET */runners*", 502, times=1), hub.slow("POST *", 0.5), hub.lose_answer("POST */rerun"), hub.heal()
    hub.rate_limit(token, remaining=0, resets_in=30), hub.secondary_limit(retry_after=1, times=1)
    hub.latency = 0.05                                           # seconds that each call takes longer, there and back
    hub.lag = 5.0                                                # lists show what was true so many seconds ago
    hub.lease = 2.0; hub.offline_after = 1.0                     # until a dead runner's job fails; until it is offline
    hub.advance(600); hub.clock = lambda: some_datetime          # its own time

Every request below /api/v3 (or without that prefix, as on api.github.com), every answer and every webhook is checked
against GitHub's own description; what violates it is in `hub.violations`, and `hub.check()` raises.

A control call takes effect before it returns, on whichever thread. The records that it returns are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from fakes.github import flow, oidc, runners
from fakes.github.conditions import Conditions
from fakes.github.state import Group, Job, JobSpec, Release, Repository, Run, Runner
from fakes.github.webhooks import Delivery, Hook

__all__ = ["Delivery", "FakeGithub", "Hook", "Job", "JobSpec", "Run", "Runner"]

EVERYTHING = {
    "actions": "write",
    "administration": "write",
    "contents": "read",
    "deployments": "read",
    "metadata": "read",
    "organization_self_hosted_runners": "write",
}


class FakeGithub(Conditions):
    def __init__(self, *, lease: float = 600.0) -> None:
        super().__init__(lease)
        self.api_url = f"{self.url}/api/v3"
        self.issuer = f"{self.url}/_services/token"

    # ---------------------------------------------------------------------------------------------------- permissions

    def add_repository(self, name: str, *, private: bool = True) -> Repository:
        with self._state.lock:
            repository = Repository(next(self._state.ids), name, private)
            self._state.repositories[name.lower()] = repository
            return repository

    def add_group(self, organisation: str, name: str, repositories: Sequence[str] = ()) -> Group:
        """A runner group, open to these repositories; none: to all."""
        with self._state.lock:
            groups = self._state.groups.setdefault(organisation.lower(), [])
            groups.append(Group(len(groups) + 2, name, tuple(repositories)))
            return groups[-1]

    def token(
        self, permissions: Mapping[str, str] = EVERYTHING, *, scope: str = "", expires_in: float | None = None
    ) -> str:
        """A personal access token; `scope` (owner/repository, or an organisation) is all that it can see."""
        return self._credentials.personal(permissions, scope, expires_in)

    def revoke(self, token: str) -> None:
        self._credentials.revoke(token)

    def app(self, permissions: Mapping[str, str] = EVERYTHING, *, scope: str = "") -> tuple[str, str]:
        """Id and private key (PEM) of a new App that is installed on `scope`; empty: on every organisation."""
        return self._credentials.app(permissions, scope)

    def installation_id(self, app_id: str) -> int:
        return self._credentials.apps[app_id].installation

    def replace_app_key(self, app_id: str) -> str:
        """The old key is no good any more; the new one."""
        return self._credentials.replace_key(app_id)

    # ----------------------------------------------------------------------------------------------------------- runs

    def start_run(
        self, repository: str, jobs: Iterable[JobSpec], *, event: str = "push", name: str = "CI", id: int | None = None
    ) -> Run:
        with self._state.lock:
            found = self._state.repositories[repository.lower()]
            return flow.start(self._state, found, jobs, event=event, name=name, run_id=id)

    def hosted(self, run: Run, key: str, conclusion: str = "success", outputs: Mapping[str, str] | None = None) -> Job:
        """A job (by key or name) runs on one of GitHub's own machines, from beginning to end."""
        job = self.begin(run, key, "GitHub Actions 5")
        job.outputs.update(outputs or {})
        return self.finish(run, key, conclusion)

    def begin(self, run: Run, key: str, runner: str) -> Job:
        """A waiting job starts on the runner of this name; one that `add_runner` made is busy with it from now on, and
        only `renew` renews it."""
        with self._state.lock:
            job = run.job(key)
            assert job.status == "queued", f"{key} is {job.status}"
            if found := runners.by_name(self._state, run.repository.name, runner):
                job.runner, found.job = found, job
            flow.begin(self._state, job, runner)
            return job

    def finish(self, run: Run, key: str, conclusion: str = "success") -> Job:
        with self._state.lock:
            job = run.job(key)
            assert job.status == "in_progress", f"{key} is {job.status}"
            flow.finish(self._state, job, conclusion)
            return job

    def renew(self, runner: str) -> None:
        """A sign of life from a runner without a process, and of its job."""
        with self._state.lock:
            found = self.runner(runner)
            found.seen_at = self._state.clock()
            if found.job:
                found.job.renewed_at = found.seen_at
            self._state.changed()

    def cancel(self, run: Run) -> None:
        with self._state.lock:
            flow.cancel(self._state, run)

    def rerun(self, run: Run, *keys: str) -> None:
        """As a user who presses the button: these jobs, or all."""
        with self._state.lock:
            flow.rerun(self._state, run, [run.job(key) for key in keys] or None)

    # -------------------------------------------------------------------------------------------------------- runners

    def add_runner(
        self,
        scope: str,
        name: str,
        labels: Sequence[str] = (),
        *,
        online: bool = True,
        version: str = "2.336.0",
        ephemeral: bool = False,
    ) -> Runner:
        """A registration without a process behind it. Online means: until it was silent for `offline_after`."""
        with self._state.lock:
            runner = runners.add(self._state, scope, name, labels, version=version, ephemeral=ephemeral)
            runner.is_session_open, runner.seen_at = online, self._state.clock()
            self._state.changed()
            return runner

    def runners(self, scope: str = "") -> list[Runner]:
        """Of one scope, or all, whatever `lag` hides from the API."""
        with self._state.lock:
            return [one for one in self._state.runners.values() if not scope or one.scope.lower() == scope.lower()]

    def runner(self, name: str) -> Runner:
        """KeyError if no runner is registered under this name."""
        for runner in self.runners():
            if runner.name == name:
                return runner
        raise KeyError(name)

    def is_online(self, name: str) -> bool:
        with self._state.lock:
            return self._state.is_online(self.runner(name))

    def delete_runner(self, name: str) -> None:
        """As an administrator who presses the button."""
        with self._state.lock:
            self._state.remove_runner(self.runner(name))

    def disconnect(self, name: str) -> None:
        """It is shown offline at once, whatever runs on it."""
        with self._state.lock:
            runner = self.runner(name)
            runner.is_session_open = False
            self._state.changed()

    def release(self, version: str, *, days_ago: float = 0.0) -> None:
        """A release of actions/runner."""
        with self._state.lock:
            at = self._state.clock() - timedelta(days=days_ago)
            self._state.releases.append(Release(version, at))

    # ----------------------------------------------------------------------------------------------- webhooks and OIDC

    def webhook(
        self,
        url: str,
        secret: str,
        *,
        drop: Sequence[str] = (),
        duplicate: Sequence[str] = (),
        reorder: Sequence[str] = (),
    ) -> Hook:
        """Deliver workflow_job and workflow_run events from now on, after a ping. The faults are patterns of
        `event.action`: never sent, sent twice under one id, sent after the delivery that follows."""
        return self._webhooks.add(url, secret, drop, duplicate, reorder)

    @property
    def deliveries(self) -> list[Delivery]:
        """Everything that was due to every hook, dropped ones included (status 0); `Hook.deliveries` has its own."""
        return self._webhooks.deliveries

    def redeliver(self, delivery: str) -> None:
        """Send one again, under the same id."""
        self._webhooks.redeliver(delivery)

    def settle_webhooks(self, timeout: float = 120.0) -> None:
        """Return when everything due was answered; also what `reorder` held back."""
        self._webhooks.release_held()
        self.wait_for(lambda: not self._webhooks.pending, timeout)

    def oidc_token(self, **claims: Any) -> str:
        """What GitHub signs for a job: claims of a push to main of acme/widgets, with these instead; None leaves
        one out. `kid=` names another key than the published one, `forged=True` is signed by a stranger."""
        return oidc.token(self._state, self.issuer, claims)

    def oidc_environment(self, job: Job) -> dict[str, str]:
        """ACTIONS_ID_TOKEN_REQUEST_URL and ACTIONS_ID_TOKEN_REQUEST_TOKEN of a job with `id-token: write`."""
        return oidc.environment(self.url, job)
