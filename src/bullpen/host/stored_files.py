"""The files of projects and the artifacts of jobs that a home has: where they are, and how much room they take.

<home>/sources/packs, manifests, incoming     see `bullpen.engines.sqlite.sources`
<home>/jobs/<job id>.<fence>.artifacts        and `…-part` while they arrive, beside the logs of jobs
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 1024 * 1024
ROOM = 4096 * MEBIBYTE  # `sync.store-size`, where no other is set
SOURCES = "sources"
JOBS = "jobs"
FULL_REMEDY = "Raise sync.store-size, or try again later: what no job needs goes after an hour."


def stored_size(home: Path) -> int:
    """Bytes of all of them, those that are still arriving included."""
    found = sum(status.st_size for _, status in artifact_files(home))
    for name in ("packs", "manifests", "incoming"):
        found += sum(status.st_size for _, status in _files(home / SOURCES / name))
    return found


def artifact_files(home: Path) -> Iterator[tuple[Path, os.stat_result]]:
    return (found for found in _files(home / JOBS) if ".artifacts" in found[0].suffix)


def no_room(more: int, taken: int, room: int) -> str:
    needed, free = told_apart(more, max(room - taken, 0))
    return f"the store for files has no room for {needed} more: {free} of {shown_size(room)} (sync.store-size) are free"


def shown_size(size: int) -> str:
    """As people read it, in the units of the settings: 512 B, 12 KiB, 2.1 MiB."""
    if size < 1024:
        return f"{size} B"
    found, units = size / 1024, ["KiB", "MiB", "GiB"]
    while found >= 999.5 and len(units) > 1:
        found, units = found / 1024, units[1:]
    return f"{found:.0f} {units[0]}" if found >= 10 else f"{found:.1f}".removesuffix(".0") + f" {units[0]}"


def told_apart(larger: int, smaller: int) -> tuple[str, str]:
    """Both sizes as people read them; in bytes if they would look the same."""
    found = shown_size(larger), shown_size(smaller)
    return found if found[0] != found[1] else (f"{larger} bytes", f"{smaller} bytes")


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What is removed meanwhile is left out."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError):
            yield directory / name, os.lstat(directory / name)
