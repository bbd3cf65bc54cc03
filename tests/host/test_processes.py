"""Real processes: their identity, and that a whole tree ends and nothing else."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.host.processes import (
    ProcessIdentity,
    TreeSurvived,
    await_end,
    descendants,
    end_tree,
    identify,
    is_running,
    mark_of,
    name_of,
)

pytestmark = pytest.mark.slow

# Whatever a failing test leaves behind ends by itself.
PRELUDE = "import os, signal, sys\nsignal.alarm(60)\ndef tell(*words): print(*words, flush=True)\n"
WAIT = "tell(os.getpid())\nsignal.pause()\n"
DOUBLE_FORK = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {orphan}
    os._exit(0)
os.wait()
signal.pause()
"""
PATIENCE = 120.0  # seconds; a tree ends within milliseconds

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def mark() -> Iterator[str]:
    mark = mark_of(f"test-{uuid.uuid4()}")
    yield mark
    end_tree(None, mark, patience=PATIENCE)


@pytest.fixture
def start(mark: str) -> Iterator[Start]:
    """Starts a Python script as a child of the test, marked unless told otherwise."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *, marked: bool = True, stdin: int | None = None) -> subprocess.Popen[str]:
        name, _, value = mark.partition("=")
        environment = {"PYTHONPATH": os.pathsep.join(sys.path)} | ({name: value} if marked else {})
        command = [sys.executable, "-c", PRELUDE + script]
        process = subprocess.Popen(command, env=environment, stdin=stdin, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def identity_of(pid: int | str) -> ProcessIdentity:
    identity = identify(int(pid))
    assert identity
    return identity


def ended(process: subprocess.Popen[str]) -> ProcessIdentity:
    """The ended child is a zombie of this process until it is waited for, and its start can still be read."""
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return ProcessIdentity(process.pid, int(stat[19]), identity_of(os.getpid()).boot)


def left_of(mark: str) -> tuple[ProcessIdentity, ...]:
    return descendants(None, mark)


def test_a_process_is_known_whatever_its_name(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (\nb"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as process:
        identity = identity_of(process.pid)
        assert is_running(identity)
        assert name_of(identity) == odd.name
        process.kill()
    assert name_of(identity) is None


def test_a_pid_without_a_process_identifies_none() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert identify(process.pid) is None


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen(["/bin/sleep", "60"])
    identity = identity_of(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{process.pid}/stat").exists()
    assert not is_running(identity)
    assert identify(process.pid) is None
    assert await_end(identity, 0)
    process.wait()


def test_a_process_whose_main_thread_has_left_still_runs_and_can_be_ended(start: Start, mark: str) -> None:
    process = start(
        "import ctypes, threading\n"
        "def work():\n"
        "    while open(f'/proc/{os.getpid()}/stat').read().rpartition(')')[2].split()[0] != 'Z': pass\n"
        "    tell('alone')\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=work).start()\n"
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)\n"
    )
    assert told(process) == "alone"
    identity = identity_of(process.pid)
    assert left_of(mark) == (identity,)
    assert end_tree(None, mark, patience=PATIENCE) == (identity,)
    assert not is_running(identity)


@pytest.mark.parametrize("became", [lambda who: replace(who, started=1), lambda who: replace(who, boot="another")])
def test_another_process_that_got_the_pid_is_never_touched(
    start: Start, became: Callable[[ProcessIdentity], ProcessIdentity]
) -> None:
    stranger = start(WAIT, marked=False)
    told(stranger)
    before = became(identity_of(stranger.pid))
    assert not is_running(before)
    assert end_tree(before, mark_of("no-instance"), patience=PATIENCE) == ()
    assert not await_end(identity_of(stranger.pid), 0)


def test_a_pid_reused_between_the_look_and_the_signal_is_not_hit(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = start(WAIT, marked=False)
    told(stranger)
    before = replace(identity_of(stranger.pid), started=1)
    looks = iter([[before], [before], []])
    monkeypatch.setattr("bullpen.host.processes._members", lambda *_: next(looks))
    end_tree(before, mark_of("no-instance"), patience=PATIENCE)
    assert is_running(identity_of(stranger.pid))
    assert "T" not in Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2]


def test_a_double_fork_is_found_after_its_root_was_killed(start: Start, mark: str) -> None:
    root = start(DOUBLE_FORK.format(orphan="tell(os.getpid()); signal.pause()"))
    orphan = identity_of(told(root))
    gone = identity_of(root.pid)
    root.kill()
    root.wait()
    assert is_running(orphan)
    assert end_tree(gone, mark, patience=PATIENCE) == (orphan,)
    assert not is_running(orphan)


def test_an_orphan_without_the_mark_is_ended_below_a_subreaper(start: Start, mark: str) -> None:
    bare = "os.execve(sys.executable, [sys.executable, '-c', %r], {})" % (PRELUDE + WAIT)
    root = start(
        "from bullpen.host.processes import become_subreaper\nbecome_subreaper()\n" + DOUBLE_FORK.format(orphan=bare)
    )
    orphan, top = identity_of(told(root)), identity_of(root.pid)
    assert end_tree(top, mark, patience=PATIENCE) == (orphan, top)
    assert not is_running(orphan)


def test_what_a_marked_process_starts_belongs_to_the_tree_even_unmarked(start: Start, mark: str) -> None:
    parent = start(f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {PRELUDE + WAIT!r}], env={{}}).wait()")
    child = identity_of(told(parent))
    assert set(end_tree(None, mark, patience=PATIENCE)) == {ended(parent), child}
    assert not is_running(child)


def test_a_tree_that_grows_while_it_is_ended_ends_whole(start: Start, mark: str) -> None:
    tokens, feed = os.pipe()
    os.write(feed, b"x" * 30)
    root = start(
        "while os.read(0, 1):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        tell('more')\n"
        "        if os.fork(): os._exit(0)\n",
        stdin=tokens,
    )
    os.close(tokens)
    assert told(root) == "more"
    end_tree(identity_of(root.pid), mark, patience=PATIENCE)
    assert left_of(mark) == ()
    os.close(feed)


def test_a_parent_that_replaces_its_children_does_not_outlast_them(start: Start, mark: str) -> None:
    parent = start(
        "for _ in range(30):\n    if os.fork() == 0:\n        tell('child')\n        signal.pause()\n    os.wait()\n"
    )
    assert told(parent) == "child"
    assert len(end_tree(identity_of(parent.pid), mark, patience=PATIENCE)) == 2
    assert left_of(mark) == ()


def test_the_mark_of_one_instance_does_not_find_another(start: Start, mark: str) -> None:
    process = start(WAIT)
    told(process)
    assert left_of(mark[:-1]) == ()
    assert left_of(mark) == (identity_of(process.pid),)


def test_the_caller_and_its_ancestors_are_never_part_of_the_tree(start: Start, mark: str) -> None:
    outer = start(
        "import subprocess\n"
        "inner = '''\n"
        "import os, sys\n"
        "from bullpen.host.processes import end_tree, identify\n"
        f"print(end_tree(identify(os.getpid()), {mark!r}, patience=5), flush=True)\n"
        "try: end_tree(identify(os.getppid()), 'x=y', patience=5)\n"
        "except ValueError: print('refused', flush=True)\n"
        "'''\n"
        "tell(subprocess.run([sys.executable, '-c', inner]).returncode)\n"
    )
    assert [told(outer), told(outer), told(outer)] == ["()", "refused", "0"]


def test_a_spared_process_lives_on(start: Start, mark: str) -> None:
    spared, other = start(WAIT), start(WAIT)
    told(spared)
    told(other)
    ended = identity_of(other.pid)
    assert end_tree(None, mark, patience=PATIENCE, spare={identity_of(spared.pid)}) == (ended,)
    assert is_running(identity_of(spared.pid))


def test_without_pidfds_a_tree_still_ends(start: Start, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    root = start(DOUBLE_FORK.format(orphan="tell(os.getpid()); signal.pause()"))
    told(root)
    assert len(end_tree(identity_of(root.pid), mark, patience=PATIENCE)) == 2
    assert left_of(mark) == ()


def test_a_process_that_cannot_be_ended_is_named(start: Start, mark: str) -> None:
    process = start(WAIT)
    told(process)
    with pytest.MonkeyPatch.context() as deaf:
        deaf.setattr(signal, "pidfd_send_signal", lambda *_: None)
        with pytest.raises(TreeSurvived, match=f"{process.pid} \\(python"):
            end_tree(None, mark, patience=0.01)


def test_orphans_come_to_a_subreaper_and_are_reaped_without_stealing_its_own_children(start: Start) -> None:
    agent = start(
        "from bullpen.host.processes import become_subreaper, reap\n"
        "become_subreaper()\n"
        "read, written = os.pipe()\n"
        "agent, own = os.getpid(), os.fork()\n"
        "if own == 0: os._exit(3)\n"
        "os.waitid(os.P_PID, own, os.WEXITED | os.WNOWAIT)\n"
        "middle = os.fork()\n"
        "if middle == 0:\n"
        "    orphan = os.fork()\n"
        "    if orphan == 0:\n"
        "        while os.getppid() != agent: pass\n"
        "        os._exit(5)\n"
        "    os.write(written, b'%d' % orphan)\n"
        "    os._exit(0)\n"
        "os.waitpid(middle, 0)\n"
        "orphan = int(os.read(read, 20))\n"
        "while os.path.exists(f'/proc/{orphan}'): reap({own})\n"
        "tell(os.waitstatus_to_exitcode(os.waitpid(own, 0)[1]))\n"
    )
    assert told(agent) == "3"
