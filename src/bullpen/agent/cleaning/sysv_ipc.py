"""System V memory, queues and semaphores of the jobs' user: neither files nor processes, and they stay until they are
removed. POSIX has files in their place, in directories that all users share."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.host.subordinate_ids import uids_of
from bullpen.lazy_dataclass import dataclass

SHOWN = "/proc/sysvipc"
IPC_RMID = 0


@dataclass(frozen=True, slots=True)
class IpcKind:
    """How the kernel lists one kind, and by which call one of them is removed."""

    name: str
    listed: str
    call: str
    arguments: tuple[int | None, ...]  # after its id


KINDS = (
    IpcKind("memory", "shm", "shmctl", (IPC_RMID, None)),
    IpcKind("queue", "msg", "msgctl", (IPC_RMID, None)),
    IpcKind("semaphores", "sem", "semctl", (0, IPC_RMID)),
)


class SystemV:
    """Whatever the user has made or been given, but for what it has when this is made; `empty`: that goes too."""

    def __init__(self, user: int, *, empty: bool = False) -> None:
        self._uids = uids_of(user)
        self._known: dict[IpcKind, list[str]] = {}
        if not empty:
            self._known = {kind: self._found(kind) for kind in KINDS}

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        for kind in KINDS:
            removed = set[str]()
            for id_ in self._found(kind):
                if ctypes.CDLL(None, use_errno=True)[kind.call](int(id_), *kind.arguments) == 0:
                    removed.add(id_)
                else:
                    troubles[f"System V {kind.name} {id_}"] = os.strerror(ctypes.get_errno()).lower()
                yield Turn.WORKING
            for id_ in self._found(kind):
                if id_ in removed:  # memory, which the kernel keeps for those who have it, of whatever user
                    troubles[f"System V {kind.name} {id_}"] = "still attached by another process"

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        for kind in KINDS:
            for id_ in self._found(kind):
                yield f"System V {kind.name} {id_} was left behind"

    def _found(self, kind: IpcKind) -> list[str]:
        try:
            with open(f"{SHOWN}/{kind.listed}", encoding="ascii") as file:
                names, *rows = (line.split() for line in file)
        except FileNotFoundError:
            return []  # a kernel without
        found = (dict(zip(names, row, strict=False)) for row in rows)
        ids = (one[names[1]] for one in found if any(int(one[name]) in self._uids for name in ("uid", "cuid")))
        return [id_ for id_ in ids if id_ not in self._known.get(kind, ())]
