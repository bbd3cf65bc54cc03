"""Packs and bundles: files that contain blocks.

    pack      block block … block | index: SHA-256 and length of each | count | MAGIC
    bundle    MAGIC | length of the manifest | manifest | every block of the manifest, in its order

A store keeps packs: each has what the packs before it lacked. A bundle is everything that one manifest names: it goes
to a machine that does not see the store, and a job's artifacts are kept as one.
The id of a pack is the SHA-256 of its index, so it names the content as well.

Standard library only: the agent imports this too.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from bullpen.lazy_dataclass import dataclass
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BadManifest, Manifest

PACK_MAGIC = b"BPPACK01"
BUNDLE_MAGIC = b"BPBUNDL1"
LARGEST_PACK = 64 * 1024 * 1024  # bytes of content: a lost connection costs no more than one
ENTRY = struct.Struct(">32sI")
COUNT = struct.Struct(">I8s")
LENGTH = struct.Struct(">8sQ")
MOST_ENTRIES = 1_000_000
OVERHEAD = COUNT.size + MOST_ENTRIES * ENTRY.size
COPIED_AT_ONCE = 1024 * 1024


class BadPack(ValueError):
    """A file that is not what its name or its index says. Its text says what is wrong."""


@dataclass(frozen=True, slots=True)
class PackIndex:
    """`entries` are hash, offset and length of each block."""

    id: str
    entries: tuple[tuple[str, int, int], ...]


class PackWriter:
    """Writes a pack to a new file; its id is known once it is whole: `finish` returns it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.has: dict[str, int] = {}  # hash → length, in order
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "wb", buffering=COPIED_AT_ONCE)

    def add(self, digest: str, content: bytes) -> None:
        if digest not in self.has:
            self.has[digest] = len(content)
            self.size += len(content)
            self._file.write(content)

    def finish(self) -> str:
        index = b"".join(ENTRY.pack(bytes.fromhex(digest), length) for digest, length in self.has.items())
        self._file.write(index + COUNT.pack(len(self.has), PACK_MAGIC))
        self._file.close()
        return sha256(index).hexdigest()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def index_of(path: Path) -> PackIndex:
    """Raise BadPack for a file that is not a whole pack, OSError for one that cannot be read."""
    with open(path, "rb") as file:
        return read_index(file)


def read_index(file: BinaryIO) -> PackIndex:
    """Raise BadPack for what is not a whole pack."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - COUNT.size))
    trailer = file.read()
    count, magic = COUNT.unpack(trailer) if len(trailer) == COUNT.size else (0, b"")
    begin = end - COUNT.size - count * ENTRY.size
    if magic != PACK_MAGIC or count > MOST_ENTRIES or begin < 0:
        raise BadPack("not a pack, or not all of it")
    file.seek(begin)
    index = file.read(count * ENTRY.size)
    entries, offset = [], 0
    for digest, length in ENTRY.iter_unpack(index):
        entries.append((digest.hex(), offset, length))
        offset += length
    if offset != begin:
        raise BadPack("the pack's index does not fit its content")
    return PackIndex(sha256(index).hexdigest(), tuple(entries))


def verify(file: BinaryIO, pack_id: str) -> PackIndex:
    """Compare every block with its hash. Raise BadPack."""
    index = read_index(file)
    if index.id != pack_id:
        raise BadPack(f"its index is not that of pack {pack_id}")
    file.seek(0)
    for digest, _, length in index.entries:
        if not 0 < length <= manifests.BLOCK or sha256(file.read(length)).hexdigest() != digest:
            raise BadPack(f"block {digest} has other content than its hash says")
    return index


# ---- bundles


def bundle_head(encoded: bytes) -> bytes:
    return LENGTH.pack(BUNDLE_MAGIC, len(encoded)) + encoded


def read_head(head: bytes) -> int:
    """How many bytes the manifest has, by the first bytes of a bundle. Raise BadManifest."""
    magic, length = LENGTH.unpack(head) if len(head) == LENGTH.size else (b"", 0)
    if magic != BUNDLE_MAGIC or length > manifests.LARGEST:
        raise BadManifest("not a bundle")
    return int(length)


def read_bundle(file: BinaryIO) -> tuple[bytes, Manifest, int]:
    """The manifest as bytes and decoded, and where the blocks begin. Raise BadManifest."""
    length = read_head(file.read(LENGTH.size))
    encoded = file.read(length)
    if len(encoded) != length:
        raise BadManifest("the bundle ends before its manifest does")
    return encoded, manifests.decode(encoded), LENGTH.size + length


def offsets(manifest: Manifest, begin: int) -> Iterator[tuple[str, int, int]]:
    """Hash, offset and length of each block of a bundle whose blocks begin there."""
    for digest, length in manifest.blocks:
        yield digest, begin, length
        begin += length
