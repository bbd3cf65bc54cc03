"""A user's mount (FUSE) in a directory of all users, which no other user can read, not even root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent.cleaning.test_clean import verify
from bullpen.agent.account import Account
from bullpen.agent.cleaning.baseline import take_baseline
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.shared_dirs import SharedPlaces

JOBS = Account("runner", 3_000_000, 3_000_000, ())
ANOTHER = 3_000_001
MOUNT = ".mount App"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a mount of another user's."""
    (place := tmp_path / "shared").mkdir()
    (place / MOUNT).mkdir()
    really = os.stat

    def stat(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if path == MOUNT:
            raise PermissionError(13, "Permission denied", path)
        return really(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr("bullpen.agent.cleaning.baseline.os.stat", stat)
    monkeypatch.setattr("bullpen.agent.cleaning.shared_dirs.MOUNTS", str(tmp_path / "mounts"))
    mounted_by(ANOTHER, place)
    return place


def mounted_by(user: int, place: Path) -> None:
    point = str(place / MOUNT).replace(" ", "\\040")
    options = f"rw,user_id={user},group_id={user}"
    (place.parent / "mounts").write_text(f"72 29 0:53 / {point} rw,nosuid,nodev - fuse.app app {options}\n")


def found(places: SharedPlaces) -> list[str]:
    return [said for said in places.differences(KeepList()) if isinstance(said, str)]


@pytest.mark.parametrize("empty", [True, False])
def test_on_a_shared_machine_it_is_another_s_and_hides_nothing_of_the_user_s(place: Path, empty: bool) -> None:
    places = SharedPlaces(JOBS, [], [str(place)], shares_machine=True, empty=empty)
    assert found(places) == []


def test_on_a_shared_machine_one_of_the_user_s_is_a_difference(place: Path) -> None:
    places = SharedPlaces(JOBS, [], [str(place)], shares_machine=True)
    mounted_by(JOBS.user, place)
    assert found(places) == [f"{place}/{MOUNT} cannot be read: permission denied"]


def test_on_an_unshared_machine_it_is_a_difference_unless_it_was_there_at_boot(place: Path) -> None:
    assert found(SharedPlaces(JOBS, [], [str(place)])) == []
    assert found(SharedPlaces(JOBS, [], [str(place)], empty=True)) == [
        f"{place}/{MOUNT} cannot be read: permission denied"
    ]


def test_in_a_place_of_the_instance_it_is_a_difference_also_if_it_was_there_at_boot(place: Path) -> None:
    baseline = take_baseline({"work": place}, "no mark")
    said = [one for one in verify(baseline, KeepList()) if not one.startswith("process ")]
    assert said == [f"work/{MOUNT} cannot be read: permission denied"]
