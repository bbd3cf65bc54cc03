"""What cron, at and logind would do for the jobs' user after its jobs: none of it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bullpen.agent.account import Account
from bullpen.agent.cleaning.crontabs import UserCrontabs
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.host import scheduled_jobs
from bullpen.host.scheduled_jobs import SECOND, SPOOLS

JOBS = Account("runner", os.geteuid(), os.getegid(), ())  # this process's own user, so that root is not needed
ABSENT_USER = Account("runner", 4_000_000_000, 4_000_000_000, ())


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scheduled_jobs, "SPOOLS", tuple(f"{tmp_path}{spool}" for spool in SPOOLS))
    for spool in SPOOLS:
        (tmp_path / spool[1:]).mkdir(parents=True, exist_ok=True)
    return tmp_path


def files(root: Path) -> list[str]:
    return sorted(f"/{path.relative_to(root)}" for path in root.rglob("*") if not path.is_dir())


def swept(found: UserCrontabs) -> dict[str, str]:
    troubles: dict[str, str] = {}
    for _ in found.sweep(KeepList(), troubles):
        pass
    return troubles


def test_what_has_the_name_of_the_user_goes_also_if_another_user_owns_it_and_what_others_have_stays(root: Path) -> None:
    theirs = ["/var/spool/cron/crontabs/runner", "/var/spool/cron/runner", "/var/lib/systemd/linger/runner"]
    others = ["/var/spool/cron/crontabs/root", "/var/lib/systemd/linger/runner-2", "/var/spool/at/a0000101c3f1e4"]
    for path in (*theirs, *others):
        (root / path[1:]).touch()
    assert [
        said for said in UserCrontabs(ABSENT_USER).differences(KeepList()) if str(said).endswith("left behind")
    ] == [f"{root}{path} was left behind" for path in (theirs[0], theirs[1], theirs[2])]
    assert swept(UserCrontabs(ABSENT_USER)) == {}
    assert files(root) == sorted(others)
    assert list(UserCrontabs(ABSENT_USER).differences(KeepList())) == []


@pytest.mark.parametrize("spool", SPOOLS)
def test_what_the_user_owns_goes_whatever_its_name_and_wherever_a_daemon_keeps_it(root: Path, spool: str) -> None:
    (root / spool[1:] / "a0000101c3f1e4").touch()
    (root / spool[1:] / "tmp.Xq2").symlink_to(root / "etc")
    assert swept(UserCrontabs(JOBS)) == {}
    assert files(root) == []


def test_a_machine_without_such_daemons_has_nothing_to_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_jobs, "SPOOLS", (str(tmp_path / "none"),))
    assert (swept(UserCrontabs(JOBS)), list(UserCrontabs(JOBS).differences(KeepList()))) == ({}, [])


def test_cron_notices_even_if_it_has_read_the_table_in_this_very_second(root: Path) -> None:
    spool = root / "var/spool/cron/crontabs"
    (spool / "runner").touch()
    seen = spool.stat().st_mtime_ns // SECOND
    UserCrontabs(ABSENT_USER).stop()
    assert spool.stat().st_mtime_ns // SECOND > seen


def test_where_nothing_was_removed_no_time_is_changed(root: Path) -> None:
    before = {spool: (root / spool[1:]).stat().st_mtime_ns for spool in SPOOLS}
    UserCrontabs(ABSENT_USER).stop()
    assert {spool: (root / spool[1:]).stat().st_mtime_ns for spool in SPOOLS} == before


def test_what_resists_is_named_and_found_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "var/spool/cron/crontabs/runner"
    path.touch()

    def refuse(path: str) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr("bullpen.host.scheduled_jobs.os.unlink", refuse)
    assert swept(UserCrontabs(JOBS)) == {str(path): "operation not permitted"}
    assert list(UserCrontabs(JOBS).differences(KeepList())) == [f"{path} was left behind"]
