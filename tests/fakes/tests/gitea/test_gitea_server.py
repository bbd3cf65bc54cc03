"""The real Gitea as a process of the tests: who it is, what it keeps, and that it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fakes.gitea.api import GiteaRepository, GiteaUser
from fakes.gitea.child import GiteaProcess
from fakes.gitea.server import GiteaServer, serving_gitea
from fakes.gitea.waiting import until
from fakes.java_engines import listening_elsewhere
from fakes.peers import GITEA_VERSION
from fakes.tests.gitea.workflows import waiting

TESTS = Path(__file__).parents[3]


def test_it_is_the_pinned_version_and_listens_on_loopback_only(gitea: GiteaServer) -> None:
    assert gitea.admin.get("/version") == {"version": GITEA_VERSION}
    assert listening_elsewhere(gitea.pid) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="it runs as we do")
def test_it_does_not_run_as_root(gitea: GiteaServer) -> None:
    status = Path(f"/proc/{gitea.pid}/status").read_text()
    ids = dict(line.split(":\t", 1) for line in status.splitlines())
    assert "0" not in (ids["Uid"] + "\t" + ids["Gid"]).split("\t")
    assert ids["Groups"].strip() == ""


def test_a_server_that_was_killed_starts_again_with_all_that_it_had(
    gitea: GiteaServer, gitea_repository: GiteaRepository
) -> None:
    run, job = waiting(gitea_repository, "true")
    gitea.kill()
    gitea.start()
    assert [one["id"] for one in gitea_repository.runs()] == [run["id"]]
    assert gitea_repository.job_that(run["id"], "build")["status"] == "queued"
    assert gitea_repository.job_that(run["id"], "build")["id"] == job["id"]


def test_a_server_that_is_stopped_ends_and_starts_again(gitea: GiteaServer) -> None:
    before = gitea.pid
    gitea.stop()
    gitea.start()
    assert gitea.pid != before
    assert gitea.admin.get("/user")["login"] == "operator"


def test_a_token_without_the_scope_is_refused_and_the_answer_names_the_scope(
    gitea_owner: GiteaUser, gitea_repository: GiteaRepository
) -> None:
    reader = gitea_owner.with_scopes("read:repository")
    assert reader.ask("GET", f"{gitea_repository.path}/actions/runners").status_code == 200
    refused = reader.ask("POST", f"{gitea_repository.path}/actions/runners/registration-token")
    assert refused.status_code == 403
    assert "required=[write:repository]" in refused.json()["message"]


@pytest.mark.slow
def test_a_server_without_actions_gives_out_tokens_for_runners_and_hears_none(gitea_program: Path) -> None:
    with serving_gitea(gitea_program, actions=False) as server:
        repository = server.admin.add_user("builder").add_repository("widgets")
        assert repository.registration_token()
        assert repository.caller.get(repository.path)["has_actions"] is False
        assert server.ping().status_code == 404


def test_a_server_with_actions_hears_runners(gitea: GiteaServer, gitea_repository: GiteaRepository) -> None:
    assert gitea_repository.caller.get(gitea_repository.path)["has_actions"] is True
    assert gitea.ping().json() == {"data": "Hello, tests!"}


def test_what_a_child_started_ends_with_it_and_its_id_is_not_given_away_before(tmp_path: Path) -> None:
    script = "set -m; sleep 600 & echo $! > grandchild; exit 3"  # in a process group of its own, as a runner's steps
    child = GiteaProcess(["bash", "-c", script], tmp_path, tmp_path / "log", os.environ, None)
    until(lambda: child.code is not None, "the child has ended")
    assert child.code == 3
    assert Path("/proc", str(child.pid)).exists()
    child.end()
    assert not Path("/proc", str(child.pid)).exists()
    grandchild = Path("/proc", (tmp_path / "grandchild").read_text().strip())
    until(lambda: not grandchild.exists() or "\nState:\tZ" in (grandchild / "status").read_text(), "it has ended too")


def test_a_child_ends_with_the_process_that_started_it_even_if_that_is_killed(tmp_path: Path) -> None:
    parent = f"""
        import os, signal
        from pathlib import Path
        from fakes.gitea.child import GiteaProcess
        child = GiteaProcess(["sleep", "600"], Path("/"), Path({str(tmp_path / "log")!r}), os.environ, None)
        print(child.pid, flush=True)
        signal.pause()
    """
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", textwrap.dedent(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        child = Path("/proc", process.stdout.readline().strip())
        until(lambda: b"sleep" in (child / "cmdline").read_bytes()[:6], "the child is what it was to become")
        process.send_signal(signal.SIGKILL)
    until(lambda: not child.exists() or "\nState:\tZ" in (child / "status").read_text(), "the child has ended")
