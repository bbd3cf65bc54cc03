"""A process of another instance's job, to which a hostile job passes what it has open. Standard library only.

accomplice.py wait <socket> <report> <user> <group>    become that user, take what is passed, and use it when told
accomplice.py pass <socket> <path>...                  as a job: pass these on
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from pathlib import Path

QUESTION = b"1-1\tstarted\t%d\t1\tacme/widgets\tx\tforged\n"


def wait(path: str, report: str, user: str, group: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen()
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))
        print(os.getpid(), flush=True)
        while True:
            with listener.accept()[0] as caller:
                _, passed, _, _ = socket.recv_fds(caller, 1, 16)
                Path(f"{report}.has").write_text(str(len(passed)))
                while not (told := Path(f"{report}.go")).exists():
                    time.sleep(0.01)
                run = int(told.read_text())
                Path(f"{report}.part").write_text(json.dumps([use(descriptor, run) for descriptor in passed]))
                os.rename(f"{report}.part", report)
            while Path(f"{report}.go").exists():
                time.sleep(0.01)


def use(descriptor: int, run: int) -> str:
    """What can be done by it."""
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return "sees " + " ".join(f"{name}{opened(name, descriptor)}" for name in sorted(os.listdir(descriptor)))
        os.write(descriptor, QUESTION % run)
        return "writes"
    except OSError as failure:
        return type(failure).__name__


def opened(name: str, directory: int) -> str:
    """A star if it can be read."""
    try:
        os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory))
    except OSError:
        return ""
    return "*"


def pass_on(path: str, *paths: str) -> None:
    passed = [os.open(one, os.O_WRONLY if stat.S_ISFIFO(os.stat(one).st_mode) else os.O_RDONLY) for one in paths]
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
        socket.send_fds(caller, [b"x"], passed)


if __name__ == "__main__":
    deed = wait if sys.argv[1] == "wait" else pass_on
    deed(*sys.argv[2:])
