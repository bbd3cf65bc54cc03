"""Open files of the jobs' user that processes of other users have."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent.test_job_user import after, cleaned, config, crontab, docker, ground
from agent.test_tasks import booted
from bullpen.agent.account import Account, account_of
from bullpen.agent.cleaning import descriptors
from bullpen.agent.cleaning.descriptors import Holders
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.config import Config
from bullpen.agent.progress import Phase
from bullpen.agent.tasks import Tasks
from users import lent

__all__ = ["config", "crontab", "docker", "ground"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into processes of other users"),
]

HOLDS = """
import ctypes, os, signal, threading
if os.fork():
    os._exit(0)
os.setgroups([])
os.setgid({group})
os.setuid({user})
{before}
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.fixture
def users() -> Iterator[tuple[str, ...]]:
    """The jobs' user, and that of another instance's jobs."""
    with lent(2) as names:
        yield names


@pytest.fixture
def user(users: tuple[str, ...]) -> str:
    return users[0]


@pytest.fixture
def account(users: tuple[str, ...]) -> Account:
    return account_of(users[0])


@pytest.fixture
def neighbour(users: tuple[str, ...]) -> Account:
    return account_of(users[1])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "LASTS", 0.1)


@contextmanager
def a_process(account: Account, before: str = "", pass_fds: tuple[int, ...] = ()) -> Iterator[int]:
    """Of the other user, and not below this process, with these descriptors, once it has done this."""
    script = HOLDS.format(group=account.group, user=account.user, before=before)
    command = [sys.executable, "-I", "-S", "-c", script]
    with subprocess.Popen(command, pass_fds=pass_fds, stdout=subprocess.PIPE, cwd="/") as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def a_file(path: Path, account: Account, mode: int = 0o600) -> Iterator[int]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, mode)
    try:
        os.fchown(descriptor, account.user, account.group)
        os.fchmod(descriptor, mode)
        yield descriptor
    finally:
        os.close(descriptor)


def found(account: Account) -> list[str]:
    return [said for said in Holders(account).differences(KeepList()) if isinstance(said, str)]


def test_a_file_that_was_passed_to_another_user_s_process_is_found_also_once_it_has_no_name(
    tmp_path: Path, account: Account, neighbour: Account
) -> None:
    with a_file(tmp_path / "file", account) as descriptor, a_process(neighbour, pass_fds=(descriptor,)) as pid:
        os.unlink(tmp_path / "file")
        (said,) = found(account)
    assert said == f"process {pid} (python) has {tmp_path}/file (deleted) open, which is {account.name}'s"
    assert found(account) == []


def test_a_process_that_may_be_looked_into_by_its_own_user_is_looked_into_as_well(
    tmp_path: Path, account: Account, neighbour: Account
) -> None:
    opens = "ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)"  # as after an exec; before it /proc shows it as root's
    with a_file(tmp_path / "file", account) as descriptor, a_process(neighbour, opens, (descriptor,)) as pid:
        assert os.stat(f"/proc/{pid}").st_uid == neighbour.user
        assert [said for said in found(account) if f"process {pid} " in said]


def test_a_thread_with_open_files_of_its_own_is_looked_into(
    tmp_path: Path, account: Account, neighbour: Account
) -> None:
    with a_file(tmp_path / "file", account) as descriptor:
        hides = f"""
gate, libc = threading.Event(), ctypes.CDLL(None)
def hide():
    libc.unshare(0x400)
    gate.set()
    signal.sigwait([signal.SIGUSR1])
threading.Thread(target=hide, daemon=True).start()
gate.wait()
os.close({descriptor})
"""
        with a_process(neighbour, hides, (descriptor,)) as pid:
            assert not os.path.exists(f"/proc/{pid}/fd/{descriptor}")
            assert [said for said in found(account) if f"process {pid} " in said]


def test_a_directory_that_a_process_is_in_is_found(tmp_path: Path, account: Account, neighbour: Account) -> None:
    (directory := tmp_path / "directory").mkdir()
    os.chmod(tmp_path, 0o755)
    descriptor = os.open(directory, os.O_RDONLY)
    with a_process(neighbour, f"os.fchdir({descriptor}); os.close({descriptor})", (descriptor,)) as pid:
        os.chown(directory, account.user, account.group)
        assert found(account) == [f"process {pid} (python) has {directory} open, which is {account.name}'s"]
    os.close(descriptor)


