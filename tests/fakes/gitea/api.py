"""Gitea's API, as a person or a program with a token uses it; each test makes users and repositories of its own."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from fakes.gitea.waiting import PATIENCE, until

Json = dict[str, Any]
NUMBERS = itertools.count(1)
EVENTS = ("workflow_job", "workflow_run")


class GiteaCaller:
    """With one token, or with a name and its password. `http` is the server's, which closes it."""

    def __init__(self, http: httpx.Client, token: str = "", login: tuple[str, str] | None = None) -> None:
        self.http, self.token = http, token
        self._headers = {"authorization": f"token {token}"} if token else {}
        self._login = login

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        """Whatever it answers."""
        url = f"/api/v1{path}"
        return self.http.request(method, url, json=body, params=query, headers=self._headers, auth=self._login)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """What it answers to a call that must succeed."""
        answer = self.ask(method, path, body, **query)
        assert answer.is_success, f"Gitea refused {method} {path} with {answer.status_code}: {answer.text}"
        return answer.json() if answer.content else None

    def get(self, path: str, **query: Any) -> Any:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, body)

    # ------------------------------------------------------------------------------------------------ the administrator

    def add_user(self, name: str) -> GiteaUser:
        password = f"the password of {name}"
        email = f"{name}@example.org"
        self.post(
            "/admin/users", {"username": name, "email": email, "password": password, "must_change_password": False}
        )
        return GiteaUser(self.http, name, password)

    def instance(self) -> GiteaScope:
        return GiteaScope(self, "/admin")

    def run_cron_task(self, name: str) -> None:
        """Such as `stop_zombie_tasks`, which ends the jobs of runners that are silent for `lost_after`."""
        self.post(f"/admin/cron/{name}")


class GiteaUser:
    def __init__(self, http: httpx.Client, name: str, password: str) -> None:
        self.name, self.password = name, password
        self._http = http
        self._with_password = GiteaCaller(http, login=(name, password))
        self.caller = self.with_scopes("all")

    def with_scopes(self, *scopes: str) -> GiteaCaller:
        """With a new token that has them: `write:repository`, `read:user`, `all`; a token is made with the password."""
        body = {"name": f"token {next(NUMBERS)}", "scopes": list(scopes)}  # names are unique
        made = self._with_password.post(f"/users/{self.name}/tokens", body)
        return GiteaCaller(self._http, made["sha1"])

    def cancel(self, repository: GiteaRepository, run: int) -> None:
        self._press(f"/{repository.name}/actions/runs/{run}/cancel")

    def approve(self, repository: GiteaRepository, run: int) -> None:
        """Let the jobs of a stranger's pull request run."""
        self._press(f"/{repository.name}/actions/runs/{run}/approve")

    def _press(self, button: str) -> None:
        """As a person does in the browser: for these, this version has no call in its API."""
        origin = {"origin": str(self._http.base_url)}
        with httpx.Client(base_url=self._http.base_url, trust_env=False, timeout=PATIENCE) as browser:
            form = {"user_name": self.name, "password": self.password}
            assert browser.post("/user/login", data=form, headers=origin).status_code == 303
            answer = browser.post(button, headers=origin)
        assert answer.is_success, answer.text

    def add_organisation(self, name: str) -> GiteaScope:
        self.caller.post("/orgs", {"username": name})
        return GiteaScope(self.caller, f"/orgs/{name}")

    def add_repository(self, name: str, organisation: str = "", *, private: bool = True) -> GiteaRepository:
        """With one commit on `main`."""
        body = {"name": name, "auto_init": True, "private": private}
        self.caller.post(f"/orgs/{organisation}/repos" if organisation else "/user/repos", body)
        return GiteaRepository(self.caller, f"{organisation or self.name}/{name}")

    def fork(self, repository: GiteaRepository) -> GiteaRepository:
        self.caller.post(f"{repository.path}/forks", {})
        return GiteaRepository(self.caller, f"{self.name}/{repository.name.partition('/')[2]}")


