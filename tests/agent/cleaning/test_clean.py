"""Real files and processes: what a job left is gone, and nothing else is."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from bullpen.agent.cleaning.baseline import Baseline, differences, take_baseline
from bullpen.agent.cleaning.clean import Dirty, VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.host import sweep
from bullpen.host.processes import await_end, end_tree, identify, mark_of

NOTHING = KeepList()
Steps = Generator[Turn | None, None, VerifiedClean | Dirty]


def verdict_of(steps: Steps, each: Callable[[Turn | None], None] = lambda turn: None) -> VerifiedClean | Dirty:
    while True:
        try:
            each(next(steps))
        except StopIteration as done:
            verdict: VerifiedClean | Dirty = done.value
            return verdict


def verify(baseline: Baseline, keep: KeepList) -> list[str]:
    return [difference for difference in differences(baseline, keep) if difference is not None]


class Instance:
    """Three places with something in them from boot, and a directory outside with something precious."""

    def __init__(self, directory: Path) -> None:
        self.work, self.home, self.temp = (directory / name for name in ("work", "home", "temp"))
        self.outside = directory / "outside"
        for place in (self.work, self.home, self.temp, self.outside):
            place.mkdir()
        (self.home / ".config").mkdir()
        (self.home / ".config" / "tool").write_text("set up at boot")
        (self.outside / "precious").write_text("not ours")
        self.mark = mark_of(f"test-{uuid.uuid4()}")
        self.baseline = self.boot()

    def boot(self) -> Baseline:
        self.baseline = take_baseline({"work": self.work, "home": self.home, "temp": self.temp}, self.mark)
        return self.baseline

    def clean(self, *keep: str) -> VerifiedClean | Dirty:
        return verdict_of(clean(self.baseline, KeepList.of(keep)))

    def reasons(self, *keep: str) -> str:
        verdict = self.clean(*keep)
        assert isinstance(verdict, Dirty)
        return "\n".join(verdict.reasons)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    instance = Instance(tmp_path)
    yield instance
    end_tree(None, instance.mark, patience=20, spare=instance.baseline.processes)


def everything_below(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


def dig(top: Path, levels: int) -> None:
    """A tree deeper than any path may be long."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deeper", dir_fd=fd)
        below = os.open("deeper", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_an_untouched_instance_is_clean(instance: Instance) -> None:
    assert instance.clean() == VerifiedClean()
    assert (instance.home / ".config" / "tool").read_text() == "set up at boot"


def test_files_planted_in_work_home_and_temp_are_gone(instance: Instance) -> None:
    for place in (instance.work, instance.home, instance.temp):
        (place / "planted").write_text("token")
        (place / "directory" / "inner").mkdir(parents=True)
        (place / "directory" / "inner" / "planted").write_text("token")
    (instance.home / ".config" / "planted").write_text("token")
    assert verify(instance.baseline, NOTHING)
    assert instance.clean() == VerifiedClean()
    assert everything_below(instance.work) == everything_below(instance.temp) == []
    assert everything_below(instance.home) == [".config", ".config/tool"]


def test_sockets_fifos_odd_names_and_dangling_links_are_gone(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(instance.temp / "fifo")
    (instance.temp / "nowhere").symlink_to("/does/not/exist")
    for name in (b"line\nbreak", b"\xff\xfe undecodable", b"-rf", b"*", b" ", b"x" * 255):
        os.close(os.open(os.fsencode(instance.temp) + b"/" + name, os.O_CREAT))
    os.mkdir(os.fsencode(instance.temp) + b"/dir \xff")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(instance.temp)  # the path of a socket must be short
        listener.bind("socket")
    assert instance.clean() == VerifiedClean()
    assert os.listdir(instance.temp) == []


def test_directories_locked_by_the_job_are_gone(instance: Instance) -> None:
    locked = instance.work / "locked" / "inner"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    for directory in (locked, locked.parent):
        directory.chmod(0)
    assert instance.clean() == VerifiedClean()
    assert everything_below(instance.work) == []


def test_a_link_to_a_directory_outside_is_removed_and_its_target_left_alone(instance: Instance) -> None:
    (instance.work / "link").symlink_to(instance.outside)
    assert instance.clean() == VerifiedClean()
    assert everything_below(instance.outside) == ["precious"]
    assert everything_below(instance.work) == []


def test_a_directory_swapped_for_a_link_at_the_last_instant_leads_nowhere(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    bait = instance.work / "bait"
    bait.mkdir(mode=0)
    before = stat.S_IMODE(instance.outside.stat().st_mode)
    enter = sweep.enter

    def swap_then_enter(name: str, parent: int, mount: int, *, unlock: bool = False) -> int:
        if name == "bait" and not bait.is_symlink():
            bait.rmdir()
            bait.symlink_to(instance.outside)
        return enter(name, parent, mount, unlock=unlock)

    monkeypatch.setattr(sweep, "enter", swap_then_enter)
    assert instance.clean() == VerifiedClean()
    assert everything_below(instance.outside) == ["precious"]
    assert stat.S_IMODE(instance.outside.stat().st_mode) == before
    assert everything_below(instance.work) == []


def test_a_directory_swapped_for_a_link_between_two_steps_leads_nowhere(instance: Instance) -> None:
    bait = instance.work / "bait" / "precious"
    bait.mkdir(parents=True)
    for number in range(200):
        (bait / f"{number}").touch()
    steps = clean(instance.baseline, NOTHING)
    next(steps)
    bait.parent.rename(instance.work / "aside")
    bait.parent.symlink_to(instance.outside)
    verdict = verdict_of(steps)
    assert everything_below(instance.outside) == ["precious"]
    assert verdict == VerifiedClean()


def test_a_place_that_was_replaced_is_not_cleaned_and_makes_the_instance_dirty(instance: Instance) -> None:
    instance.work.rmdir()
    instance.work.symlink_to(instance.outside)
    assert "work" in instance.reasons()
    instance.work.unlink()
    instance.outside.rename(instance.work)
    assert "work could not be cleaned: it is not the directory that was there at boot" in instance.reasons()
    assert everything_below(instance.work) == ["precious"]


@pytest.mark.slow
def test_a_tree_deeper_than_any_path_is_gone(instance: Instance) -> None:
    dig(instance.work, 3000)
    assert instance.clean() == VerifiedClean()
    assert os.listdir(instance.work) == []


@pytest.mark.slow
def test_cleaning_yields_often_and_opens_few_files(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3000):
        (instance.temp / f"{number}").touch()
    dig(instance.temp, 200)
    open_at_start = len(os.listdir("/proc/self/fd"))
    gone: list[str] = []

    def counted(remove: Callable[..., None], path: str, **where: int) -> None:
        remove(path, **where)
        gone.append(path)

    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, partial(counted, getattr(os, name)))
    removed = [0]
    for _ in clean(instance.baseline, NOTHING):
        assert len(os.listdir("/proc/self/fd")) < open_at_start + 2 * sweep.DEEPEST + 10
        removed.append(len(gone))
    assert max(after - before for before, after in pairwise(removed)) <= sweep.STRIDE
    assert removed[-1] >= 3200
    assert len(os.listdir("/proc/self/fd")) == open_at_start


def test_cleaning_that_is_given_up_leaves_no_file_open(instance: Instance) -> None:
    dig(instance.work, 50)
    open_at_start = len(os.listdir("/proc/self/fd"))
    steps = clean(instance.baseline, NOTHING)
    next(steps)
    steps.close()
    assert len(os.listdir("/proc/self/fd")) == open_at_start


def test_what_is_on_the_keep_list_stays_with_all_below_it(instance: Instance) -> None:
    wheel = instance.home / ".cache" / "pip" / "wheels" / "one"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    (instance.home / ".cache" / "other").touch()
    (instance.temp / "pip").touch()
    assert instance.clean("home/.cache/p?p") == VerifiedClean()
    assert wheel.exists()
    assert everything_below(instance.home / ".cache") == ["pip", "pip/wheels", "pip/wheels/one"]
    assert everything_below(instance.temp) == []
    assert instance.clean() == VerifiedClean()
    assert not wheel.exists()


def test_a_link_or_an_empty_directory_on_the_way_to_something_kept_goes(instance: Instance) -> None:
    (instance.outside / "pip").touch()
    (instance.home / ".cache").symlink_to(instance.outside)
    (instance.work / ".cache").mkdir()
    assert instance.clean("home/.cache/pip", "work/.cache/pip") == VerifiedClean()
    assert everything_below(instance.home) == [".config", ".config/tool"]
    assert everything_below(instance.work) == []
    assert everything_below(instance.outside) == ["pip", "precious"]


@pytest.mark.parametrize("pattern", ["home", "/etc", "home/../x", "home/**/x", "home//x", ""])
def test_a_keep_pattern_that_means_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="keep pattern"):
        KeepList.of([pattern])


def test_a_changed_file_of_the_baseline_is_named(instance: Instance) -> None:
    tool = instance.home / ".config" / "tool"
    before = tool.stat()
    tool.write_text("set up at BOOT")
    os.utime(tool, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert instance.reasons() == "home/.config/tool was changed: changed"
    assert instance.clean("home/.config/tool") == VerifiedClean()


def test_a_missing_or_replaced_entry_of_the_baseline_is_named(instance: Instance) -> None:
    shutil.rmtree(instance.home / ".config")
    assert instance.reasons() == "home/.config is missing\nhome/.config/tool is missing"
    (instance.home / ".config").symlink_to(instance.outside)
    assert "home/.config was changed: mode" in instance.reasons()
    assert everything_below(instance.outside) == ["precious"]


def test_a_place_inside_another_is_cleaned_under_its_own_name(instance: Instance) -> None:
    instance.work = instance.home / "work"
    instance.work.mkdir()
    instance.boot()
    (instance.work / "_tool").touch()
    (instance.work / "planted").touch()
    assert instance.clean("work/_tool") == VerifiedClean()
    assert everything_below(instance.work) == ["_tool"]


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", path], capture_output=True).returncode != 0:
        pytest.skip("cannot make a file immutable here: needs chattr, root and a file system that knows the flag")
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


def test_a_file_that_cannot_be_removed_is_named_with_the_reason(instance: Instance) -> None:
    stuck = instance.work / "directory" / "stuck\n"
    stuck.parent.mkdir()
    for name in (stuck, stuck.with_name("loose")):
        name.touch()
    with immutable(stuck):
        assert instance.reasons() == (
            "'work/directory/stuck\\n' could not be cleaned: operation not permitted\nwork/directory was left behind"
        )
    assert everything_below(instance.work) == ["directory", "directory/stuck\n"]
    assert instance.clean() == VerifiedClean()


@pytest.mark.parametrize("options", [["--bind"], ["-t", "tmpfs"]])
def test_a_mount_is_not_crossed_and_is_named(instance: Instance, options: list[str]) -> None:
    point = instance.work / "mounted"
    point.mkdir()
    if subprocess.run(["mount", *options, instance.outside, point], capture_output=True).returncode != 0:
        pytest.skip("cannot mount here: needs root")
    try:
        (point / "precious").touch()
        assert "work/mounted could not be cleaned: something is mounted there" in instance.reasons()
        assert (point / "precious").exists()
    finally:
        subprocess.run(["umount", point], check=True)
    assert instance.clean() == VerifiedClean()
    assert everything_below(instance.outside) == ["precious"]


def spawn(script: str, mark: str) -> subprocess.Popen[str]:
    name, _, value = mark.partition("=")
    environment = {name: value, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "import os, signal, sys\nsignal.alarm(60)\n" + script]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_background_process_left_by_a_job_is_gone_and_one_from_boot_stays(instance: Instance) -> None:
    with spawn("signal.pause()", instance.mark) as daemon:
        instance.boot()
        with spawn("if os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)\nsignal.pause()", instance.mark) as job:
            assert job.stdout
            stray = identify(int(job.stdout.readline()))
            assert stray
            assert verify(instance.baseline, NOTHING)
            assert instance.clean() == VerifiedClean()
            assert await_end(stray, 0)
        assert daemon.poll() is None
        daemon.kill()


@pytest.mark.slow
def test_an_unmarked_orphan_of_a_job_is_ended_by_an_agent_that_is_a_subreaper(instance: Instance) -> None:
    agent = f"""
from agent.cleaning.test_clean import verdict_of, verify
from bullpen.agent.cleaning.baseline import take_baseline
from bullpen.agent.cleaning.clean import VerifiedClean, clean
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.host.processes import become_subreaper
become_subreaper()
baseline = take_baseline({{"work": {str(instance.work)!r}}}, {instance.mark!r})
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "60"], {{}})
    os._exit(0)
os.wait()
print(len(verify(baseline, KeepList())))
print(verdict_of(clean(baseline, KeepList())) == VerifiedClean())
"""
    with spawn(agent, instance.mark) as process:
        assert process.communicate()[0].split() == ["1", "True"]


def test_a_process_that_cannot_be_ended_makes_the_instance_dirty(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.agent.cleaning.clean.STRAY_TURN_LASTS", 0.01)
    monkeypatch.setattr("bullpen.host.processes.DYING_TAKES", 0.0)
    with spawn("print(flush=True)\nsignal.pause()", instance.mark) as stray:
        assert stray.stdout
        stray.stdout.readline()
        with monkeypatch.context() as deaf:
            deaf.setattr(signal, "pidfd_send_signal", lambda *_: None)
            assert f"process {stray.pid} (python" in instance.reasons()
        assert instance.clean() == VerifiedClean()
