"""The logs in the directory of a local machine: `ports.MachineLogs`.

A job can write there. So no link is followed but the one from the home to `local.work-dir`, a file that is no regular
file is not opened, and neither is one with a second name: it may be another user's.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.engines.local.launch import directory_of
from bullpen.ports.machine_logs import FoundLogs, MachineLog

OWN = ("agent.log", "boot.log", "pre-runner.log")
ALWAYS = ("agent.log",)  # the others exist only where there was something to log
RUNNER = ("runner", "_diag")  # where GitHub's runner logs
RUNNER_LOG = re.compile(r"[A-Za-z0-9._-]{1,100}\.log", re.ASCII)
RUNNER_LOGS = 6  # the newest ones: a runner begins a file for each of its processes
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
GONE = "the directory of the machine is gone: it is removed when the machine ends"


class LocalMachineLogs:
    def __init__(self, home: Path) -> None:
        self._home = home

    async def read(self, instance_id: str, limit: int) -> FoundLogs:
        logs: dict[str, MachineLog] = {}
        missing: dict[str, str] = {}
        if not ID.fullmatch(instance_id):
            return FoundLogs(missing={"agent.log": "not the id of a machine of this host"})
        try:
            with _opened(_place(self._home, instance_id)) as directory:
                for name in OWN:
                    _take(logs, missing, directory, name, limit, name)
                self._take_runner_logs(logs, missing, directory, limit)
        except OSError as exc:
            missing["agent.log"] = GONE if isinstance(exc, FileNotFoundError) else f"cannot be read ({exc.strerror})"
        return FoundLogs(logs, missing)

    def _take_runner_logs(
        self, logs: dict[str, MachineLog], missing: dict[str, str], directory: int, limit: int
    ) -> None:
        try:
            with _opened(RUNNER[0], directory) as runner, _opened(RUNNER[1], runner) as place:
                for name in _newest(place):
                    _take(logs, missing, place, name, limit, f"runner/{name}")
        except FileNotFoundError:
            return  # no runner of GitHub ran here, or its logs were cleaned away with its last job
        except OSError as exc:
            missing["runner"] = f"cannot be read ({exc.strerror})"


def _place(home: Path, instance_id: str) -> str:
    """Raise OSError."""
    directory = directory_of(home, instance_id)
    with suppress(OSError):  # no link: it is in the home
        target = Path(os.readlink(directory))
        if target.is_absolute() and target.name == instance_id:
            return str(target)
    return str(directory)


@contextmanager
def _opened(path: str, above: int | None = None) -> Iterator[int]:
    handle = os.open(path, OPENED | os.O_DIRECTORY, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


def _newest(directory: int) -> list[str]:
    found = []
    for name in os.listdir(directory):
        if RUNNER_LOG.fullmatch(name):
            with suppress(OSError):
                found.append((os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime, name))
    return [name for _, name in sorted(found)[-RUNNER_LOGS:]]


def _take(
    logs: dict[str, MachineLog], missing: dict[str, str], directory: int, name: str, limit: int, shown: str
) -> None:
    try:
        logs[shown] = _tail(directory, name, limit)
    except FileNotFoundError:
        if name in ALWAYS:
            missing[shown] = "there is no such file"
    except OSError as exc:
        missing[shown] = f"cannot be read ({exc.strerror or exc})"


def _tail(directory: int, name: str, limit: int) -> MachineLog:
    handle = os.open(name, OPENED | os.O_NONBLOCK, dir_fd=directory)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a regular file")
        if found.st_nlink > 1:
            raise OSError("the file has a second name")
        content = os.pread(handle, limit, max(0, found.st_size - limit))
        return MachineLog(content, max(found.st_size, len(content)))
    finally:
        os.close(handle)
