"""Stands in for GitHub's Runner.Listener: the same options, files, lines and exit codes, and a protocol of its own.

    configure --unattended --url U --token T --name N --labels L --no-default-labels --disableupdate --work W …
    remove --token T
    run [--jitconfig C]

Any option may come as ACTIONS_RUNNER_INPUT_<NAME>, which no job gets to see. Standard library only, on the system's
Python: it runs as a user that may not read the one of the tests.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from hub import Away, Hub, Refused  # type: ignore[import-not-found]
from job import CODES, LOOKED_EVERY  # type: ignore[import-not-found]

TOP = Path(__file__).resolve().parents[1]
FILES = (".runner", ".credentials", ".credentials_rsaparams")
OK, TERMINATED, RETRY, CONFLICT, DEPRECATED = 0, 1, 2, 5, 7
FLAGS = ("unattended", "replace", "no-default-labels", "ephemeral", "disableupdate", "version", "local", "once")
PREFIX = "ACTIONS_RUNNER_INPUT_"
TOLD_AFTER = 0.3  # seconds that a request to GitHub may take
RESULTS = {"success": "Succeeded", "failure": "Failed", "cancelled": "Canceled"}


class Stopped(Exception):
    """A signal asks this runner to stop."""


def options(arguments: list[str]) -> dict[str, str]:
    """From the command line and, where it is silent, from the environment, which forgets them."""
    found = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(PREFIX)}
    given = {name.removeprefix(PREFIX).lower(): value for name, value in found.items()}
    rest = list(arguments)
    while rest:
        name = rest.pop(0).removeprefix("--").lower()
        if name not in FLAGS and not rest:
            raise SystemExit(f"Unrecognized command-line input arguments: '{name}'.")
        given[name] = "true" if name in FLAGS else rest.pop(0)
    return given


def load_environment() -> None:
    """As there: what lies in `.env` is set before anything else."""
    with suppress(FileNotFoundError):
        for line in (TOP / ".env").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            os.environ[name] = value


def closed() -> str:
    """As GitHub's own: nothing is done where a folder above the runner cannot be read."""
    try:
        for directory in (TOP, *TOP.parents):
            os.listdir(directory)
    except PermissionError as exc:
        way = f"'{TOP}' and each directory up the hierarchy"
        return f"Permission to read the directory contents is required for {way}. {exc}"
    return ""


def version() -> str:
    return (TOP / "bin" / "version").read_text(encoding="ascii").strip()


def say(line: str, *, at_time: bool = False) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%SZ: ", time.gmtime()) if at_time else ""
    print(f"{stamp}{line}", flush=True)
    (TOP / "_diag").mkdir(exist_ok=True)
    with open(TOP / "_diag" / f"Runner_{time.strftime('%Y%m%d')}-utc.log", "a", encoding="utf-8") as log:
        log.write(f"{stamp}{line}\n")


