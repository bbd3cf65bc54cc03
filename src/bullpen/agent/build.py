"""Which build of the agent runs: Bullpen's version, and a hash of the packages that the agent's code is in.

Agents with the same build id run the same code. One that was patched by hand, or that an old launch template fetched,
shows in `bullpen workers`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

from bullpen import __version__

PACKAGE = os.path.dirname(__file__)
PARTS = ("agent", "engines", "host", "model")  # the packages of Bullpen that an agent runs
DIGITS = 12  # of the hash: enough to tell builds apart, short enough to read


@cache
def build_id() -> str:
    """Computed once, before the first beat: it reads some two hundred small files."""
    content = hashlib.sha256()
    for name, source in sorted(_files() if os.path.isdir(PACKAGE) else _archived()):
        content.update(f"{name}\0{len(source)}\0".encode() + source)
    return f"{__version__}+{content.hexdigest()[:DIGITS]}"


def _files() -> Iterator[tuple[str, bytes]]:
    above = os.path.dirname(PACKAGE)
    for part in PARTS:
        for directory, _, names in os.walk(os.path.join(above, part)):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(directory, name)
                    with open(path, "rb") as file:
                        yield os.path.relpath(path, above), file.read()


def _archived() -> Iterator[tuple[str, bytes]]:
    """On EC2 the agent is a zip application."""
    import zipfile

    archive = PACKAGE
    while not os.path.isfile(archive):
        archive = os.path.dirname(archive)
    above = f"{os.path.relpath(os.path.dirname(PACKAGE), archive)}/"
    with zipfile.ZipFile(archive) as content:
        for name in content.namelist():
            inner = name.removeprefix(above)
            if inner.partition("/")[0] in PARTS and name.endswith(".py"):
                yield inner, content.read(name)