def test_a_directory_that_only_a_thread_is_in_is_found(tmp_path: Path, account: Account, neighbour: Account) -> None:
    (directory := tmp_path / "directory").mkdir()
    os.chmod(tmp_path, 0o755)
    descriptor = os.open(directory, os.O_RDONLY)
    hides = f"""
gate, libc = threading.Event(), ctypes.CDLL(None)
def hide():
    libc.unshare(0x200)
    os.fchdir({descriptor})
    gate.set()
    signal.sigwait([signal.SIGUSR1])
threading.Thread(target=hide, daemon=True).start()
gate.wait()
os.close({descriptor})
"""
    with a_process(neighbour, hides, (descriptor,)) as pid:
        os.chown(directory, account.user, account.group)
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert found(account) == [f"process {pid} (python) has {directory} open, which is {account.name}'s"]
    os.close(descriptor)


def test_descriptors_that_wait_in_a_socket_are_found(tmp_path: Path, account: Account, neighbour: Account) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, a_file(tmp_path / "file", account) as descriptor:
        socket.send_fds(ours, [b"x"], [descriptor])
        with a_process(neighbour, pass_fds=(theirs.fileno(),)) as pid:
            (said,) = found(account)
            assert said == f"process {pid} (python) has a socket that holds open files which were passed to it"
            socket.recv_fds(theirs, 1, 1)
            assert found(account) == []


def test_a_process_that_a_program_of_the_user_gave_its_group_is_found(
    account: Account, neighbour: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as directory:  # where others may pass
        os.chmod(directory, 0o755)
        shutil.copyfile(os.path.realpath("/bin/sh"), program := Path(directory, "program"))
        os.chown(program, account.user, account.group)
        program.chmod(0o2755)
        becomes = f'os.execv("{program}", ["sh", "-p", "-c", "echo $$; exec sleep 600"])'
        with a_process(neighbour, becomes) as pid:
            program.unlink()
            assert found(account) == [f"process {pid} (sleep) runs with the group of {account.name}"]
            monkeypatch.setattr(os, "getgrouplist", lambda name, group: [group, account.group])
            assert found(account) == []  # an operator has put its user into the group


def test_too_many_open_files_to_look_through_are_a_reason(
    account: Account, neighbour: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "MOST", 1)
    with a_process(neighbour):
        (said,) = found(account)
    assert said.startswith("processes of other users have more than 1 open files")


def test_an_instance_whose_files_another_has_is_dirty(config: Config, neighbour: Account) -> None:
    _, _, tasks, progress = after(replace(config, shares_machine=True), "touch file")
    descriptor = os.open(config.directory / "work" / "file", os.O_RDWR)
    with a_process(neighbour, pass_fds=(descriptor,)) as pid:
        os.close(descriptor)
        outcome = cleaned(tasks, progress)
        assert outcome.phase is Phase.FAILED
        assert f"process {pid} (python) has {config.directory}/work/file (deleted) open" in outcome.text


def test_what_an_earlier_instance_of_the_user_passed_on_fails_the_boot(
    config: Config, account: Account, neighbour: Account, tmp_path: Path
) -> None:
    with (
        a_file(tmp_path / "program", account, 0o4755) as descriptor,
        a_process(neighbour, pass_fds=(descriptor,)) as pid,
    ):
        boot = booted(Tasks(replace(config, shares_machine=True), print)).boot
    assert boot.phase is Phase.FAILED
    assert f"process {pid} (python) has {tmp_path}/program open" in boot.text


def test_without_the_right_to_look_nothing_is_looked_at_and_the_log_says_so(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "may_see_open_files", lambda: False)
    said: list[str] = []
    boot = booted(Tasks(replace(config, shares_machine=True), said.append)).boot
    assert (boot.phase, boot.text) == (Phase.DONE, "")
    assert [line for line in said if "CAP_SYS_PTRACE" in line]
