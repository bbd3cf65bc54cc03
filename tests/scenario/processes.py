"""The processes of instances as the kernel shows them, found without asking Bullpen: by command line and by mark."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """`instance_id` is its instance; `is_agent` is True of the agent itself, False of what a job left running."""

    pid: int
    instance_id: str
    is_agent: bool


def of_home(home: Path) -> list[Process]:
    return below(home / "instances")


def below(folder: Path) -> list[Process]:
    """Every living process of every instance with a directory in this folder, which is named after it: agents name a
    file there, the rest carries an agent's mark."""
    prefix = f"{folder.resolve()}/".encode()
    agents: dict[int, str] = {}
    marked: dict[int, str] = {}
    for pid, command, environment in _living():
        for word in command.split(b"\0"):
            if word.startswith(prefix) and word.endswith(b"/agent.json"):
                agents[pid] = word.removeprefix(prefix).partition(b"/")[0].decode()
        for entry in environment.split(b"\0"):
            if entry.startswith(b"BULLPEN_INSTANCE="):
                marked[pid] = entry.partition(b"=")[2].decode()
    known = {*agents.values(), *_ids(folder)}
    # What an agent forks has its command line until it executes a program, or for good if it unpacks files.
    forked = {pid: id for pid, id in agents.items() if agents.get(_parent(pid)) == id}
    found = [Process(pid, id, is_agent=pid not in forked) for pid, id in agents.items()]
    return found + [Process(p, id, is_agent=False) for p, id in marked.items() if id in known and p not in agents]


def _parent(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _ids(folder: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)
    return []


def _living() -> Iterator[tuple[int, bytes, bytes]]:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and int(name) != os.getpid():
                command = Path(f"/proc/{name}/cmdline").read_bytes()  # empty once it has ended and is a zombie
                if command:
                    yield int(name), command, Path(f"/proc/{name}/environ").read_bytes()
