"""What a job has done to the files of a registration is undone before config.sh reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.agent.account import Account
from bullpen.agent.config import Config
from bullpen.agent.github.install import RegistrationFiles
from bullpen.agent.github.runner import Actions
from bullpen.host import scheduled_jobs

PROGRAMS = ("config.sh", "bin")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name in ("config.sh", ".runner", ".credentials", ".credentials_rsaparams", "bin/listener"):
        (tmp_path / name).write_text(name)
    return tmp_path


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_files_that_a_job_changed_or_removed_are_as_they_were(directory: Path) -> None:
    before, registration = contents(directory), RegistrationFiles(directory)
    (directory / ".runner").write_text("another runner")
    (directory / ".credentials").unlink()
    registration.bring_back(directory, PROGRAMS, None)
    assert contents(directory) == before


def test_whatever_a_job_added_is_gone(directory: Path) -> None:
    before, registration = contents(directory), RegistrationFiles(directory)
    (directory / ".env").write_text("https_proxy=http://elsewhere")
    (directory / "_diag").mkdir()
    (directory / "_diag" / "log").touch()
    registration.bring_back(directory, PROGRAMS, None)
    assert contents(directory) == before


def test_nothing_is_written_through_what_a_job_put_there(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "file"
    elsewhere.write_text("precious")
    before, registration = contents(directory), RegistrationFiles(directory)
    (directory / ".runner").unlink()
    (directory / ".runner").symlink_to(elsewhere)
    (directory / ".credentials").unlink()
    (directory / ".credentials").mkdir()
    registration.bring_back(directory, PROGRAMS, None)
    assert contents(directory) == before
    assert elsewhere.read_text() == "precious"


def test_what_a_daemon_would_start_for_jobs_goes_before_what_they_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runner := tmp_path / "runner").mkdir()
    (spool := tmp_path / "crontabs").mkdir()
    (crontab := spool / "runner").touch()
    monkeypatch.setattr(scheduled_jobs, "SPOOLS", (str(spool),))
    when_ending: list[bool] = []
    monkeypatch.setattr("bullpen.agent.github.runner.end_tree", lambda *_, **__: when_ending.append(crontab.exists()))
    config = Config("i-1", tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, ())
    actions = Actions(config, Account("runner", 3_000_000, 3_000_000, ()), print)
    assert actions._undo(RegistrationFiles(runner)) == ""
    assert when_ending == [False]
