"""What the user of jobs may read and change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.github.fixtures import a_ground
from bullpen.agent.account import Account, may_change, obstacle, settle_in

ABSENT_USER = Account("runner", 3_000_000, 3_000_000, (3_000_000, 3_000_001))


@pytest.fixture
def ground() -> Iterator[Path]:
    with a_ground() as ground:
        yield ground


@pytest.mark.parametrize(("mode", "is_open"), [(0o755, True), (0o711, False), (0o744, False), (0o700, False)])
def test_a_directory_on_the_way_must_let_itself_be_read_and_passed(ground: Path, mode: int, is_open: bool) -> None:
    (ground / "home" / "instances").mkdir(parents=True)
    (ground / "home").chmod(mode)
    found = obstacle(ABSENT_USER, ground / "home" / "instances")
    assert found == (None if is_open else ground / "home")


@pytest.mark.parametrize(
    ("mode", "user", "group", "may"),
    [
        (0o755, 0, 0, False),
        (0o775, 0, 0, False),
        (0o775, 0, 3_000_001, True),
        (0o757, 0, 0, True),
        (0o555, 3_000_000, 0, True),
    ],
)
def test_who_owns_something_or_may_write_to_it_can_change_it(mode: int, user: int, group: int, may: bool) -> None:
    assert may_change(ABSENT_USER, os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))) is may


def test_a_file_may_vanish_while_the_places_are_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the pre-runner script left may remove what it made."""
    place = tmp_path / "tmp"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "cache.tmp").touch()
    given = []

    def chown(path: Path, *more: object, **options: object) -> None:
        given.append(Path(path))
        if Path(path) == place / "deep":
            (place / "deep" / "cache.tmp").unlink(missing_ok=True)
        Path(path).lstat()  # as chown, which needs the file

    monkeypatch.setattr(os, "chown", chown)
    settle_in(ABSENT_USER, tmp_path, [place])
    assert given == [tmp_path, place, place / "deep"]
