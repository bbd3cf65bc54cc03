"""Writes the files of a manifest below one directory, and nowhere else, whatever the manifest says.

Every directory is made here and opened without following a link; every name is new in it; links are made last, so that
no file is written through one. Every block is compared with its hash before it is written.

A file costs three system calls, and no more objects than it needs: a project has thousands of files, and every runner
of a run unpacks them.

Standard library only: the agent imports this too.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from bullpen.model.manifest import Manifest

FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BadContent(ValueError):
    """A block that is missing, or that has another hash than its name. Its text says which; so does `digest`."""

    def __init__(self, text: str, digest: str) -> None:
        super().__init__(text)
        self.digest = digest


class Blocks:
    """Where the blocks of a manifest are: open files, mapped into memory, and a place in one of them for each block."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []
        self._views: dict[int, memoryview] = {}
        self.places: dict[str, tuple[memoryview, int, int]] = {}

    def add(self, fd: int, places: Mapping[str, tuple[int, int]]) -> None:
        """The blocks of an open file: hash → offset and length. A place beyond the end of the file is BadContent."""
        size = os.fstat(fd).st_size
        view = memoryview(b"")
        if size:
            mapped = mmap.mmap(fd, size, prot=mmap.PROT_READ)
            with suppress(OSError):
                mapped.madvise(mmap.MADV_SEQUENTIAL)
            self._maps.append(mapped)
            view = memoryview(mapped)
        for digest, (offset, length) in places.items():
            if offset + length > size:
                raise BadContent(f"block {digest}: the file that has it is shorter than it was", digest)
            self.places[digest] = (view, offset, length)


def unpack(manifest: Manifest, blocks: Blocks, top: int, *, replace: bool = False) -> None:
    """Write everything below the open directory `top`. What is there already is replaced, or an OSError.

    Raise BadContent for a block that is not what its hash says, OSError where something cannot be written. What was
    written by then stays: the caller removes the directory.
    """
    contents = _located(manifest, blocks)
    verified = bytearray(len(contents))
    here, opened = "", top
    try:
        for file in manifest.files:
            path = file.path
            parent, _, name = path.rpartition("/")
            if parent != here:
                if opened != top:
                    os.close(opened)
                    opened = top
                opened, here = _directory(parent, top) if parent else top, parent
            name_in = name if name.isascii() else _bytes(name)
            mode = 0o755 if file.executable else 0o644
            try:
                fd = os.open(name_in, FILE, mode, dir_fd=opened)
            except FileExistsError:
                if not replace:
                    raise
                os.unlink(name_in, dir_fd=opened)
                fd = os.open(name_in, FILE, mode, dir_fd=opened)
            try:
                for number in file.blocks:
                    digest, content = contents[number]
                    if not verified[number]:
                        if sha256(content).digest() != digest:
                            text = f"{path!r}: block {digest.hex()} has other content than it had"
                            raise BadContent(text, digest.hex())
                        verified[number] = 1
                    written = os.write(fd, content)
                    while written < len(content):
                        written += os.write(fd, content[written:])
            finally:
                os.close(fd)
    finally:
        if opened != top:
            os.close(opened)
    for path in manifest.directories:
        os.close(_directory(path, top))
    for path, target in manifest.links:
        parent, _, name = path.rpartition("/")
        at = _directory(parent, top) if parent else top
        try:
            os.symlink(_bytes(target), _bytes(name), dir_fd=at)
        finally:
            if at != top:
                os.close(at)


def _located(manifest: Manifest, blocks: Blocks) -> Sequence[tuple[bytes, memoryview]]:
    found = []
    for digest, length in manifest.blocks:
        place = blocks.places.get(digest)
        if place is None or place[2] != length:
            raise BadContent(f"block {digest}: it is missing, or has another length", digest)
        view, offset, _ = place
        found.append((bytes.fromhex(digest), view[offset : offset + length]))
    return found


def _directory(path: str, top: int) -> int:
    """Open a directory below `top`, making what is missing of it. Never through a link."""
    at = os.dup(top)
    try:
        for name in _bytes(path).split(b"/"):
            try:
                below = os.open(name, DIRECTORY, dir_fd=at)
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=at)
                below = os.open(name, DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
    except BaseException:
        os.close(at)
        raise
    return at


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
