"""System V memory, queues and semaphores of the jobs' user."""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Iterator

import pytest

from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.sysv_ipc import KINDS, SHOWN, SystemV
from users import lent

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

IPC_CREAT, IPC_PRIVATE = 0o1000, 0
MAKERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "memory": ("shmget", (4096,)),
    "queue": ("msgget", ()),
    "semaphores": ("semget", (1,)),
}


@pytest.fixture
def user() -> Iterator[int]:
    with lent(1) as (name,):
        yield pwd.getpwnam(name).pw_uid


def made_by(user: int, kind: str) -> str:
    """The id of what a process of this user has made before it ended."""
    call, size = MAKERS[kind]
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setuid(user)
            os.write(writing, str(ctypes.CDLL(None)[call](IPC_PRIVATE, *size, IPC_CREAT | 0o600)).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def swept(found: SystemV) -> dict[str, str]:
    troubles: dict[str, str] = {}
    for _ in found.sweep(KeepList(), troubles):
        pass
    return troubles


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_what_the_user_leaves_is_found_and_removed_and_what_it_had_stays(user: int, kind: str) -> None:
    had = made_by(user, kind)
    aspect = SystemV(user)
    left = made_by(user, kind)
    assert list(aspect.differences(KeepList())) == [f"System V {kind} {left} was left behind"]
    assert swept(aspect) == {}
    assert list(aspect.differences(KeepList())) == []
    bare = SystemV(user, empty=True)
    assert list(bare.differences(KeepList())) == [f"System V {kind} {had} was left behind"]
    assert swept(bare) == {}
    assert list(bare.differences(KeepList())) == []


def test_memory_that_others_have_attached_is_said_to_be_so_and_goes_with_them(user: int) -> None:
    left = made_by(user, "memory")
    attached, told = os.pipe()
    waiting, go_on = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(go_on)
            ctypes.CDLL(None).shmat(int(left), None, 0)
            os.write(told, b"x")
            os.read(waiting, 1)
        finally:
            os._exit(0)
    try:
        os.read(attached, 1)
        aspect = SystemV(user, empty=True)
        assert swept(aspect) == {f"System V memory {left}": "still attached by another process"}
    finally:
        os.close(go_on)
        os.waitpid(child, 0)
        for end in (attached, told, waiting):
            os.close(end)
    assert list(aspect.differences(KeepList())) == []


def test_what_others_have_stays(user: int) -> None:
    left = made_by(0, "queue")
    try:
        assert swept(SystemV(user, empty=True)) == {}
        with open(f"{SHOWN}/msg", encoding="ascii") as file:
            assert left in [line.split()[1] for line in file]
    finally:
        ctypes.CDLL(None).msgctl(int(left), 0, None)
