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
    return (
        f"the store for files has no room for {_shown(more)} more:"
        f" {_shown(taken)} of {_shown(room)} (sync.store-size) are taken"
    )


def _shown(size: int) -> str:
    return f"{size} bytes" if size < MEBIBYTE else f"{size / MEBIBYTE:.0f} MiB"


def _files(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What is removed meanwhile is left out."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    for name in names:
        with suppress(FileNotFoundError):
            yield directory / name, os.lstat(directory / name)