def keep(name: str, content: dict[str, Any]) -> None:
    with os.fdopen(os.open(TOP / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)


def save(url: str, known: dict[str, Any], name: str, work: str, *, ephemeral: bool, updates: bool) -> None:
    keep(".credentials", {"scheme": "OAuth", "data": {"clientId": str(known["id"]), "authorizationUrl": url}})
    keep(".credentials_rsaparams", {"secret": known["secret"]})
    kind = {"ephemeral": ephemeral, "disableUpdate": not updates}
    keep(".runner", {"agentId": known["id"], "agentName": name, "gitHubUrl": url, "workFolder": work, **kind})


def forget() -> None:
    for name in FILES:
        (TOP / name).unlink(missing_ok=True)


def configure(given: dict[str, str]) -> int:
    if (TOP / ".runner").exists():
        say("Cannot configure the runner because it is already configured. To reconfigure the runner, run 'config.cmd")
        say("remove' or './config.sh remove' first.")
        return TERMINATED
    if "unattended" not in given or not given.get("url") or not given.get("token"):
        say("Invalid configuration provided for url or token. Terminating unattended configuration.")
        return TERMINATED
    plain = "no-default-labels" in given
    if plain and not given.get("labels"):
        say("The '--no-default-labels' option requires the '--labels' option.")
        return TERMINATED
    labels = [*(() if plain else ("self-hosted", "Linux", "X64")), *filter(None, given.get("labels", "").split(","))]
    name, ephemeral, updates = (
        given.get("name") or os.uname().nodename,
        "ephemeral" in given,
        "disableupdate" not in given,
    )
    asked: dict[str, Any] = {
        "url": given["url"],
        "token": given["token"],
        "name": name,
        "labels": labels,
        "version": version(),
    }
    asked |= {"group": given.get("runnergroup", ""), "ephemeral": ephemeral, "disable_update": not updates}
    known = Hub(given["url"]).say("register", **asked)
    say("√ Runner successfully added")
    say("√ Runner connection is good")
    save(given["url"], known, name, given.get("work", "_work"), ephemeral=ephemeral, updates=updates)
    say("√ Settings Saved.")
    return OK


def remove(given: dict[str, str]) -> int:
    if "local" not in given and (TOP / ".runner").exists():
        ours = json.loads((TOP / ".runner").read_text(encoding="utf-8"))
        Hub(ours["gitHubUrl"]).say(
            "remove", url=ours["gitHubUrl"], token=given.get("token", ""), name=ours["agentName"]
        )
        say("√ Runner removed successfully")
    forget()
    say("√ Removed .credentials")
    say("√ Removed .runner")
    return OK


class Listening:
    """One session. A signal ends it: at once while it waits, and with the job cancelled while one runs."""

    def __init__(self) -> None:
        self.ours = json.loads((TOP / ".runner").read_text(encoding="utf-8"))
        secret = json.loads((TOP / ".credentials_rsaparams").read_text(encoding="utf-8"))["secret"]
        self.hub = Hub(self.ours["gitHubUrl"], id=self.ours["agentId"], secret=secret)
        self.is_stopped = self.waits = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self.is_stopped = True
        if self.waits:
            raise Stopped

    def run(self) -> int:
        self.hub.say("session", version=version())
        say("")
        say("√ Connected to GitHub")
        say("")
        say(f"Current runner version: '{version()}'")
        say("Listening for Jobs", at_time=True)
        try:
            while (job := self._next()) is not None:
                self._serve(job)
                if self.ours["ephemeral"]:
                    forget()
                    return OK
        except Stopped:
            pass
        except Refused as no:  # as there: one for a single job ends well when GitHub has dropped it
            if no.status != 404 or not self.ours["ephemeral"]:
                raise
            forget()
            return OK
        say("Exiting...")
        self.hub.say("leave")
        return OK

    def _next(self) -> dict[str, Any] | None:
        self.waits = True
        try:
            while not self.is_stopped:
                if answer := self.hub.say("next", wait=30):
                    job: dict[str, Any] = answer["job"]
                    return job
            return None
        finally:
            self.waits = False

    def _serve(self, job: dict[str, Any]) -> None:
        say(f"Running job: {job['name']}", at_time=True)
        self.hub.say("started", job=job["id"])
        conclusion = {code: name for name, code in CODES.items()}.get(self._work(job))
        say(f"Job {job['name']} completed with result: {RESULTS[conclusion or 'failure']}", at_time=True)
        if conclusion is None:  # its worker was killed and reported nothing: as GitHub's, the listener reports it later
            time.sleep(TOLD_AFTER)
            with suppress(Refused):  # given up as lost meanwhile
                self.hub.say("finish", job=job["id"], conclusion="failure")

    def _work(self, job: dict[str, Any]) -> int:
        """Have a worker execute it, a process of its own."""
        worker = subprocess.Popen([sys.executable, "-I", "-S", str(TOP / "bin" / "job.py")], stdin=subprocess.PIPE)
        assert worker.stdin is not None
        told = {
            "url": self.ours["gitHubUrl"],
            "known": self.hub.known,
            "job": job,
            "work": str(TOP / self.ours["workFolder"]),
        }
        worker.stdin.write(json.dumps(told).encode())
        worker.stdin.close()
        is_told = False
        while (code := worker.poll()) is None:
            if self.is_stopped and not is_told:
                is_told = True
                worker.send_signal(signal.SIGINT)
            time.sleep(LOOKED_EVERY)
        return code


def run(given: dict[str, str]) -> int:
    if jit := given.get("jitconfig"):
        found = json.loads(base64.b64decode(jit))
        save(found["url"], found, found["name"], found.get("work", "_work"), ephemeral=True, updates=True)
    if not (TOP / ".runner").exists():
        say("Not configured. Run config.(sh/cmd) to configure the runner.")
        return TERMINATED
    try:
        return Listening().run()
    except Refused as no:
        if no.status == 404:
            say("Failed to create a session. The runner registration has been deleted from the server.")
            return TERMINATED
        say(str(no))
        if no.status == 426:
            wanted = os.environ.get("ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE") == "1"
            return DEPRECATED if wanted else TERMINATED
        return CONFLICT if no.status == 409 else TERMINATED


def main(arguments: list[str]) -> int:
    command, *rest = arguments
    load_environment()
    if trouble := closed():
        print(f"An error occurred: {trouble}")
        return TERMINATED
    given = options(rest)
    if "version" in given:
        print(version())
        return OK
    try:
        return {"configure": configure, "remove": remove, "run": run}[command](given)
    except Refused as no:
        say(f"Http response code: {no.status} from 'POST {no.word}'")
        say(str(no))
        return TERMINATED
    except Away as exc:
        say(f"Runner connect error: {exc}. Retrying until reconnected.")
        return RETRY if command == "run" else TERMINATED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
