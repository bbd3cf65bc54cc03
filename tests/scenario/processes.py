"""The processes of a home as the kernel shows them, found without asking Bullpen: by command line and by mark."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """`instance_id` is whom it belongs to; `is_agent` tells the agent itself from what a job left running."""

    pid: int
    instance_id: str
    is_agent: bool


def of_home(home: Path) -> list[Process]:
    """Every living process of every instance of a home: agents name the home, the rest carries an agent's mark."""
    folder = f"{home.resolve()}/instances/".encode()
    agents: dict[int, str] = {}
    marked: dict[int, str] = {}
    for pid, command, environment in _living():
        for word in command.split(b"\0"):
            if word.startswith(folder) and word.endswith(b"/agent.json"):
                agents[pid] = word.removeprefix(folder).partition(b"/")[0].decode()
        for entry in environment.split(b"\0"):
            if entry.startswith(b"BULLPEN_INSTANCE="):
                marked[pid] = entry.partition(b"=")[2].decode()
    known = {*agents.values(), *_ids(home)}
    found = [Process(pid, id, is_agent=True) for pid, id in agents.items()]
    return found + [Process(p, id, is_agent=False) for p, id in marked.items() if id in known and p not in agents]


def _ids(home: Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(home / "instances")
    return []


def _living() -> Iterator[tuple[int, bytes, bytes]]:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdecimal() and int(name) != os.getpid():
                command = Path(f"/proc/{name}/cmdline").read_bytes()  # empty once it has ended and is a zombie
                if command:
                    yield int(name), command, Path(f"/proc/{name}/environ").read_bytes()
