"""Sends the files of a work tree to a store: only the blocks that it lacks, and a manifest that names all of them.

    read          a changed file is read once: its blocks are hashed, and packed at the same time
    ask           which blocks the store lacks; a pack with others as well is written again without them
    add           packs first, then the manifest: a store never has a manifest without its blocks

Packs are written to a directory of this process in `cache`. If it is killed, the next upkeep removes that.
"""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from bullpen.errors import ConfigError, Interrupted, Refused, Unavailable
from bullpen.host.packs import LARGEST_PACK, PackWriter, index_of
from bullpen.host.stored_files import shown_size
from bullpen.lazy_dataclass import dataclass
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BLOCK, FileEntry, Manifest
from bullpen.model.progress import ProgressReport, Tell, WorkPhase
from bullpen.sources.hash_cache import HashCache, stamp_of
from bullpen.sources.tree_checks import check
from bullpen.sources.work_tree import Listing, WorkTree, list_files, shown_path, unreadable, way_to_leave_out

ATTEMPTS = 3  # to read a file that changes; to send what the store removes meanwhile
ASKED_AT_ONCE = 10_000  # blocks


class SourceStore(Protocol):
    """What `send` needs of a store, see `ports.Sources`."""

    async def missing(self, blocks: Sequence[str]) -> set[str]: ...

    async def add_pack(self, pack: Path) -> None: ...

    async def add_manifest(self, content: bytes) -> str: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """What jobs get, and how much of it had to be sent. Sizes in bytes."""

    source: str
    files: int
    size: int
    sent_files: int
    sent_size: int


async def send(
    store: SourceStore,
    tree: WorkTree,
    *,
    cache: Path,
    max_size: int,
    leave_out: Sequence[Path] = (),
    tell: Tell = lambda report: None,
    stop: asyncio.Event | None = None,
) -> Sent:
    """Send a work tree but for the pool's directories in `leave_out`; `max_size` is in bytes.

    Raise ConfigError for a tree that cannot be sent, Interrupted after `stop`, and what the store raises.
    """
    tell(ProgressReport(WorkPhase.SYNC, f"reading the files of {tree.root}"))
    try:
        with _Packing(tree, cache, leave_out, max_size, stop or asyncio.Event()) as packing:
            await asyncio.to_thread(packing.read)
            for last in range(1 - ATTEMPTS, 1):
                packed = await asyncio.to_thread(packing.pack, await _missing(store, packing.blocks))
                tell(ProgressReport(WorkPhase.SYNC, packed.text(packing), packed.files, packing.files))
                for pack in packed.packs:
                    await store.add_pack(pack)
                try:
                    source = await store.add_manifest(packing.manifest)
                except Refused:  # the store has removed blocks since it was asked about them
                    if not last:
                        raise
                    continue
                packing.hashes.save()
                return Sent(source, packing.files, packing.size, packed.files, packed.size)
            raise AssertionError("the last attempt returns or raises")
    except OSError as exc:
        text = f"{exc.filename or cache}: the files of {tree.root} cannot be packed ({exc.strerror})"
        raise Unavailable(text, remedy="Free space there, then try again.") from exc


