"""Wake-ups: they arrive, they never block, and they leave nothing behind."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.engines.sqlite import notify
from bullpen.engines.sqlite.notify import LONGEST_NAME, Listener, UnsafeDirectory, broadcast, send, socket_directory
from engines.sqlite.processes import a_line_of, a_process

LISTEN_FOR_EVER = """
import sys, pathlib
from bullpen.engines.sqlite.notify import Listener
listener = Listener(pathlib.Path(sys.argv[1]), sys.argv[2])
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sockets(tmp_path: Path) -> Path:
    return socket_directory(tmp_path)


def test_what_is_sent_arrives_in_order(sockets: Path) -> None:
    listener = Listener(sockets, "i-1")
    send(sockets, "i-1", b"one")
    send(sockets, "i-1", b"two")
    assert listener.drain() == [b"one", b"two"]
    assert listener.drain() == []
    listener.close()


def test_an_empty_payload_wakes_too(sockets: Path) -> None:
    listener = Listener(sockets, "i-1")
    send(sockets, "i-1")
    assert listener.drain() == [b""]
    listener.close()


def test_a_broadcast_reaches_every_name_with_the_prefix_and_no_other(sockets: Path) -> None:
    first, second, agent = (Listener(sockets, name) for name in ("ctl.1", "ctl.2", "i-1"))
    broadcast(sockets, "ctl.", b"x")
    assert [listener.drain() for listener in (first, second, agent)] == [[b"x"], [b"x"], []]
    for listener in (first, second, agent):
        listener.close()


def test_a_missing_listener_or_directory_is_fine(sockets: Path) -> None:
    send(sockets, "i-1")
    send(sockets / "nowhere", "i-1")
    broadcast(sockets / "nowhere")


def test_a_full_listener_neither_blocks_nor_loses_its_name(sockets: Path) -> None:
    listener = Listener(sockets, "i-1")
    for _ in range(5000):
        send(sockets, "i-1", b"x")
    assert 0 < len(listener.drain()) < 5000
    send(sockets, "i-1", b"again")
    assert listener.drain() == [b"again"]
    listener.close()


def test_the_socket_of_a_killed_listener_is_removed_by_the_next_sender(sockets: Path) -> None:
    with a_process(LISTEN_FOR_EVER, sockets, "ctl.dead") as process:
        assert a_line_of(process) == "listening"
        broadcast(sockets)
        assert len(list(sockets.iterdir())) == 1
        process.kill()
        process.wait()
        broadcast(sockets)
    assert list(sockets.iterdir()) == []


def test_a_later_listener_takes_over_the_name_and_the_earlier_leaves_it_alone(sockets: Path) -> None:
    earlier, later = Listener(sockets, "i-1"), Listener(sockets, "i-1")
    earlier.close()
    send(sockets, "i-1", b"x")
    assert later.drain() == [b"x"]
    later.close()
    assert list(sockets.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "x" * (LONGEST_NAME + 1), "nul\0"])
def test_a_name_that_cannot_be_a_socket_is_refused(sockets: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a listener"):
        Listener(sockets, name)


@pytest.fixture
def short_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=notify.SHORT_ROOT) as directory:
        monkeypatch.setattr(notify, "SHORT_ROOT", Path(directory))
        yield Path(directory)


def test_a_home_with_a_long_path_gets_a_short_directory_of_its_own(tmp_path: Path, short_root: Path) -> None:
    home = tmp_path / ("d" * 120)
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    directory = socket_directory(home)
    assert directory.parent == short_root
    assert directory.stat().st_mode & 0o777 == 0o700
    assert socket_directory(tmp_path / "link") == directory
    listener = Listener(directory, "x" * LONGEST_NAME)
    send(directory, "x" * LONGEST_NAME)
    assert listener.drain() == [b""]
    listener.close()


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket_directory(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnsafeDirectory, match="belongs to user"):
        socket_directory(tmp_path)


def test_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "wake").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeDirectory, match="not a directory"):
        socket_directory(tmp_path)


def test_a_directory_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "wake").mkdir(mode=0o755)
    assert socket_directory(tmp_path).stat().st_mode & 0o777 == 0o700
