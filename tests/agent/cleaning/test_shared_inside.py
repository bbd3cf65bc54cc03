"""What the jobs' user had at boot in directories of all users: looked at again inside, after each run."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.test_job_user import after, cleaned, config, crontab, docker, ground, user
from agent.test_tasks import booted
from bullpen.agent.account import Account, account_of
from bullpen.agent.cleaning import shared_dirs
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.shared_dirs import SharedPlaces
from bullpen.agent.cleaning.slices import CannotSettle
from bullpen.agent.config import Config
from bullpen.agent.progress import Phase
from bullpen.agent.tasks import Tasks

__all__ = ["config", "crontab", "docker", "ground", "user"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can have files of other users")


@pytest.fixture
def account(user: str) -> Account:
    return account_of(user)


@pytest.fixture
def place(ground: Path, account: Account) -> Path:
    """With a directory of the user's, and a file in it that is root's."""
    (place := ground / "shared").mkdir()
    (place / "had").mkdir()
    (place / "had" / "file").write_text("as it was")
    (place / "had" / "of-root").write_text("as it was")
    for path in (place / "had", place / "had" / "file"):
        os.chown(path, account.user, account.group)
    return place


@pytest.fixture(params=[True, False], ids=["shared", "alone"])
def places(place: Path, account: Account, request: pytest.FixtureRequest) -> SharedPlaces:
    return SharedPlaces(account, [], [str(place)], shares_machine=request.param)


def found(places: SharedPlaces) -> list[str]:
    return [said for said in places.differences(KeepList()) if isinstance(said, str)]


def swept(places: SharedPlaces) -> list[str]:
    """What is found once all is removed that can be."""
    for _ in places.sweep(KeepList(), {}):
        pass
    return found(places)


def test_what_is_as_it_was_is_no_difference(places: SharedPlaces, place: Path) -> None:
    assert found(places) == swept(places) == []
    assert sorted(path.name for path in place.rglob("*")) == ["file", "had", "of-root"]


def test_what_a_job_adds_inside_goes_also_if_another_user_owns_it(
    places: SharedPlaces, place: Path, account: Account
) -> None:
    (place / "had" / "new" / "deeper").mkdir(parents=True)
    (place / "had" / "new" / "deeper" / "file").touch()
    (place / "had" / "planted").touch()
    os.chown(place / "had" / "planted", account.user, account.group)
    assert len(found(places)) == 2
    assert swept(places) == []
    assert sorted(path.name for path in place.rglob("*")) == ["file", "had", "of-root"]


def test_what_a_job_changes_inside_cannot_be_brought_back(places: SharedPlaces, place: Path) -> None:
    (place / "had" / "file").write_text("As It Was")
    (place / "had" / "of-root").unlink()
    assert swept(places) == [
        f"{place}/had/file was changed: modified, changed",
        f"{place}/had/of-root is missing",
    ]


def test_what_a_job_puts_in_its_stead_is_a_difference(places: SharedPlaces, place: Path, account: Account) -> None:
    for path in (place / "had" / "file", place / "had" / "of-root"):
        path.unlink()
    (place / "had").rmdir()
    (place / "had").symlink_to("/elsewhere")
    os.chown(place / "had", account.user, account.group, follow_symlinks=False)
    assert swept(places)[0].startswith(f"{place}/had was changed: mode")


def test_an_attribute_on_a_directory_is_a_difference(places: SharedPlaces, place: Path) -> None:
    try:
        os.setxattr(place / "had", "user.left", b"by a job")
    except OSError:
        pytest.skip("this file system has no attributes")
    assert swept(places) == [f"{place}/had was changed: user.left"]


def test_a_mount_on_a_directory_of_the_user_s_is_a_difference_also_if_it_was_there_at_boot(
    place: Path, account: Account
) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", f"-ouid={account.user}", "none", place / "had"]).returncode != 0:
        pytest.skip("cannot mount here: needs root")
    try:
        said = swept(SharedPlaces(account, [], [str(place)]))
        assert said == [f"{place}/had cannot be read: something is mounted there"]
    finally:
        subprocess.run(["umount", place / "had"], check=True)


def test_more_than_can_be_looked_through_fails_the_boot(
    place: Path, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_dirs, "MOST", 2)
    with pytest.raises(CannotSettle, match=f"{account.name} has more than 2 files .* {place}"):
        SharedPlaces(account, [], [str(place)])


def test_a_boot_with_more_than_that_says_so(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_dirs, "MOST", 2)
    account, place = account_of(config.runner_user), config.home / "shared"
    script = f"touch {place}/a {place}/b {place}/c; chown {account.user} {place}/*"
    boot = booted(Tasks(replace(config, pre_runner_script=script), print)).boot
    assert boot.phase is Phase.FAILED
    assert boot.text.startswith(f"user {account.name} has more than 2 files")


def test_a_job_that_changes_what_the_script_left_there_makes_the_instance_dirty(config: Config) -> None:
    account, place = account_of(config.runner_user), config.home / "shared"
    script = f"mkdir {place}/had; echo boot >{place}/had/file; chown -R {account.user} {place}/had"
    _, code, tasks, progress = after(replace(config, pre_runner_script=script), f"touch {place}/had/new")
    outcome = cleaned(tasks, progress)
    assert (code, outcome.phase, outcome.text) == (0, Phase.DONE, "")
    assert [path.name for path in (place / "had").iterdir()] == ["file"]
    (place / "had" / "file").write_text("poisoned")
    outcome = cleaned(tasks, progress)
    assert outcome.phase is Phase.FAILED
    assert f"{place}/had/file was changed" in outcome.text
