"""Processes of this machine: who they are, whether they still run, and how a whole tree of them is ended.

A pid is only a number that the kernel hands out again. A `ProcessIdentity` adds the start time and the boot, and
nothing here signals a process before it has compared them.

A tree is found in two ways, because each misses what the other sees. The walk from parent to child finds everything
below a living root, and below a subreaper that includes orphans that wiped their environment. The mark, one variable in
the environment that every descendant inherits, finds orphans after the root itself was killed.

A tree is ended root last: the root is frozen but alive, so whatever loses its parent meanwhile still falls into its
lap. Members are frozen until a look finds no unfrozen one, and only then killed, so that a tree that forks faster than
it dies stands still before it is counted.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Iterator

from bullpen.host.subordinate_ids import Uids, uids_of
from bullpen.lazy_dataclass import dataclass

PROC = "/proc"
MARK_NAME = "BULLPEN_INSTANCE"
# Without pidfd the end of a process can only be looked for again and again.
LOOK_AGAIN_AFTER = 0.005
# What a killed process may take to leave when patience is already used up.
DYING_TAKES = 0.25
# It ended meanwhile, or is hidden from this user. Anything else, such as too many open files, must not pass for "gone".
UNSEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process for ever: a reused pid has another start time, a rebooted machine another boot."""

    pid: int
    started: int
    boot: str


class TreeSurvived(Exception):
    """Members of a tree could not be ended: stuck in the kernel, or of another user."""

    def __init__(self, survivors: Collection[ProcessIdentity]) -> None:
        names = ", ".join(f"{survivor.pid} ({name_of(survivor) or 'gone since'})" for survivor in survivors)
        super().__init__(f"processes that could not be ended: {names}")


