"""A whole directory removed, whatever a job has put into it."""

import os
from pathlib import Path

import pytest

from bullpen.host.sweep import remove_tree


@pytest.fixture
def condemned(tmp_path: Path) -> Path:
    """A directory to be removed, beside one that must stay."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("mine")
    directory = tmp_path / "condemned"
    directory.mkdir()
    return directory


def dig(top: Path, levels: int) -> None:
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        fd = below
    os.close(fd)


@pytest.mark.slow
def test_a_tree_deeper_than_the_stack_is_removed(condemned: Path) -> None:
    dig(condemned, 5000)
    assert remove_tree(condemned) == {}
    assert sorted(os.listdir(condemned.parent)) == ["outside"]


def test_what_a_job_locked_against_itself_is_removed(condemned: Path) -> None:
    (condemned / "locked" / "inner").mkdir(parents=True)
    (condemned / "locked" / "inner" / "file").touch()
    for directory in (condemned / "locked" / "inner", condemned / "locked", condemned):
        directory.chmod(0)
    assert remove_tree(condemned) == {}
    assert not condemned.exists()


def test_a_link_inside_is_removed_and_what_it_leads_to_stays(condemned: Path) -> None:
    (condemned / "link").symlink_to(condemned.parent / "outside")
    assert remove_tree(condemned) == {}
    assert (condemned.parent / "outside" / "precious").read_text() == "mine"


def test_a_link_in_the_place_of_the_directory_is_removed_and_what_it_leads_to_stays(condemned: Path) -> None:
    condemned.rmdir()
    condemned.symlink_to(condemned.parent / "outside")
    assert remove_tree(condemned) == {}
    assert not condemned.is_symlink()
    assert (condemned.parent / "outside" / "precious").read_text() == "mine"


def test_a_directory_that_is_gone_is_no_error(condemned: Path) -> None:
    condemned.rmdir()
    assert remove_tree(condemned) == {}
    assert remove_tree(condemned / "below") == {}


def test_what_resists_is_named_with_the_reason_and_the_rest_is_removed(
    condemned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (condemned / "immutable").touch()
    (condemned / "other").touch()
    unlink = os.unlink

    def refuse(path: str, *, dir_fd: int) -> None:
        if path == "immutable":
            raise PermissionError(1, "Operation not permitted")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    assert remove_tree(condemned) == {"condemned/immutable": "operation not permitted"}
    assert os.listdir(condemned) == ["immutable"]


def test_few_files_are_open_at_once(condemned: Path) -> None:
    dig(condemned, 200)
    most = 0
    opened = os.open

    def count(*args: object, **more: object) -> int:
        nonlocal most
        most = max(most, len(os.listdir("/proc/self/fd")))
        return opened(*args, **more)  # type: ignore[arg-type]

    before = len(os.listdir("/proc/self/fd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", count)
        assert remove_tree(condemned) == {}
    assert most - before < 40  # many threads remove trees at once