async def _missing(store: SourceStore, blocks: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for begin in range(0, len(blocks), ASKED_AT_ONCE):
        found |= await store.missing(blocks[begin : begin + ASKED_AT_ONCE])
    return found


@dataclass(frozen=True, slots=True)
class _Packed:
    """What the store lacked: packs, and how many files and bytes they are for."""

    packs: list[Path]
    files: int
    size: int

    def text(self, packing: "_Packing") -> str:
        if not self.size:
            files = "1 file" if packing.files == 1 else f"{packing.files} files"
            return f"sending nothing: {files}, {shown_size(packing.size)}, already stored"
        files = "1 changed file" if self.files == 1 else f"{self.files} changed files"
        return f"sending {files}, {shown_size(self.size)} of {shown_size(packing.size)}"


class _Packing:
    """One attempt to send one tree. `read` and `pack` run on a thread: the loop goes on beside them."""

    def __init__(
        self, tree: WorkTree, cache: Path, leave_out: Sequence[Path], max_size: int, stop: asyncio.Event
    ) -> None:
        self._tree, self._leave_out, self._max_size, self._stop = tree, leave_out, max_size, stop
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = Path(tempfile.mkdtemp(prefix="packing-", dir=cache))
        self.hashes = HashCache(cache, tree.root)
        self._listing = Listing()
        self._content: dict[str, list[tuple[str, int]]] = {}  # path → blocks
        self._packs: list[PackWriter] = []
        self._packed: dict[str, PackWriter] = {}  # block → the pack that has it
        self.size = 0
        self.blocks: list[str] = []
        self.manifest = b""

    def __enter__(self) -> "_Packing":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._packs:
            writer.discard()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def files(self) -> int:
        return len(self._content)

    def read(self) -> None:
        self._listing = list_files(self._tree, self._leave_out)
        check(self._tree, self._listing, self._max_size)
        for path in sorted(self._listing.files):
            known = self.hashes.get(path, self._listing.files[path])
            self._content[path] = self._read(path) if known is None else known
        self._close_packs()
        entries, numbers = [], dict[str, int]()
        lengths: list[int] = []
        for path, blocks in self._content.items():
            for digest, length in blocks:
                if numbers.setdefault(digest, len(numbers)) == len(lengths):
                    lengths.append(length)
                self.size += length
            executable = bool(self._listing.files[path].st_mode & 0o100)
            entries.append(FileEntry(path, executable, tuple(numbers[digest] for digest, _ in blocks)))
        self.blocks = list(numbers)
        found = self._listing
        full = {path.rpartition("/")[0] for path in (*found.files, *found.links, *found.directories)}
        self.manifest = manifests.encode(
            Manifest(
                tuple(entries),
                tuple(sorted(found.links.items())),
                tuple(sorted(found.directories - full)),
                tuple(zip(numbers, lengths, strict=True)),
                self._tree.start,
            )
        )

    def pack(self, missing: set[str]) -> _Packed:
        """Packs of the missing blocks, and of no others."""
        lacking = [path for path, blocks in self._content.items() if any(one in missing for one, _ in blocks)]
        for path in lacking:
            # One that is in no pack was read by an earlier run, and the store has lost it since.
            is_unread = any(one in missing and one not in self._packed for one, _ in self._content[path])
            if is_unread and self._read(path) != self._content[path]:
                raise _changing(self._tree, path)
        self._close_packs()
        needed: dict[PackWriter, set[str]] = {}
        for digest in self.blocks:
            if digest in missing:
                needed.setdefault(self._packed[digest], set()).add(digest)
        packs = [self._only(pack, blocks) for pack, blocks in needed.items()]
        size = sum(pack.has[digest] for pack, blocks in needed.items() for digest in blocks)
        return _Packed(packs, len(lacking), size)

    def _only(self, pack: PackWriter, wanted: set[str]) -> Path:
        """A copy of the pack with these blocks only; the first attempt's packs may have been taken by the store."""
        writer = PackWriter(self._directory / f"{len(os.listdir(self._directory))}.sent")
        if wanted.issuperset(pack.has):
            writer.discard()
            try:
                os.link(pack.path, writer.path)
            except OSError:  # a file system without them
                shutil.copyfile(pack.path, writer.path)
            return writer.path
        with pack.path.open("rb") as file:
            for digest, offset, length in index_of(pack.path).entries:
                if digest in wanted:
                    file.seek(offset)
                    writer.add(digest, file.read(length))
        writer.finish()
        return writer.path

    def _read(self, path: str) -> list[tuple[str, int]]:
        """The blocks of a file, into a pack as well. Raise ConfigError if it changes meanwhile, or cannot be read."""
        if self._stop.is_set():
            raise Interrupted("interrupted while the files were packed", remedy="Nothing was acquired.")
        for _ in range(ATTEMPTS):
            try:
                fd = os.open(
                    os.path.join(os.fsencode(self._tree.root), path.encode("utf-8", "surrogateescape")),
                    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                )
            except OSError as exc:
                raise unreadable(self._tree, path, exc) from exc
            try:
                before, at, blocks = os.fstat(fd), time.time_ns(), []
                size = 0
                # No further than its size: a file that grows may do so for ever.
                while size < before.st_size and (content := _block(fd, before.st_size - size)):
                    digest = sha256(content).hexdigest()
                    blocks.append((digest, len(content)))
                    size += len(content)
                    self._put(digest, content)
                has_more = bool(os.read(fd, 1))  # it grows, or is of a file system that does not know its size
                after = os.fstat(fd)
            except OSError as exc:
                raise unreadable(self._tree, path, exc) from exc
            finally:
                os.close(fd)
            if stamp_of(before) == stamp_of(after) and size == before.st_size and not has_more:
                self._listing.files[path] = before
                self.hashes.put(path, before, blocks, at)
                return blocks
        raise _changing(self._tree, path)

    def _put(self, digest: str, content: bytes) -> None:
        if digest in self._packed:
            return
        if not self._packs or self._packs[-1].size + len(content) > LARGEST_PACK:
            self._close_packs()
            self._packs.append(PackWriter(self._directory / f"{len(os.listdir(self._directory))}.read"))
        self._packs[-1].add(digest, content)
        self._packed[digest] = self._packs[-1]

    def _close_packs(self) -> None:
        for writer in self._packs:
            writer.finish()
        self._packs.clear()


def _block(fd: int, left: int) -> bytes:
    """The next block of a file that has `left` more bytes; a shorter one only where the file ends."""
    wanted = min(left, BLOCK)  # no more: Python would make room for a whole block each time
    content = os.read(fd, wanted)
    while 0 < len(content) < wanted and (more := os.read(fd, wanted - len(content))):
        content += more
    return content


def _changing(tree: WorkTree, path: str) -> ConfigError:
    text = f"{shown_path(tree.root, path)}: it changes while it is packed"
    remedy = f"Run it again when nothing writes to it, or leave it out: {way_to_leave_out(tree, path)}."
    return ConfigError(text, remedy=remedy)
