"""The logs of a local machine: read although a job can write in its directory."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from bullpen.engines.local.machine_logs import LocalMachineLogs
from bullpen.ports import FoundLogs

ID = "i-0123456789abcdef"
SECRET = "what the job must not get at"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "instances" / ID
    made.mkdir(parents=True)
    (made / "agent.log").write_text("one\ntwo\n")
    (tmp_path / "secret").write_text(SECRET)
    return made


def read(tmp_path: Path, id: str = ID, limit: int = 1000) -> FoundLogs:
    return asyncio.run(LocalMachineLogs(tmp_path).read(id, limit))


def contents(found: FoundLogs) -> dict[str, bytes]:
    return {name: log.content for name, log in found.logs.items()}


def test_the_logs_of_agent_boot_and_runner_are_read(directory: Path, tmp_path: Path) -> None:
    (directory / "boot.log").write_text("booted\n")
    (directory / "runner/_diag").mkdir(parents=True)
    (directory / "runner/_diag/Worker_1.log").write_text("worked\n")
    (directory / "runner/.credentials").write_text(SECRET)
    (directory / "agent.json").write_text(SECRET)
    found = read(tmp_path)
    assert contents(found) == {
        "agent.log": b"one\ntwo\n",
        "boot.log": b"booted\n",
        "runner/Worker_1.log": b"worked\n",
    }
    assert found.missing == {}


def test_a_log_is_its_end(directory: Path, tmp_path: Path) -> None:
    (directory / "agent.log").write_bytes(b"x" * 5000 + b"end")
    log = read(tmp_path, limit=10).logs["agent.log"]
    assert (log.content, log.size) == (b"xxxxxxxend", 5003)


def test_the_directory_may_be_a_link_to_that_of_local_work_dir(directory: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / ID
    moved.parent.mkdir()
    directory.rename(moved)
    directory.symlink_to(moved)
    assert contents(read(tmp_path)) == {"agent.log": b"one\ntwo\n"}


def test_a_machine_that_ended_has_no_logs(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found == FoundLogs(
        missing={"agent.log": "the directory of the machine is gone: it is removed when the machine ends"}
    )


@pytest.mark.parametrize("id", ["..", "../secret", "", "/etc", "a\0b", "x" * 65])
def test_what_is_no_id_of_a_machine_reads_nothing(directory: Path, tmp_path: Path, id: str) -> None:
    found = read(tmp_path, id)
    assert found.logs == {}
    assert found.missing


# ---- a job that wants to be shown another file


def no_secret(tmp_path: Path) -> FoundLogs:
    found = read(tmp_path)
    assert all(SECRET.encode() not in content for content in contents(found).values())
    return found


@pytest.mark.parametrize("name", ["agent.log", "pre-runner.log"])
def test_a_link_in_place_of_a_log_is_not_followed(directory: Path, tmp_path: Path, name: str) -> None:
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(tmp_path / "secret")
    assert "cannot be read" in no_secret(tmp_path).missing[name]


def test_a_second_name_of_a_file_is_not_read(directory: Path, tmp_path: Path) -> None:
    (directory / "boot.log").hardlink_to(tmp_path / "secret")
    assert no_secret(tmp_path).missing["boot.log"] == "cannot be read (the file has a second name)"


@pytest.mark.parametrize("part", ["runner", "runner/_diag"])
def test_a_link_in_place_of_a_directory_is_not_followed(directory: Path, tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere/_diag"
    elsewhere.mkdir(parents=True)
    (elsewhere / "x.log").write_text(SECRET)
    (directory / part).parent.mkdir(exist_ok=True)
    (directory / part).symlink_to(elsewhere.parent if part == "runner" else elsewhere)
    assert "runner" in no_secret(tmp_path).missing


def test_a_link_to_another_place_than_the_machine_is_not_followed(directory: Path, tmp_path: Path) -> None:
    directory.rename(tmp_path / "moved")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/agent.log").write_text(SECRET)
    directory.symlink_to(tmp_path / "other")
    assert no_secret(tmp_path).logs == {}


def test_a_pipe_and_a_socket_hold_nothing_up(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(directory / "boot.log")
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(directory)  # its path may be longer than a socket's name
        bound.bind("pre-runner.log")
        found = read(tmp_path)
    assert {*found.missing} == {"boot.log", "pre-runner.log"}
    assert {*found.logs} == {"agent.log"}


def test_odd_names_of_runner_logs_are_left_out_and_the_newest_are_read(directory: Path, tmp_path: Path) -> None:
    place = directory / "runner/_diag"
    place.mkdir(parents=True)
    for number in range(9):
        (place / f"Worker_{number}.log").write_text(str(number))
        os.utime(place / f"Worker_{number}.log", (number, number))
    (place / "x\n.log").write_text("odd")
    (place / "secrets.txt").write_text("odd")
    assert [name for name in contents(read(tmp_path)) if "/" in name] == [
        f"runner/Worker_{number}.log" for number in range(3, 9)
    ]
