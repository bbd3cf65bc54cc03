"""Packs of blocks: which blocks there are, and where; packs that are added, arrive in pieces, or are joined."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bullpen.engines.sqlite.pieces import receive
from bullpen.engines.sqlite.room import StoreRoom
from bullpen.engines.sqlite.sources.folder import SourceFolder, make
from bullpen.errors import Refused
from bullpen.host.packs import LARGEST_PACK, OVERHEAD, BadPack, PackWriter, index_of, verify
from bullpen.model.manifest import Manifest, is_hash

PIECE = 1024 * 1024

Place = tuple[str, int, int]
"""Pack, offset and length of a block."""


class Packs:
    def __init__(self, folder: SourceFolder, store: StoreRoom) -> None:
        self._folder = folder
        self._store = store
        self._known: dict[str, dict[str, Place]] = {}  # what the packs that were there last have

    def missing(self, blocks: Sequence[str]) -> set[str]:
        known, absent, asked = self.index(), set(), set()
        for block in blocks:
            place = known.get(block)
            if place is None:
                absent.add(block)
            else:
                asked.add(place[0])
        for pack in asked:
            with suppress(FileNotFoundError):
                os.utime(self._folder.packs / pack)
        return absent

    def index(self) -> dict[str, Place]:
        """Where every block is. Only packs that are new since the last time are read."""
        try:
            there = sorted(name for name in os.listdir(self._folder.packs) if is_hash(name))
        except FileNotFoundError:
            there = []
        packs = {}
        for name in there:
            found = self._known.get(name)
            if found is None:
                try:
                    index = index_of(self._folder.packs / name)
                except (BadPack, FileNotFoundError):
                    continue  # damaged by a crash, or removed just now: its blocks are missing
                if index.id != name:
                    continue
                found = {digest: (name, offset, length) for digest, offset, length in index.entries}
            packs[name] = found
        self._known = packs
        return {digest: place for found in packs.values() for digest, place in found.items()}

    def add(self, pack: Path, room: int | None) -> None:
        try:
            pack_id = index_of(pack).id
        except BadPack as exc:
            raise Refused(str(exc)) from exc
        make(self._folder.packs)
        final, size = self._folder.packs / pack_id, pack.stat().st_size
        is_new = not final.exists()
        if is_new:
            self._store.check(size, room)
        os.replace(pack, final)
        os.utime(final)
        if is_new:
            self._store.add(size)

    def receive(self, pack_id: str, offset: int, size: int, content: bytes, room: int | None) -> int:
        final = self._folder.packs / pack_id
        if pack_id in self._known and final.exists():
            return size
        if size > LARGEST_PACK + OVERHEAD:
            raise Refused(f"a pack of {size} bytes: at most {LARGEST_PACK + OVERHEAD} are allowed")
        make(self._folder.incoming)
        part = self._folder.incoming / f"pack-{pack_id}"
        length = receive(part, offset, size, content, self._store, room)
        if length == size:
            try:
                with open(part, "rb") as file:
                    verify(file, pack_id)
            except BadPack as exc:
                part.unlink(missing_ok=True)
                raise Refused(f"{exc}; nothing of it was kept", remedy="Send it again.") from exc
            except FileNotFoundError:
                return length  # another request has just completed it
            make(self._folder.packs)
            with suppress(FileNotFoundError):
                os.replace(part, final)
        return length

    def join(self, manifest: Manifest, places: Sequence[Place]) -> list[Place]:
        """Copy the blocks of a manifest into packs of their own: the old ones go when no other manifest needs them."""
        make(self._folder.incoming)
        make(self._folder.packs)
        written: dict[str, Place] = {}
        at = 0
        while at < len(places):
            writer = PackWriter(self._folder.incoming / f"compact-{os.getpid()}")
            while at < len(places) and (not writer.size or writer.size + places[at][2] <= LARGEST_PACK):
                pack, offset, length = places[at]
                with open(self._folder.packs / pack, "rb") as file:
                    file.seek(offset)
                    writer.add(manifest.blocks[at][0], file.read(length))
                at += 1
            pack_id = writer.finish()
            os.replace(writer.path, self._folder.packs / pack_id)
            index = index_of(self._folder.packs / pack_id)
            written |= {digest: (pack_id, offset, length) for digest, offset, length in index.entries}
        return [written[digest] for digest, _ in manifest.blocks]


def joined(places: Sequence[Place]) -> Iterator[Place]:
    """The same bytes in the same order, in fewer pieces of at most `PIECE`."""
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
