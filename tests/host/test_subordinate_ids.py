"""Which user ids /etc/subuid makes a user's."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from bullpen.host import subordinate_ids
from bullpen.host.subordinate_ids import shared_by, uids_of

USER, OTHER = 4_000_000, 4_000_001


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(subordinate_ids, "FILE", str(tmp_path / "subuid"))
    return tmp_path / "subuid"


def test_without_the_file_a_user_has_its_own_id_only(file: Path) -> None:
    assert USER in uids_of(USER)
    assert uids_of(USER).ranges == ()
    assert shared_by(USER) is None


def test_ranges_are_given_by_name_or_by_number(file: Path) -> None:
    me = pwd.getpwall()[-1]
    file.write_text(f"{USER}:5000000:10\n{me.pw_name}:6000000:65536\nno-such-user:7000000:65536\n")
    assert [uid for uid in (USER, OTHER, 4_999_999, 5_000_000, 5_000_009, 5_000_010) if uid in uids_of(USER)] == [
        USER,
        5_000_000,
        5_000_009,
    ]
    assert 6_065_535 in uids_of(me.pw_uid)
    assert 7_000_000 not in uids_of(me.pw_uid)


@pytest.mark.parametrize("line", ["", "#", "x", f"{USER}", f"{USER}:a:b", f"{USER}:-5:10", f"{USER}::", "::"])
def test_what_is_no_range_is_none(file: Path, line: str) -> None:
    file.write_text(f"{line}\n{USER}:5000000:1\n")
    assert uids_of(USER).ranges == (range(5_000_000, 5_000_001),)


def test_root_and_real_users_are_subordinates_of_no_user(file: Path) -> None:
    file.write_text(f"{USER}:0:5000000\n")
    found = uids_of(USER)
    assert [one.pw_name for one in pwd.getpwall() if one.pw_uid in found] == []
    assert 4_999_999 in found


def test_ids_that_two_users_have_are_neither_s_and_named(file: Path) -> None:
    file.write_text(f"{USER}:5000000:100\n{OTHER}:5000050:100\n{OTHER}:5000010:5\n")
    assert uids_of(USER).ranges == (range(5_000_000, 5_000_010), range(5_000_015, 5_000_050))
    assert shared_by(USER) == (str(OTHER), range(5_000_050, 5_000_100))
    assert shared_by(3_999_999) is None
