"""After a cleaning that renews them, places are other directories: a descriptor that a job passed on leads nowhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.cleaning.test_clean import Instance, everything_below, instance, verdict_of
from bullpen.agent.cleaning.clean import Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList

__all__ = ["instance"]

PLACES = ("work", "home", "temp")


def renewed(instance: Instance, *keep: str) -> VerifiedClean | Dirty:
    verdict = verdict_of(clean(instance.baseline, KeepList.of(keep), renews=PLACES))
    if isinstance(verdict, VerifiedClean):
        assert verdict.baseline is not None
        instance.baseline = verdict.baseline
    return verdict


@pytest.fixture
def held() -> Iterator[list[int]]:
    """Descriptors that a process of another instance has."""
    descriptors: list[int] = []
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_directory_that_was_passed_on_is_not_the_next_run_s(instance: Instance, held: list[int]) -> None:
    (instance.temp / "of-a-job").mkdir()
    directories = (instance.work, instance.home, instance.home / ".config", instance.temp)
    held += [os.open(directory, os.O_RDONLY) for directory in directories]
    assert renewed(instance) == VerifiedClean()
    for directory in directories:
        (directory / "of-the-next-run").touch()
    assert [os.listdir(descriptor) for descriptor in held] == [[], [], [], []]
    for descriptor in held:
        with pytest.raises(FileNotFoundError):
            os.open("planted", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor)
    assert renewed(instance) == VerifiedClean()
    assert everything_below(instance.home) == [".config", ".config/tool"]


def test_a_file_of_boot_that_was_passed_on_is_not_the_next_run_s(instance: Instance, held: list[int]) -> None:
    tool = instance.home / ".config" / "tool"
    tool.chmod(0o4751)
    os.utime(tool, ns=(1, 2))
    with suppress(OSError):  # not every file system has them
        os.setxattr(tool, "user.boot", b"as it was")
    before = tool.stat()
    instance.boot()
    held.append(os.open(tool, os.O_RDWR))
    assert renewed(instance) == VerifiedClean()
    os.pwrite(held[0], b"planted", 0)
    assert tool.read_text() == "set up at boot"
    after, kinds = tool.stat(), ("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns")
    assert [getattr(after, kind) for kind in kinds] == [getattr(before, kind) for kind in kinds]
    assert {name: os.getxattr(tool, name) for name in os.listxattr(tool)}.get("user.boot", b"as it was") == b"as it was"
    tool.write_text("changed")
    assert isinstance(renewed(instance), Dirty)


def test_what_the_last_run_changed_is_not_taken_over(instance: Instance) -> None:
    (instance.home / ".config" / "tool").write_text("poisoned")
    before = instance.home.stat()
    verdict = renewed(instance)
    assert isinstance(verdict, Dirty)
    assert verdict.reasons == ("home/.config/tool was changed: size, modified, changed",)
    assert instance.home.stat().st_ino == before.st_ino


def test_links_sockets_modes_and_attributes_of_boot_are_as_they_were(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    (instance.home / "link").symlink_to("/no/where")
    instance.work.chmod(0o2750)
    with suppress(OSError):
        os.setxattr(instance.work, "user.boot", b"as it was")
    attributes = os.listxattr(instance.work)
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        monkeypatch.chdir(instance.temp)  # the path of a socket must be short
        listener.bind("socket")
        listener.listen()
        instance.boot()
        assert renewed(instance) == VerifiedClean()
        monkeypatch.chdir(instance.temp)
        caller.connect("socket")
    assert (instance.home / "link").readlink() == Path("/no/where")
    assert (instance.work.stat().st_mode & 0o7777, os.listxattr(instance.work)) == (0o2750, attributes)


def test_what_is_kept_moves_over_as_it_is_and_the_way_to_it_is_new(instance: Instance, held: list[int]) -> None:
    wheel = instance.home / ".cache" / "pip" / "wheel"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    kept = wheel.stat()
    held.append(os.open(wheel.parents[1], os.O_RDONLY))
    assert renewed(instance, "home/.cache/pip") == VerifiedClean()
    assert (wheel.stat().st_ino, os.listdir(held[0])) == (kept.st_ino, [])
    assert renewed(instance) == VerifiedClean()
    assert everything_below(instance.home) == [".config", ".config/tool"]


def test_a_file_of_boot_that_is_kept_and_not_changed_is_still_the_boot_s(instance: Instance) -> None:
    assert renewed(instance, "home/.config/tool") == VerifiedClean()
    assert renewed(instance) == VerifiedClean()
    (instance.home / ".config" / "tool").write_text("changed")
    assert renewed(instance, "home/.config/tool") == VerifiedClean()
    assert isinstance(renewed(instance), Dirty)


def test_it_yields_while_it_copies(instance: Instance) -> None:
    with open(instance.home / "large", "wb") as large:
        large.truncate(64 * 1024 * 1024)
    instance.boot()
    before = len([*clean(instance.baseline, KeepList())])
    assert len([*clean(instance.baseline, KeepList(), renews=PLACES)]) > before + 10


@pytest.mark.parametrize("keep", [(), ("home/.cache",)])
def test_files_of_boot_with_several_names_are_taken_over(instance: Instance, keep: tuple[str, ...]) -> None:
    directory, tool = instance.home.parent, instance.home / ".config" / "tool"
    names = ("home/.cache/tool", "home/again", "work/tool")
    for name in names:
        (directory / name).parent.mkdir(exist_ok=True)
        os.link(tool, directory / name)
    instance.boot()
    assert renewed(instance, *keep) == VerifiedClean()
    assert renewed(instance) == VerifiedClean()
    assert {(directory / name).read_text() for name in names} == {"set up at boot"}
    (instance.home / "again").write_text("changed")
    assert isinstance(renewed(instance), Dirty)


@pytest.mark.parametrize("answer", [0, OSError("not here")])
def test_a_file_system_that_cannot_copy_by_itself_costs_no_content(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, answer: int | OSError
) -> None:
    def copy_file_range(*_: int) -> int:
        if isinstance(answer, OSError):
            raise answer
        return answer  # as some kernels do, instead of an error

    monkeypatch.setattr(os, "copy_file_range", copy_file_range)
    assert renewed(instance) == VerifiedClean()
    assert (instance.home / ".config" / "tool").read_text() == "set up at boot"
