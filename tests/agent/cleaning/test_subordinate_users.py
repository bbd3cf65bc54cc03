"""What has a subordinate user id of the jobs' user is the jobs': files, processes, queues."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cleaning.test_sysv_ipc import made_by
from agent.test_job_user import after, cleaned, config, crontab, docker, ground, user
from bullpen.agent.account import account_of, may_change
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.sysv_ipc import SystemV
from bullpen.agent.config import Config
from bullpen.agent.progress import Phase
from bullpen.host import subordinate_ids
from bullpen.host.processes import identify

__all__ = ["config", "crontab", "docker", "ground", "user"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")]

FIRST = 3_999_000_000


@pytest.fixture(autouse=True)
def ids(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "subuid").write_text(f"{user}:{FIRST}:65536\n")
    monkeypatch.setattr(subordinate_ids, "FILE", str(tmp_path / "subuid"))


@pytest.mark.parametrize("shares", [True, False])
def test_files_of_subordinate_users_go_wherever_they_are(config: Config, shares: bool) -> None:
    place = config.home / "shared"
    _, _, tasks, progress = after(replace(config, shares_machine=shares), "true")
    (place / "directory").mkdir(mode=0o700)
    (place / "directory" / "file").touch()
    (place / "file").touch()
    (config.directory / "work" / "file").touch()
    for path in (place / "directory", place / "directory" / "file", place / "file", config.directory / "work" / "file"):
        os.chown(path, FIRST + 7, FIRST + 7)
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text) == (Phase.DONE, "")
    assert [*place.iterdir(), *(config.directory / "work").iterdir()] == []


@pytest.mark.parametrize("shares", [True, False])
def test_a_process_of_a_subordinate_user_is_ended(config: Config, shares: bool) -> None:
    _, _, tasks, progress = after(replace(config, shares_machine=shares), "true")
    command = [
        "setsid",
        "--fork",
        "env",
        "-i",
        "setpriv",
        f"--reuid={FIRST + 7}",
        "sh",
        "-c",
        "echo $$; exec sleep 600 >&-",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        left = identify(int(process.stdout.readline()))
    assert left is not None
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text) == (Phase.DONE, "")
    assert identify(left.pid) != left


def test_a_queue_of_a_subordinate_user_goes(user: str) -> None:
    aspect = SystemV(account_of(user).user)
    left = made_by(FIRST + 7, "queue")
    assert list(aspect.differences(KeepList())) == [f"System V queue {left} was left behind"]
    for _ in aspect.sweep(KeepList(), {}):
        pass
    assert list(aspect.differences(KeepList())) == []


def test_what_a_subordinate_user_owns_the_jobs_can_change(user: str) -> None:
    status = os.stat_result((0o100600, 0, 0, 1, FIRST, FIRST, 0, 0, 0, 0))
    assert may_change(account_of(user), status)


def test_a_user_that_shares_its_subordinate_users_cannot_run_jobs(user: str, tmp_path: Path) -> None:
    with open(tmp_path / "subuid", "a", encoding="utf-8") as file:
        file.write(f"{FIRST + 9}:{FIRST + 65_535}:10\n")
    with pytest.raises(ValueError, match=f"user ids {FIRST + 65_535} to {FIRST + 65_535} to {FIRST + 9} as well"):
        account_of(user)
