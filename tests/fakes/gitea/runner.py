"""Gitea's runner as a process that executes jobs on this machine: its host mode, without containers."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fakes.gitea.child import GiteaProcess
from fakes.gitea.server import link
from fakes.gitea.waiting import PATIENCE, until

SETTINGS: dict[str, Any] = {
    "log": {"level": "info"},
    "runner": {
        "file": ".runner",
        "capacity": 1,
        "fetch_interval": "100ms",
        "fetch_interval_max": "100ms",
        "state_report_interval": "500ms",
        "log_report_interval": "500ms",
        "log_report_max_latency": "200ms",
    },
    "cache": {"enabled": False},  # it would listen on all addresses
}


class GiteaRunner:
    """`folder` is its home and working directory; `registration` what the server knows it by, once it is registered."""

    def __init__(self, program: Path, folder: Path, url: str, user: str, **changed: Any) -> None:
        self.folder, self.log = folder, folder / "runner.log"
        self._program, self._url = program, url
        self._ids = (pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid) if user else None
        self._environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
        self._process: GiteaProcess | None = None
        settings = {**SETTINGS, "runner": {**SETTINGS["runner"], **changed}}
        (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
        self.log.touch()
        if self._ids:
            os.chown(folder, *self._ids)

    @property
    def registration(self) -> dict[str, Any]:
        """`id`, `uuid`, `name`, `token`, `address`, `labels`, `ephemeral`."""
        return dict(json.loads((self.folder / ".runner").read_text()))

    @property
    def task(self) -> int:
        """The id of the last job that it has taken, in the words of the server and its runners. The API has another."""
        return int(re.findall(r"task (\d+) repo", self.log.read_text())[-1])

    def ask(self, method: str, body: Any) -> httpx.Response:
        """What the server answers to a call with the credentials of this runner, such as `UpdateTask`."""
        known = self.registration
        headers = {"x-runner-uuid": known["uuid"], "x-runner-token": known["token"]}
        url = f"{self._url}/api/actions/runner.v1.RunnerService/{method}"
        with httpx.Client(trust_env=False, timeout=PATIENCE) as client:
            return client.post(url, json=body, headers=headers)

    def register(self, token: str, name: str, labels: Sequence[str], *, ephemeral: bool = True) -> int:
        """With labels such as `small:host`. Returns the exit code of the command; what it printed is in the log."""
        named = {"instance": self._url, "token": token, "name": name, "labels": ",".join(labels)}
        options = [word for key, value in named.items() for word in (f"--{key}", value)]
        process = self._run("register", "--no-interactive", *options, *(["--ephemeral"] if ephemeral else []))
        try:
            return _code(process, f"gitea-runner register ends: {self.log}")
        finally:
            process.end()

    def adopt(self, registration: dict[str, Any]) -> None:
        """Be the runner that another process has registered."""
        path = self.folder / ".runner"
        path.write_text(json.dumps({**registration, "address": self._url}))
        if self._ids:
            os.chown(path, *self._ids)

    def start(self, *options: str) -> None:
        """Let it wait for jobs; with `--once`, and if it is ephemeral, for one."""
        self.kill()
        self._process = self._run("daemon", *options)

    def wait(self) -> int:
        """Its exit code."""
        return _code(self._started, f"the runner ends: {self.log}")

    def signal(self, number: signal.Signals) -> None:
        self._started.signal(number)

    def kill(self) -> None:
        """Without a word to the server, and the job with it."""
        if self._process is not None:
            self._process.end()

    @property
    def _started(self) -> GiteaProcess:
        assert self._process is not None, "the runner has not been started"
        return self._process

    def _run(self, *words: str) -> GiteaProcess:
        command = [self._program, "--config", "config.yaml", *words]
        return GiteaProcess(command, self.folder, self.log, self._environ, self._ids)


@contextmanager
def a_gitea_runner(built: Path, url: str, user: str = "", **changed: Any) -> Iterator[GiteaRunner]:
    """For the server at `url`, not registered. It runs as `user`, or as we do; `changed` are settings of the section
    `runner` of its config."""
    folder = Path(tempfile.mkdtemp(prefix="gitea-runner-"))
    folder.chmod(0o755)
    program = folder / "gitea-runner"
    link(str(built), str(program))
    home = folder / "home"
    home.mkdir()
    runner = GiteaRunner(program, home, url, user, **changed)
    try:
        yield runner
    finally:
        runner.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _code(process: GiteaProcess, what: str) -> int:
    until(lambda: process.code is not None, what)
    assert process.code is not None
    return process.code
