"""Processes that the pre-runner script left running: spared by the cleaning, unless they run as the jobs' user."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.test_job_user import after, cleaned, config, crontab, docker, ground, user
from agent.test_tasks import booted, checked
from bullpen.agent import job_user
from bullpen.agent.account import account_of
from bullpen.agent.config import Config
from bullpen.agent.progress import Phase
from bullpen.agent.tasks import Tasks
from bullpen.host.processes import identify

__all__ = ["config", "crontab", "docker", "ground", "user"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user")]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_user, "LEFT_WITHIN", 0.2)


def daemon(script: str, note: Path) -> str:
    """A line of a pre-runner script that leaves this Python running, whose pid is in `note` once the line is over."""
    program = f"import os, time; open('{note}', 'w').write(str(os.getpid())); {script}; time.sleep(600)"
    left = f'setsid --fork {sys.executable} -I -S -c "{program}" </dev/null >/dev/null 2>&1'
    return f"{left}; until [ -s {note} ]; do sleep 0.01; done"


@pytest.mark.parametrize("shares", [True, False])
def test_a_process_that_the_script_leaves_as_the_jobs_user_fails_the_boot(config: Config, shares: bool) -> None:
    note = config.home / "note"
    script = daemon(f"os.setuid({account_of(config.runner_user).user})", note)
    boot = booted(Tasks(replace(config, shares_machine=shares, pre_runner_script=script), print)).boot
    assert boot.phase is Phase.FAILED
    assert f"process {note.read_text()} (python" in boot.text
    assert f"runs as {config.runner_user}, the user of the jobs" in boot.text


def test_a_process_that_ends_soon_after_the_script_does_not_fail_the_boot(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_user, "LEFT_WITHIN", 30.0)
    account = account_of(config.runner_user)
    script = daemon(f"os.setuid({account.user}); time.sleep(0.3); os._exit(0)", config.home / "note")
    boot = booted(Tasks(replace(config, pre_runner_script=script), print)).boot
    assert (boot.phase, boot.text) == (Phase.DONE, "")


@pytest.mark.parametrize("shares", [True, False])
def test_a_process_of_the_script_stays_until_it_becomes_the_jobs_user(config: Config, shares: bool) -> None:
    note, turn = config.home / "note", config.home / "turn"
    turns = f"[time.sleep(0.01) for _ in iter(lambda: os.path.exists('{turn}'), True)]"
    script = daemon(f"{turns}; os.setuid({account_of(config.runner_user).user})", note)
    _, _, tasks, progress = after(replace(config, shares_machine=shares, pre_runner_script=script), "true")
    process = identify(int(note.read_text()))
    assert process is not None
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text) == (Phase.DONE, "")
    assert identify(process.pid) == process
    turn.touch()
    checked(tasks, progress, lambda _: os.stat(f"/proc/{process.pid}").st_uid != 0)
    outcome = cleaned(tasks, progress)
    assert (outcome.phase, outcome.text) == (Phase.DONE, "")
    assert identify(process.pid) != process
