"""Extended attributes and access lists that a job leaves on directories that outlive it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from agent.cleaning.test_clean import NOTHING, Instance, instance, verify
from bullpen.agent.cleaning.clean import VerifiedClean

__all__ = ["instance"]

DEFAULT = "system.posix_acl_default"
ACCESS = "system.posix_acl_access"
OWNER, USER, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
NOT_NAMED = 0xFFFFFFFF


def access_list(user: int, *, mask: int = 7) -> bytes:
    """Everything for the owner and for one more user, as far as the mask lets it, and nothing for the others."""
    entries = [(OWNER, 7, NOT_NAMED), (USER, 7, user), (GROUP, 0, NOT_NAMED), (MASK, mask, NOT_NAMED)]
    packed = (struct.pack("<HHI", *entry) for entry in (*entries, (OTHER, 0, NOT_NAMED)))
    return struct.pack("<I", 2) + b"".join(packed)


def leave(directory: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(directory, name, value)
    except OSError as failure:
        pytest.skip(f"this file system has no {name}: {failure.strerror}")


@pytest.mark.parametrize(
    ("name", "value"), [("user.left", b"by a job"), (DEFAULT, access_list(3_000_000)), (ACCESS, access_list(7, mask=0))]
)
def test_what_a_job_leaves_on_directories_that_stay_goes(instance: Instance, name: str, value: bytes) -> None:
    kept = instance.home / ".cache" / "pip"
    kept.mkdir(parents=True)
    stay = (instance.work, instance.home / ".config", instance.home / ".cache")
    for directory in (*stay, kept):
        directory.chmod(0o700)
    instance.boot()
    for directory in (*stay, kept):
        leave(directory, name, value)
    assert f"work was changed: {name}" in verify(instance.baseline, NOTHING)
    assert instance.clean("home/.cache/pip") == VerifiedClean()
    assert [os.listxattr(directory) for directory in stay] == [[], [], []]
    assert os.getxattr(kept, name) == value  # what is kept is kept with everything on it
    (instance.work / "new").mkdir(mode=0o755)
    assert os.listxattr(instance.work / "new") == []


def test_on_the_way_to_something_kept_a_directory_that_a_job_made_keeps_no_attribute(instance: Instance) -> None:
    (instance.home / ".cache" / "pip").mkdir(parents=True)
    leave(instance.home / ".cache", "user.left", b"by a job")
    assert instance.clean("home/.cache/pip") == VerifiedClean()
    assert os.listxattr(instance.home / ".cache") == []


def test_attributes_of_the_baseline_are_brought_back(instance: Instance) -> None:
    leave(instance.home, "user.boot", b"as it was")
    leave(instance.work, "user.boot", b"as it was")
    instance.boot()
    os.setxattr(instance.home, "user.boot", b"changed")
    os.removexattr(instance.work, "user.boot")
    assert instance.clean() == VerifiedClean()
    assert [os.getxattr(place, "user.boot") for place in (instance.home, instance.work)] == [b"as it was"] * 2


def test_one_that_resists_makes_the_instance_dirty(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(instance.work, "user.left", b"by a job")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("bullpen.agent.cleaning.attributes.os.removexattr", refuse)
    reasons = instance.reasons()
    assert "work could not be cleaned: operation not permitted" in reasons
    assert "work was changed: user.left" in reasons


def test_an_attribute_on_a_file_of_the_baseline_makes_the_instance_dirty(instance: Instance) -> None:
    leave(instance.home / ".config" / "tool", "user.left", b"by a job")
    assert instance.reasons() == "home/.config/tool was changed: changed"
