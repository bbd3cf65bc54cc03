"""A process of another user that ends when the process that started it ends, however that happens.

Run as a program, it becomes that user, asks the kernel to be killed with its parent, and then becomes the command:
`Popen(preexec_fn=...)` is unsafe, and forbidden by Python, in a process with threads.
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


def a_child(
    command: Sequence[object], folder: Path, log: Path, environ: Mapping[str, str], ids: tuple[int, int] | None
) -> subprocess.Popen[bytes]:
    """Start it in a session of its own; what it prints is appended to `log`. Without `ids` it runs as we do."""
    uid, gid = ids or (-1, -1)
    starter = [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(uid), str(gid)]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*starter, *map(str, command)],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, and then what it started in its session: a runner gives each step a process group of its own."""
    process.kill()
    process.wait()
    while left := list(_of_session(process.pid)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


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
