"""Says which command of a job was not found or cannot be executed, and where: the exit codes 126 and 127 of a shell."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

NOT_EXECUTABLE, NOT_FOUND = 126, 127
SHEBANG = 256  # bytes of a script's first line that the kernel reads
SHOWN = 300  # characters of a name or a PATH: a reason is stored with its job


def cannot_start(
    exc: BaseException, command: Sequence[str], *, directory: Path, path: str, instance_id: str
) -> tuple[int, str]:
    """The exit code of a job whose command did not start, as a shell has it, and a sentence for its log and reason."""
    program = _shown(command[0]) if command else ""
    code = exc.errno if isinstance(exc, OSError) else None
    if not directory.is_dir():
        return NOT_FOUND, f"the job's working directory {directory} is gone"
    if code in (errno.ENOENT, errno.ENOTDIR):
        return NOT_FOUND, _not_found(program, directory, command[0], path, instance_id)
    if code in (errno.EACCES, errno.EPERM, errno.EISDIR):
        return NOT_EXECUTABLE, _not_executable(program, directory / command[0], instance_id)
    if code == errno.ENOEXEC:
        about = "a script needs a first line such as #!/bin/sh, and a program must be for this machine's architecture"
        return NOT_EXECUTABLE, f"{program}: the runner {instance_id} cannot execute this file: {about}"
    if code == errno.E2BIG:
        return NOT_EXECUTABLE, f"{program}: its arguments and variables are longer than the machine allows"
    return NOT_FOUND, f"{program or 'the job'}: could not be started: {getattr(exc, 'strerror', None) or exc}"


def explained(exit_code: int, directory: Path) -> str:
    """What 126 and 127 mean when a job that did start ended with them: mostly a shell says so. Empty for all others."""
    if exit_code == NOT_FOUND:
        return f"exit code 127: the job called a command that was not found{_hint(directory)}"
    if exit_code == NOT_EXECUTABLE:
        return "exit code 126: the job called a file that could not be executed; chmod +x makes a script executable"
    return ""


def _not_found(program: str, directory: Path, name: str, path: str, instance_id: str) -> str:
    if "/" not in program:
        return f"{program}: not found on the runner {instance_id} (PATH={_shown(path)})"
    found = directory / name
    if found.exists():
        interpreter = _interpreter(found)
        if interpreter:
            return f"{program}: its interpreter {interpreter} was not found on the runner {instance_id}"
        return f"{program}: its dynamic loader was not found on the runner {instance_id}"
    if name.startswith("/"):
        return f"{program}: no such file on the runner {instance_id}"
    return f"{program}: no such file in the job's working directory{_hint(directory)}"


def _not_executable(program: str, found: Path, instance_id: str) -> str:
    if "/" in program and found.is_dir():
        return f"{program}: is a directory, not a program"
    if "/" in program and found.is_file() and not os.access(found, os.X_OK):
        return f"{program}: not executable; chmod +x makes it so (and git keeps it)"
    return f"{program}: the job's user may not execute it on the runner {instance_id}"


def _interpreter(script: Path) -> str:
    try:
        with script.open("rb") as file:
            first = file.read(SHEBANG).partition(b"\n")[0]
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode(errors="replace").strip().split()
    return repr(words[0]) if words else ""


def _shown(text: str) -> str:
    """On one line, and not endless: a job names what it likes."""
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _hint(directory: Path) -> str:
    """A job without files mostly means that its project was not sent."""
    try:
        is_empty = not any(directory.iterdir())
    except OSError:
        return ""
    if not is_empty:
        return ""
    return "; the working directory is empty: run in a git work tree, or with --sync DIR, to send files"
