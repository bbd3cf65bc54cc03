"""Which build of the agent runs: Bullpen's version, and a hash of the packages that the agent's code is in.

Agents with the same build id run the same code. One that was patched by hand, or that an old launch template fetched,
shows in `bullpen workers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from bullpen import __version__

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PARTS = ("agent", "engines", "host", "model")  # the packages of Bullpen that an agent runs
DIGITS = 12  # of the hash: enough to tell builds apart, short enough to read


@cache
def build_id() -> str:
    """Computed once, before the first beat: it reads some two hundred small files."""
    from importlib.resources import files  # not loaded before it is needed: it takes milliseconds of a start

    content = hashlib.sha256()
    for name, source in sorted(found for part in PARTS for found in _sources(files("bullpen") / part, part)):
        content.update(f"{name}\0{len(source)}\0".encode() + source)
    return f"{__version__}+{content.hexdigest()[:DIGITS]}"


def _sources(directory: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """The modules there, by name; on EC2 they are entries of a zip application."""
    for entry in directory.iterdir():
        below = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, below)
        elif below.endswith(".py"):
            yield below, entry.read_bytes()