def mark_of(instance_id: str) -> str:
    """The environment entry that every process of an instance inherits."""
    return f"{MARK_NAME}={instance_id}"


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now; None when none does (a zombie has ended and does not count)."""
    seen = _observe(pid, _boot())
    return seen.identity if seen and not seen.ended else None


def is_running(identity: ProcessIdentity) -> bool:
    return identify(identity.pid) == identity


def name_of(identity: ProcessIdentity) -> str | None:
    """The short command name, for messages; None once the process is gone."""
    try:
        with open(f"{PROC}/{identity.pid}/comm", "rb") as file:
            name = file.read().rstrip(b"\n").decode(errors="replace")
    except OSError:
        return None
    return name if is_running(identity) else None


def descendants(
    root: ProcessIdentity | None, mark: str, user: int | None = None, spare: Collection[ProcessIdentity] = frozenset()
) -> tuple[ProcessIdentity, ...]:
    """Whatever runs below `root`, carries `mark` or runs as `user`; never the root, the caller or its ancestors, and
    `spare` as in `end_tree`."""
    return tuple(member for member in _members([root] if root else [], mark, spare, user) if member != root)


def users_of(pid: int) -> tuple[int, ...]:
    """The user ids of a process: real, effective, saved, and that for files; none once it is gone."""
    return _ids_of(pid, "Uid:")


def groups_of(pid: int) -> tuple[int, ...]:
    """Its group ids, as `users_of`; not those that its user is in besides."""
    return _ids_of(pid, "Gid:")


def running_as(user: int) -> tuple[ProcessIdentity, ...]:
    """Every process of this user, with its own id or a subordinate one."""
    owned = uids_of(user)
    processes = (process for process in _snapshot().values() if not process.ended)
    return tuple(process.identity for process in processes if _runs_as(process.identity.pid, owned))


def end_tree(
    root: ProcessIdentity | None,
    mark: str,
    *,
    patience: float,
    spare: Collection[ProcessIdentity] = frozenset(),
    user: int | None = None,
) -> tuple[ProcessIdentity, ...]:
    """End `root` and all its descendants, and all that runs as `user`; return those that were killed, once a look finds
    none left.

    The caller and its ancestors are never touched: a caller that names itself as root ends everything below itself. Nor
    is `spare`, unless it runs as `user` now: another process of that user may have taken it over, and its pid and start
    time would not show it. Raise TreeSurvived for what still runs after `patience` seconds, and ValueError, having
    touched nothing, when the caller runs below `root`.
    """
    roots = [root] if root else []
    if root and root.pid != os.getpid() and root in _lineage(_snapshot()):
        raise ValueError(f"process {root.pid} cannot be ended from inside its own tree")
    deadline = time.monotonic() + patience
    frozen: dict[ProcessIdentity, None] = {}
    killed: dict[ProcessIdentity, None] = {}
    while found := _members([*roots, *frozen], mark, spare, user):
        in_time = time.monotonic() < deadline
        if in_time and (moving := [member for member in found if member not in frozen]):
            for member in moving:
                _send(member, signal.SIGSTOP)
                frozen[member] = None
            continue
        victims = ([member for member in found if member != root] if in_time else found) or found
        for victim in victims:
            _send(victim, signal.SIGKILL)
            killed[victim] = None
        last_wait = max(deadline, time.monotonic() + DYING_TAKES)
        for victim in victims:
            await_end(victim, last_wait - time.monotonic())
        if not in_time and (survivors := _members([*roots, *frozen], mark, spare, user)):
            raise TreeSurvived(survivors)
    return tuple(killed)


def await_end(identity: ProcessIdentity, patience: float) -> bool:
    """Block until the process has ended, for at most `patience` seconds; say whether it has."""
    deadline = time.monotonic() + patience
    with _handle(identity) as handle:
        if handle is not None and is_running(identity):
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(max(0.0, patience) * 1000)  # a negative time would mean for ever
    while is_running(identity):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_AGAIN_AFTER)
    return True


def become_subreaper() -> None:
    """From now on, orphans among the caller's descendants become its children instead of init's."""
    import ctypes  # here, because only the agent should pay the milliseconds it takes to load

    set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        failure = ctypes.get_errno()
        raise OSError(failure, f"cannot become a subreaper: {os.strerror(failure)}")


def reap(awaited: Collection[int] = ()) -> None:
    """Collect ended children without blocking, but none of `awaited`: the code that started those collects them."""
    for process in _snapshot().values():
        pid = process.identity.pid
        if process.ended and process.parent == os.getpid() and pid not in awaited:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


@dataclass(frozen=True, slots=True)
class _Process:
    identity: ProcessIdentity
    parent: int
    state: str
    threads: int

    @property
    def ended(self) -> bool:
        # A main thread that left while others run on shows as a zombie too, and is anything but gone.
        return self.state in "ZX" and self.threads <= 1


def _boot() -> str:
    with open(f"{PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _observe(pid: int, boot: str) -> _Process | None:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            line = file.read()
    except UNSEEN:
        return None
    # The name in the second field may contain spaces, newlines and parentheses; what follows the last one is plain.
    fields = line[line.rindex(b")") + 2 :].split()
    return _Process(ProcessIdentity(pid, int(fields[19]), boot), int(fields[1]), fields[0].decode(), int(fields[17]))


def _snapshot() -> dict[int, _Process]:
    boot = _boot()
    seen = (_observe(int(name), boot) for name in os.listdir(PROC) if name.isdecimal())
    return {process.identity.pid: process for process in seen if process}


def _lineage(processes: dict[int, _Process]) -> dict[ProcessIdentity, None]:
    """The caller and its ancestors."""
    line: dict[ProcessIdentity, None] = {}
    process = processes.get(os.getpid())
    while process and process.identity not in line:
        line[process.identity] = None
        process = processes.get(process.parent)
    return line


def _members(
    roots: Iterable[ProcessIdentity], mark: str, spare: Collection[ProcessIdentity] = (), user: int | None = None
) -> list[ProcessIdentity]:
    """One look: what runs of `roots`, of the marked, as `user`, and of everything below any of them."""
    processes = _snapshot()
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.identity.pid)
    found: dict[int, None] = {}
    owned = uids_of(user) if user is not None else None
    known = {root.pid for root in roots if root.pid in processes and processes[root.pid].identity == root}
    for pid in (*known, *processes):
        if pid in found or not (pid in known or _carries(pid, mark.encode()) or (owned and _runs_as(pid, owned))):
            continue
        below = [pid]
        while below:
            member = below.pop()
            if member not in found:
                found[member] = None
                below.extend(children.get(member, ()))
    untouchable = {*_lineage(processes), *(one for one in spare if owned is None or not _runs_as(one.pid, owned))}
    members = (processes[pid] for pid in found)
    return [member.identity for member in members if not member.ended and member.identity not in untouchable]


def _carries(pid: int, mark: bytes) -> bool:
    """Whether a process of the caller's user, or of any user if that is root, has the mark in its environment."""
    with contextlib.suppress(*UNSEEN):
        if os.geteuid() not in (0, os.stat(f"{PROC}/{pid}").st_uid):
            return False
        # Per thread, because a main thread that has left has no environment any more.
        for thread in os.listdir(f"{PROC}/{pid}/task"):
            with contextlib.suppress(*UNSEEN), open(f"{PROC}/{pid}/task/{thread}/environ", "rb") as file:
                if environment := file.read():
                    return mark in environment.split(b"\0")
    return False


def _runs_as(pid: int, owned: Uids) -> bool:
    """Whether any of its user ids is one of these: a program may have put one of them on for a while."""
    return any(uid in owned for uid in users_of(pid))


def _ids_of(pid: int, title: str) -> tuple[int, ...]:
    with contextlib.suppress(*UNSEEN), open(f"{PROC}/{pid}/status", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(title):
                return tuple(map(int, line.split()[1:]))
    return ()


@contextlib.contextmanager
def _handle(identity: ProcessIdentity) -> Iterator[int | None]:
    """A pidfd of the process with this pid, or None where there are no pidfds or no such process."""
    try:
        handle = os.pidfd_open(identity.pid)
    except (OSError, AttributeError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _send(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal exactly this process; one that has ended or may not be signalled is left to the next look."""
    with _handle(identity) as handle, contextlib.suppress(ProcessLookupError, PermissionError):
        # Compared only now: if the process still runs, the pidfd opened before is its own, and stays its own when the
        # pid is reused in the next instant. Without pidfds that instant remains open.
        if is_running(identity):
            if handle is None:
                os.kill(identity.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
