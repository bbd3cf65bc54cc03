"""A process of another user that ends when the process that started it ends, however that happens.

Run as a program, this file becomes that user, asks the kernel to be killed with its parent, and then becomes the
command: `Popen(preexec_fn=...)` is unsafe, and forbidden by Python, in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class GiteaProcess:
    """It has a session of its own. What it prints is appended to `log`. Without `ids` it runs as we do.

    It is reaped by `end` alone: until then no other process gets its id, nor the id of its session.
    """

    def __init__(
        self,
        command: Sequence[object],
        folder: Path,
        log: Path,
        environ: Mapping[str, str],
        ids: tuple[int, int] | None,
    ) -> None:
        uid, gid = ids or (-1, -1)
        starter = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(uid), str(gid)]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*starter, *map(str, command)],
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, or the number of the signal that ended it, below zero; None while it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it, and then what it started in its session: a runner gives each step a process group of its own."""
        if self._process.returncode is not None:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        while left := list(_of_session(self.pid)):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait()


def _of_session(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):  # no process, or it has ended meanwhile
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                yield int(entry.name)


def _become(parent: int, uid: int, gid: int, command: list[str]) -> None:
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)  # after setuid, which would clear it
    if os.getppid() != parent:
        sys.exit("the tests have ended meanwhile")
    os.execvp(command[0], command)


if __name__ == "__main__":
    parent_of_this, uid_of_this, gid_of_this = map(int, sys.argv[1:4])
    _become(parent_of_this, uid_of_this, gid_of_this, sys.argv[4:])
