"""Sources as files of a home: packs, and manifests with the places of their blocks.

    <home>/sources/packs/<pack id>
    <home>/sources/manifests/<source id>.json     the manifest, byte for byte
    <home>/sources/manifests/<source id>.where    in which pack, and where in it, each of its blocks is
    <home>/sources/incoming/…                     what is not whole yet
    <home>/sources/clients/…                      what clients on this machine remember, see `bullpen.sources`

Every file appears whole, by a rename. The agents on this machine read manifests and packs themselves. `lock` makes
storing a manifest and removing packs exclude each other: a manifest never names a pack that is being removed.
There is no fsync: content is named by its hash, and one that a crash of the machine damaged is found and sent again.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from bullpen.engines.sqlite.pieces import receive
from bullpen.errors import BullpenError, NotFound, Refused, Unavailable
from bullpen.host.packs import LARGEST_PACK, OVERHEAD, BadPack, PackWriter, bundle_head, index_of, verify
from bullpen.host.sweep import remove_tree
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BadManifest, Manifest, is_hash
from bullpen.ports import KEPT_AT_LEAST

FOLDER = "sources"
UNUSED_FOR = 7 * 24 * 3600.0  # seconds after which a manifest goes
CLIENT_UNUSED_FOR = 30 * 24 * 3600.0  # seconds after which a client's memory of a work tree goes
MOST_PACKS = 32  # that one manifest may need: each run that changed something adds one
PIECE = 1024 * 1024

P = ParamSpec("P")
T = TypeVar("T")
Place = tuple[str, int, int]
"""Pack, offset and length of a block."""


class FileSources:
    """`ports.Sources` in one home."""

    def __init__(self, home: Path) -> None:
        self._top = home / FOLDER
        self._packs: dict[str, dict[str, Place]] = {}  # what the packs that were there last have

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        return await self._in_thread(self._missing, blocks)

    async def add_pack(self, pack: Path) -> None:
        await self._in_thread(self._add_pack, pack)

    async def receive_pack(self, pack_id: str, offset: int, size: int, content: bytes) -> int:
        _check_id(pack_id)
        return await self._in_thread(self._receive_pack, pack_id, offset, size, content)

    async def add_manifest(self, content: bytes) -> str:
        return await self._in_thread(self._add_manifest, content)

    async def receive_manifest(self, source: str, offset: int, size: int, content: bytes) -> int:
        _check_id(source)
        return await self._in_thread(self._receive_manifest, source, offset, size, content)

    async def keep(self, source: str) -> None:
        await self._in_thread(self._keep, source)

    async def bundle(self, source: str) -> tuple[int, AsyncIterator[bytes]]:
        encoded, places = await self._in_thread(self._places, source)
        head = bundle_head(encoded)
        return len(head) + sum(length for _, _, length in places), self._bytes(head, places)

    async def tidy(self, now: datetime, needed: Collection[str], room: int) -> int:
        return await self._in_thread(self._tidy, now.timestamp(), frozenset(needed), room)

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(work, *arguments, **named)
        except BullpenError:
            raise
        except OSError as exc:
            raise Unavailable(f"{exc.filename or self._top}: {exc.strerror}") from exc

    # ---- blocks

    def _missing(self, blocks: Sequence[str]) -> set[str]:
        known, absent, asked = self._index(), set(), set()
        for block in blocks:
            place = known.get(block)
            if place is None:
                absent.add(block)
            else:
                asked.add(place[0])
        for pack in asked:
            with suppress(FileNotFoundError):
                os.utime(self._top / "packs" / pack)
        return absent

    def _index(self) -> dict[str, Place]:
        """Where every block is. Only packs that are new since the last time are read."""
        try:
            there = sorted(name for name in os.listdir(self._top / "packs") if is_hash(name))
        except FileNotFoundError:
            there = []
        packs = {}
        for name in there:
            found = self._packs.get(name)
            if found is None:
                try:
                    index = index_of(self._top / "packs" / name)
                except (BadPack, FileNotFoundError):
                    continue  # damaged by a crash, or removed just now: its blocks are missing
                if index.id != name:
                    continue
                found = {digest: (name, offset, length) for digest, offset, length in index.entries}
            packs[name] = found
        self._packs = packs
        return {digest: place for found in packs.values() for digest, place in found.items()}

    def _add_pack(self, pack: Path) -> None:
        try:
            pack_id = index_of(pack).id
        except BadPack as exc:
            raise Refused(str(exc)) from exc
        self._make("packs")
        os.replace(pack, self._top / "packs" / pack_id)
        os.utime(self._top / "packs" / pack_id)

    def _receive_pack(self, pack_id: str, offset: int, size: int, content: bytes) -> int:
        final = self._top / "packs" / pack_id
        if pack_id in self._packs and final.exists():
            return size
        if size > LARGEST_PACK + OVERHEAD:
            raise Refused(f"a pack of {size} bytes: at most {LARGEST_PACK + OVERHEAD} are allowed")
        self._make("incoming")
        part = self._top / "incoming" / f"pack-{pack_id}"
        length = receive(part, offset, size, content)
        if length == size:
            try:
                with open(part, "rb") as file:
                    verify(file, pack_id)
            except BadPack as exc:
                part.unlink(missing_ok=True)
                raise Refused(f"{exc}; nothing of it was kept", remedy="Send it again.") from exc
            except FileNotFoundError:
                return length  # another request has just completed it
            self._make("packs")
            with suppress(FileNotFoundError):
                os.replace(part, final)
        return length

    # ---- manifests

    def _add_manifest(self, content: bytes) -> str:
        try:
            manifest = manifests.decode(content)
        except BadManifest as exc:
            raise Refused(f"not a manifest: {exc}") from exc
        source = manifests.source_id(content)
        self._make("manifests")
        with self._locked():
            places = self._locate(manifest)
            if len({pack for pack, _, _ in places}) > MOST_PACKS or self._is_scattered(manifest, places):
                places = self._compact(manifest, places)
            packs = sorted({pack for pack, _, _ in places})
            number = {pack: index for index, pack in enumerate(packs)}
            where = {"packs": packs, "where": [[number[pack], offset] for pack, offset, _ in places]}
            self._write(f"{source}.where", json.dumps(where, separators=(",", ":")).encode())
            self._write(f"{source}.json", content)  # last: a manifest that is there is whole
        return source

    def _receive_manifest(self, source: str, offset: int, size: int, content: bytes) -> int:
        if size > manifests.LARGEST:
            raise Refused(f"a manifest of {size} bytes: at most {manifests.LARGEST} are allowed")
        self._make("incoming")
        part = self._top / "incoming" / f"manifest-{source}"
        length = receive(part, offset, size, content)
        if length == size:
            try:
                whole = part.read_bytes()
            except FileNotFoundError:
                return length  # another request has just completed it
            try:
                if manifests.source_id(whole) != source:
                    raise Refused(f"it is not manifest {source}; nothing of it was kept", remedy="Send it again.")
                self._add_manifest(whole)
            finally:
                part.unlink(missing_ok=True)
        return length

    def _locate(self, manifest: Manifest) -> list[Place]:
        known = self._index()
        places = [known.get(digest) for digest, _ in manifest.blocks]
        lacking = [
            digest
            for (digest, length), place in zip(manifest.blocks, places, strict=True)
            if place is None or place[2] != length
        ]
        if lacking:
            raise Refused(
                f"the manifest names {len(lacking)} blocks that are not stored, the first is {lacking[0]}",
                remedy="Ask which blocks are missing, and send them.",
            )
        return [place for place in places if place is not None]

    def _is_scattered(self, manifest: Manifest, places: Sequence[Place]) -> bool:
        """Whether most of the packs that it needs is content that it does not need."""
        held = sum(os.stat(self._top / "packs" / pack).st_size for pack in {place[0] for place in places})
        return held > 2 * sum(length for _, length in manifest.blocks) + LARGEST_PACK

    def _compact(self, manifest: Manifest, places: Sequence[Place]) -> list[Place]:
        """Copy the blocks into packs of their own: the old ones go when no other manifest needs them."""
        self._make("incoming")
        self._make("packs")
        written: dict[str, dict[str, Place]] = {}
        at = 0
        while at < len(places):
            writer = PackWriter(self._top / "incoming" / f"compact-{os.getpid()}")
            while at < len(places) and (not writer.size or writer.size + places[at][2] <= LARGEST_PACK):
                pack, offset, length = places[at]
                with open(self._top / "packs" / pack, "rb") as file:
                    file.seek(offset)
                    writer.add(manifest.blocks[at][0], file.read(length))
                at += 1
            pack_id = writer.finish()
            os.replace(writer.path, self._top / "packs" / pack_id)
            index = index_of(self._top / "packs" / pack_id)
            written[pack_id] = {digest: (pack_id, offset, length) for digest, offset, length in index.entries}
        every = {digest: place for some in written.values() for digest, place in some.items()}
        return [every[digest] for digest, _ in manifest.blocks]

    def _keep(self, source: str) -> None:
        _check_id(source)
        try:
            with self._locked():  # an upkeep that is about to remove it is through with that, or sees this
                os.utime(self._top / "manifests" / f"{source}.json")
        except FileNotFoundError:
            raise unknown(source) from None

    def _places(self, source: str) -> tuple[bytes, list[Place]]:
        _check_id(source)
        try:
            encoded = (self._top / "manifests" / f"{source}.json").read_bytes()
            where = json.loads((self._top / "manifests" / f"{source}.where").read_bytes())
        except FileNotFoundError:
            raise unknown(source) from None
        manifest = manifests.decode(encoded)
        return encoded, [
            (where["packs"][pack], offset, length)
            for (pack, offset), (_, length) in zip(where["where"], manifest.blocks, strict=True)
        ]

    async def _bytes(self, head: bytes, places: Sequence[Place]) -> AsyncIterator[bytes]:
        """In pieces of some hundred kilobytes: what lies together is read together. Packs stay open meanwhile."""
        yield head
        opened: dict[str, int] = {}
        try:
            for pack, offset, length in _joined(places):
                if pack not in opened:
                    opened[pack] = await self._in_thread(os.open, self._top / "packs" / pack, os.O_RDONLY)
                yield await self._in_thread(os.pread, opened[pack], length, offset)
        finally:
            for fd in opened.values():
                os.close(fd)

    # ---- upkeep

    def _tidy(self, now: float, needed: frozenset[str], room: int) -> int:
        if not self._top.is_dir():
            return 0
        freed = 0
        for name, longest in (("incoming", KEPT_AT_LEAST), ("clients", CLIENT_UNUSED_FOR)):
            for path in _entries(self._top / name):
                limit = KEPT_AT_LEAST if path.name.startswith("packing-") else longest
                freed += _remove_older(path, now - limit)
        with self._locked():
            kept = self._tidy_manifests(now, needed, room)
            for path in _entries(self._top / "packs"):
                if path.name not in kept:
                    freed += _remove_older(path, now - KEPT_AT_LEAST)
        return freed

    def _tidy_manifests(self, now: float, needed: frozenset[str], room: int) -> set[str]:
        """Remove manifests that are old or too many. Returns the packs that the others need."""
        found: list[tuple[float, str, frozenset[str]]] = []
        for path in _entries(self._top / "manifests"):
            if path.suffix == ".json":
                with suppress(OSError, ValueError, KeyError):
                    packs = json.loads(path.with_suffix(".where").read_bytes())["packs"]
                    found.append((path.stat().st_mtime, path.stem, frozenset(packs)))
            elif not path.with_suffix(".json").exists():
                _remove_older(path, now - KEPT_AT_LEAST)
        found.sort()
        sizes = {path.name: path.stat().st_size for path in _entries(self._top / "packs")}
        kept = dict(enumerate(found))
        for number, (used, source, _) in enumerate(found):
            total = sum(sizes.get(pack, 0) for pack in {pack for _, _, packs in kept.values() for pack in packs})
            if source in needed or used > now - KEPT_AT_LEAST:
                continue
            if used < now - UNUSED_FOR or total > room:
                (self._top / "manifests" / f"{source}.json").unlink(missing_ok=True)
                (self._top / "manifests" / f"{source}.where").unlink(missing_ok=True)
                del kept[number]
        return {pack for _, _, packs in kept.values() for pack in packs}

    # ---- files

    def _make(self, name: str) -> None:
        (self._top / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _write(self, name: str, content: bytes) -> None:
        part = self._top / "manifests" / f".{name}-{os.getpid()}"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(part, self._top / "manifests" / name)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self._top / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def unknown(source: str) -> NotFound:
    return NotFound(f"source {source[:12]}: its files are not stored", remedy="Send them again.")


def _check_id(text: str) -> None:
    """What is not a hash might be a path."""
    if not is_hash(text):
        raise Refused(f"{text[:80]!r}: not a SHA-256 in 64 hexadecimal digits")


def _joined(places: Sequence[Place]) -> Iterator[Place]:
    """The same bytes in the same order, in fewer pieces."""
    pack, begin, length = "", 0, 0
    for place in places:
        if place[0] == pack and place[1] == begin + length and length + place[2] <= PIECE:
            length += place[2]
            continue
        if length:
            yield pack, begin, length
        pack, begin, length = place
    if length:
        yield pack, begin, length


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []


def _remove_older(path: Path, than: float) -> int:
    """Remove it if it was not used since; returns its size if it was a file."""
    with suppress(FileNotFoundError):
        status = path.lstat()
        if status.st_mtime < than:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
                return status.st_size
    return 0