class GiteaScope:
    """Where runners are registered: a repository, an organisation, or the instance. `path` is how its part of the API
    begins."""

    def __init__(self, caller: GiteaCaller, path: str) -> None:
        self.caller, self.path = caller, path

    def registration_token(self) -> str:
        return str(self.caller.post(f"{self.path}/actions/runners/registration-token")["token"])

    def register_runner(self, name: str, labels: Sequence[str]) -> Json:
        """As its program registers an ephemeral one, but from anywhere: what `GiteaRunner.adopt` takes."""
        body = {"name": name, "token": self.registration_token(), "labels": list(labels), "ephemeral": True}
        answer = self.caller.http.post("/api/actions/runner.v1.RunnerService/Register", json=body)
        assert answer.is_success, answer.text
        made = answer.json()["runner"]
        return {**made, "id": int(made["id"]), "labels": [f"{label}:host" for label in labels]}

    def runners(self) -> list[Json]:
        return list(self.caller.get(f"{self.path}/actions/runners")["runners"])

    def remove_runner(self, id: int) -> httpx.Response:
        return self.caller.ask("DELETE", f"{self.path}/actions/runners/{id}")


class GiteaRepository(GiteaScope):
    """`name` is `owner/name`."""

    def __init__(self, caller: GiteaCaller, name: str) -> None:
        super().__init__(caller, f"/repos/{name}")
        self.name = name

    def push(self, files: Mapping[str, str], message: str = "change") -> str:
        """One commit on `main` with these files, which are new; its id. Workflows are in `.gitea/workflows/`."""
        changes = [
            {"operation": "create", "path": path, "content": base64.b64encode(text.encode()).decode()}
            for path, text in files.items()
        ]
        made = self.caller.post(f"{self.path}/contents", {"branch": "main", "message": message, "files": changes})
        return str(made["commit"]["sha"])

    def propose(self, fork: GiteaRepository) -> int:
        """Open a pull request with the `main` of a fork, as its owner; its number."""
        owner = fork.name.partition("/")[0]
        body = {"title": "change", "head": f"{owner}:main", "base": "main"}
        return int(fork.caller.post(f"{self.path}/pulls", body)["number"])

    def add_hook(self, url: str, secret: str, events: Sequence[str] = EVENTS) -> int:
        """A webhook; its id."""
        config = {"url": url, "content_type": "json", "secret": secret}
        body = {"type": "gitea", "active": True, "events": list(events), "config": config}
        return int(self.caller.post(f"{self.path}/hooks", body)["id"])

    # ---------------------------------------------------------------------------------------------- runs and their jobs

    def runs(self) -> list[Json]:
        """The newest first."""
        return list(self.caller.get(f"{self.path}/actions/runs")["workflow_runs"])

    def dispatch(self, workflow: str) -> int:
        """Start a run of a file that is on `main` and has `on: workflow_dispatch`; its id. The run exists when this
        returns: unlike one that a push starts, it is neither lost nor doubled if the server is killed then."""
        path = f"{self.path}/actions/workflows/{workflow}/dispatches"
        return int(self.caller.call("POST", path, {"ref": "main"}, return_run_details="true")["workflow_run_id"])

    def run_of(self, sha: str) -> Json:
        """The run that a commit has started, once the server has come to it. Wait for it before the next push: the run
        of a push that still waits may be given a later commit."""
        return until(
            lambda: next((run for run in self.runs() if run["head_sha"] == sha), None),
            f"{self.name} has a run of {sha}",
        )

    def run(self, id: int) -> Json:
        return dict(self.caller.get(f"{self.path}/actions/runs/{id}"))

    def jobs(self, run: int) -> list[Json]:
        return list(self.caller.get(f"{self.path}/actions/runs/{run}/jobs")["jobs"])

    def job_that(self, run: int, name: str, **has: Any) -> Json:
        """The job of this name, once it has these fields: `status="completed"`."""
        return until(
            lambda: next((job for job in self.jobs(run) if job["name"] == name and has.items() <= job.items()), None),
            f"job {name} of run {run} has {has}",
        )

    def log_of(self, job: int) -> str:
        answer = self.caller.ask("GET", f"{self.path}/actions/jobs/{job}/logs")
        assert answer.is_success, answer.text
        return answer.text

    def tasks(self) -> list[Json]:
        """What runners have taken, the newest first: with the ids that runners and server use among each other."""
        return list(self.caller.get(f"{self.path}/actions/tasks")["workflow_runs"])

    def rerun(self, run: int, job: int) -> httpx.Response:
        """What Gitea answers to the request to run a job again, and what needs it."""
        return self.caller.ask("POST", f"{self.path}/actions/runs/{run}/jobs/{job}/rerun")
