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
import os
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

from bullpen.engines.sqlite.room import StoreRoom
from bullpen.engines.sqlite.sources.folder import SourceFolder, check_id
from bullpen.engines.sqlite.sources.manifests import Manifests
from bullpen.engines.sqlite.sources.packs import Packs, Place, joined
from bullpen.engines.sqlite.sources.upkeep import tidy
from bullpen.errors import BullpenError, Unavailable
from bullpen.host.packs import bundle_head

P = ParamSpec("P")
T = TypeVar("T")


class FileSources:
    """`ports.Sources` in one home."""

    def __init__(self, home: Path, store: StoreRoom | None = None) -> None:
        self._folder = SourceFolder(home)
        self._store = store or StoreRoom(home)
        self._packs = Packs(self._folder, self._store)
        self._manifests = Manifests(self._folder, self._packs, self._store)

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        return await self._in_thread(self._packs.missing, blocks)

    async def add_pack(self, pack: Path, *, room: int | None = None) -> None:
        await self._in_thread(self._packs.add, pack, room)

    async def receive_pack(
        self, pack_id: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        check_id(pack_id)
        return await self._in_thread(self._packs.receive, pack_id, offset, size, content, room)

    async def add_manifest(self, content: bytes) -> str:
        return await self._in_thread(self._manifests.add, content)

    async def receive_manifest(
        self, source: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        check_id(source)
        return await self._in_thread(self._manifests.receive, source, offset, size, content, room)

    async def keep(self, source: str) -> None:
        await self._in_thread(self._manifests.keep, source)

    async def bundle(self, source: str) -> tuple[int, AsyncIterator[bytes]]:
        encoded, places = await self._in_thread(self._manifests.places, source)
        head = bundle_head(encoded)
        return len(head) + sum(length for _, _, length in places), self._bytes(head, places)

    async def tidy(self, now: datetime, needed: Collection[str], room: int) -> int:
        freed = await self._in_thread(tidy, self._folder, now.timestamp(), frozenset(needed), room)
        self._store.forget()
        return freed

    async def _bytes(self, head: bytes, places: Sequence[Place]) -> AsyncIterator[bytes]:
        """In pieces of some hundred kilobytes: what lies together is read together. Packs stay open meanwhile."""
        yield head
        opened: dict[str, int] = {}
        try:
            for pack, offset, length in joined(places):
                if pack not in opened:
                    opened[pack] = await self._in_thread(os.open, self._folder.packs / pack, os.O_RDONLY)
                yield await self._in_thread(os.pread, opened[pack], length, offset)
        finally:
            for fd in opened.values():
                os.close(fd)

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return await asyncio.to_thread(work, *arguments, **named)
        except BullpenError:
            raise
        except OSError as exc:
            raise Unavailable(f"{exc.filename or self._folder.top}: {exc.strerror}") from exc
