"""A Gitea of the tests' own: the real server, with SQLite, listening on 127.0.0.1 only.

    folder/program    the program and the files that it reads, where every user gets to them
    folder/data       what it keeps: app.ini, database, repositories, logs; a server that starts again finds all of it

It refuses to run as root. As root, the tests run it as a user id that no account has: nothing else runs as that, and
no user of this machine is needed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fakes.gitea.api import GiteaCaller
from fakes.gitea.child import GiteaProcess
from fakes.gitea.waiting import PATIENCE, until
from fakes.peers import GITEA_READS
from free_ports import a_free_port

ADMIN = "operator"  # `admin` is reserved
UIDS = range(59_900, 60_000)  # the last of those that Debian gives to people: the least likely to be taken
LONG_AFTER = "8760h"  # what only happens when a test asks for it

SETTINGS = """\
RUN_MODE = prod
RUN_USER = {user}
WORK_PATH = {data}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
STATIC_ROOT_PATH = {program}
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = {data}/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = tests-only
[service]
DISABLE_REGISTRATION = true
[repository]
DEFAULT_BRANCH = main
[webhook]
ALLOWED_HOST_LIST = loopback
[queue]
TYPE = {queue}
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = Info
[actions]
ENABLED = {actions}
ZOMBIE_TASK_TIMEOUT = {lost_after}
[cron.stop_zombie_tasks]
SCHEDULE = @every {long_after}
RUN_AT_START = false
"""


class GiteaServer:
    """`url` is where it listens, also after it has started again; `admin` asks its API as its administrator.

    With the `queue` that is Gitea's default, what waits in it survives a kill, and is looked for every two seconds: a
    push becomes a run, and a step of a job becomes a webhook, that much later. With "channel" both happen at once.
    """

    def __init__(
        self, folder: Path, program: Path, *, actions: bool = True, lost_after: str = "10m", queue: str = "level"
    ) -> None:
        self.url = f"http://127.0.0.1:{(port := a_free_port())}"
        self.log = folder / "server.log"
        self._program = program
        self._data = folder / "data"
        self._data.mkdir()
        self._ids = _unused_ids() if os.geteuid() == 0 else None
        user = "gitea" if self._ids else pwd.getpwuid(os.geteuid()).pw_name
        self._environ = {"PATH": os.environ["PATH"], "HOME": str(self._data), "USER": user, "LANG": "C.UTF-8"}
        self._settings = self._data / "app.ini"
        self._settings.write_text(
            SETTINGS.format(
                user=user,
                data=self._data,
                program=program,
                port=port,
                actions=str(actions).lower(),
                lost_after=lost_after,
                queue=queue,
                long_after=LONG_AFTER,
            )
        )
        if self._ids:
            os.chown(self._data, *self._ids)
            os.chown(self._settings, *self._ids)
        self._http = httpx.Client(base_url=self.url, trust_env=False, timeout=PATIENCE)
        self._process: GiteaProcess | None = None
        self._admin: GiteaCaller | None = None

    @property
    def admin(self) -> GiteaCaller:
        if self._admin is None:
            options = ["--username", ADMIN, "--email", f"{ADMIN}@example.org", "--random-password", "--admin"]
            options += ["--must-change-password=false", "--access-token", "--access-token-scopes", "all"]
            printed = self.command("admin", "user", "create", *options)
            token = printed.split("Access token was successfully created... ")[1].split()[0]
            self._admin = GiteaCaller(self._http, token)
        return self._admin

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.code is None

    def start(self) -> None:
        """Return when its API answers."""
        self.kill()
        self._process = self._run(self.log, "web")

        def answers() -> bool:
            assert self.is_running, f"Gitea has ended:\n{self.last_words()}"
            try:
                return self._http.get("/api/v1/version").is_success
            except httpx.TransportError:
                return False

        until(answers, f"Gitea answers: {self.log}")

    def stop(self) -> None:
        """As systemd does it: what it has begun it may end."""
        assert self._process is not None, "the server has not been started"
        self._process.signal(signal.SIGTERM)
        until(lambda: not self.is_running, "Gitea ends after SIGTERM")

    def kill(self) -> None:
        if self._process is not None:
            self._process.end()

    def close(self) -> None:
        self.kill()
        self._http.close()

    def command(self, *words: str) -> str:
        """What a command of its program prints, which runs beside the server: `gitea admin user list`."""
        found, name = tempfile.mkstemp(dir=self._data.parent)
        os.close(found)
        process = self._run(Path(name), *words)
        try:
            until(lambda: process.code is not None, f"gitea {' '.join(words[:3])}")
            printed = Path(name).read_text()
            assert process.code == 0, f"gitea {' '.join(words[:3])} failed: {printed}"
            return printed
        finally:
            process.end()
            Path(name).unlink()

    def _run(self, log: Path, *words: str) -> GiteaProcess:
        command = [self._program / "gitea", "--config", self._settings, *words]
        return GiteaProcess(command, self._data, log, self._environ, self._ids)

    def ping(self) -> httpx.Response:
        """What it answers a runner that asks whether it is there."""
        return self._http.post("/api/actions/ping.v1.PingService/Ping", json={"data": "tests"})

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


@contextmanager
def serving_gitea(built: Path, **told: Any) -> Iterator[GiteaServer]:
    """A server that runs, with nothing on it, from what `peers.gitea` has built."""
    folder = Path(tempfile.mkdtemp(prefix="gitea-"))
    folder.chmod(0o755)  # the home of the one who built it may be closed to the user that it runs as
    program = folder / "program"
    program.mkdir()
    link(str(built / "gitea"), str(program / "gitea"))
    for name in GITEA_READS:
        shutil.copytree(built / name, program / name, copy_function=link)
    server = GiteaServer(folder, program, **told)
    try:
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


def link(source: str, target: str) -> None:
    """Put a file of the cache where every user gets to it."""
    try:
        os.link(source, target)  # a hundred megabytes, and over a thousand files
    except OSError:
        shutil.copy2(source, target)  # on another file system


def _unused_ids() -> tuple[int, int]:
    taken = {one.pw_uid for one in pwd.getpwall()}
    uid = next(uid for uid in UIDS if uid not in taken)
    return uid, uid
