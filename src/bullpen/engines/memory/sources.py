"""Sources and artifacts in memory."""

import io
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path

from bullpen.engines.memory.faults import Faults, request
from bullpen.errors import NotFound, Refused, StoreFull
from bullpen.host.packs import BadPack, PackIndex, bundle_head, read_index, verify
from bullpen.host.stored_files import FULL_REMEDY, no_room
from bullpen.lazy_dataclass import dataclass
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BadManifest
from bullpen.ports import ARTIFACTS_LIMIT, KEPT_AT_LEAST, Clock

UNUSED_FOR = timedelta(days=7)


@dataclass(slots=True)
class StoredSources:
    """`blocks` are the packs, each a dictionary of its content; `used` says when a pack or a manifest was used last."""

    packs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    used: dict[str, datetime] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)
    artifacts: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def block(self, digest: str) -> tuple[str, bytes] | None:
        return next(((name, pack[digest]) for name, pack in self.packs.items() if digest in pack), None)

    def receive(self, name: str, offset: int, size: int, content: bytes, room: int | None) -> bytes:
        there = self.parts.get(name, b"")
        if offset + len(content) > size:
            raise Refused(f"{name}: {offset + len(content)} bytes, and it should have {size}")
        if len(there) < offset:
            raise Refused(f"{name}: it has {len(there)} bytes, none at {offset} yet")
        self.check(size - len(there), room)
        self.parts[name] = there + content[len(there) - offset :]
        return self.parts[name]

    def check(self, more: int, room: int | None) -> None:
        if room is not None and more > 0 and (taken := self.taken()) + more > room:
            raise StoreFull(no_room(more, taken, room), remedy=FULL_REMEDY, needed=more)

    def taken(self) -> int:
        whole = [*self.manifests.values(), *self.parts.values(), *self.artifacts.values()]
        return sum(map(_size, self.packs.values())) + sum(map(len, whole))


class MemorySources:
    def __init__(self, stored: StoredSources, clock: Clock, faults: Faults) -> None:
        self._stored = stored
        self._clock = clock
        self._faults = faults

    @request("sources.missing")
    def missing(self, blocks: Sequence[str]) -> set[str]:
        absent = set()
        for digest in blocks:
            if (found := self._stored.block(digest)) is None:
                absent.add(digest)
            else:
                self._stored.used[found[0]] = self._clock.now()
        return absent

    @request("sources.add_pack")
    def add_pack(self, pack: Path, *, room: int | None = None) -> None:
        content = pack.read_bytes()
        try:
            index = read_index(io.BytesIO(content))
            if index.id not in self._stored.packs:
                self._stored.check(len(content), room)
            self._store_pack(index, content)
        except BadPack as exc:
            raise Refused(str(exc)) from exc
        pack.unlink()

    def _store_pack(self, index: PackIndex, content: bytes) -> None:
        self._stored.packs[index.id] = {
            digest: content[offset : offset + length] for digest, offset, length in index.entries
        }
        self._stored.used[index.id] = self._clock.now()

    @request("sources.receive_pack")
    def receive_pack(self, pack_id: str, offset: int, size: int, content: bytes, *, room: int | None = None) -> int:
        _check_id(pack_id)
        if pack_id in self._stored.packs:
            return size
        whole = self._stored.receive(f"pack-{pack_id}", offset, size, content, room)
        if len(whole) == size:
            del self._stored.parts[f"pack-{pack_id}"]
            try:
                self._store_pack(verify(io.BytesIO(whole), pack_id), whole)
            except BadPack as exc:
                raise Refused(str(exc)) from exc
        return len(whole)

    @request("sources.add_manifest")
    def add_manifest(self, content: bytes) -> str:
        return self._add_manifest(content)

    def _add_manifest(self, content: bytes) -> str:
        try:
            manifest = manifests.decode(content)
        except BadManifest as exc:
            raise Refused(f"not a manifest: {exc}") from exc
        for digest, length in manifest.blocks:
            found = self._stored.block(digest)
            if found is None or len(found[1]) != length:
                raise Refused(f"the manifest names blocks that are not stored, one is {digest}")
        source = manifests.source_id(content)
        self._stored.manifests[source] = content
        self._stored.used[source] = self._clock.now()
        return source

    @request("sources.receive_manifest")
    def receive_manifest(self, source: str, offset: int, size: int, content: bytes, *, room: int | None = None) -> int:
        _check_id(source)
        whole = self._stored.receive(f"manifest-{source}", offset, size, content, room)
        if len(whole) == size:
            del self._stored.parts[f"manifest-{source}"]
            if manifests.source_id(whole) != source:
                raise Refused(f"it is not manifest {source}")
            self._add_manifest(whole)
        return len(whole)

    @request("sources.keep")
    def keep(self, source: str) -> None:
        self._find(source)
        self._stored.used[source] = self._clock.now()

    @request("sources.bundle")
    def bundle(self, source: str) -> tuple[int, AsyncIterator[bytes]]:
        encoded = self._find(source)
        found = [self._stored.block(digest) for digest, _ in manifests.decode(encoded).blocks]
        pieces = [bundle_head(encoded), *(one[1] for one in found if one is not None)]
        return sum(map(len, pieces)), _streamed(pieces)

    @request("sources.tidy")
    def tidy(self, now: datetime, needed: Collection[str], room: int) -> int:
        stored, recent = self._stored, now - timedelta(seconds=KEPT_AT_LEAST)
        before = sum(map(_size, stored.packs.values()))
        for source in sorted(stored.manifests, key=stored.used.__getitem__):
            if source in needed or stored.used[source] > recent:
                continue
            held = sum(_size(stored.packs[pack]) for pack in self._needed_packs())
            if stored.used[source] < now - UNUSED_FOR or held > room:
                del stored.manifests[source]
        kept = self._needed_packs()
        for pack in [pack for pack in stored.packs if pack not in kept and stored.used[pack] < recent]:
            del stored.packs[pack]
        return before - sum(map(_size, stored.packs.values()))

    def _needed_packs(self) -> set[str]:
        blocks = {digest for one in self._stored.manifests.values() for digest, _ in manifests.decode(one).blocks}
        return {name for name, pack in self._stored.packs.items() if not blocks.isdisjoint(pack)}

    def _find(self, source: str) -> bytes:
        _check_id(source)
        if source not in self._stored.manifests:
            raise NotFound(f"source {source[:12]}: its files are not stored", remedy="Send them again.")
        return self._stored.manifests[source]


class MemoryArtifacts:
    def __init__(self, stored: StoredSources, clock: Clock, faults: Faults) -> None:
        self._stored = stored
        self._clock = clock
        self._faults = faults

    @request("artifacts.append")
    def append(
        self, job_id: str, fence: int, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        if size > ARTIFACTS_LIMIT:
            raise Refused(f"artifacts of {size} bytes: at most {ARTIFACTS_LIMIT // 1024**2} MiB are allowed")
        if len(self._stored.artifacts.get((job_id, fence), b"")) == size:
            return size
        name = _name(job_id, fence)
        whole = self._stored.receive(name, offset, size, content, room)
        self._stored.used[name] = self._clock.now()
        if len(whole) == size:
            self._stored.artifacts[job_id, fence] = self._stored.parts.pop(name)
        return len(whole)

    @request("artifacts.read")
    def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        return self._stored.artifacts.get((job_id, fence), b"")[offset : offset + limit]

    @request("artifacts.size")
    def size(self) -> int:
        return self._size()

    @request("artifacts.tidy")
    def tidy(self, now: datetime, room: int) -> int:
        stored, before, recent = self._stored, self._size(), now - timedelta(seconds=KEPT_AT_LEAST)
        for name in [name for name in self._parts() if stored.used[name] < recent]:
            del stored.parts[name]
        used = {key: stored.used.get(_name(*key), now) for key in stored.artifacts}
        for key in sorted(stored.artifacts, key=used.__getitem__):
            if self._size() > room and used[key] < recent:
                del stored.artifacts[key]
        return before - self._size()

    def _size(self) -> int:
        parts = [self._stored.parts[name] for name in self._parts()]
        return sum(map(len, [*self._stored.artifacts.values(), *parts]))

    def _parts(self) -> list[str]:
        return [name for name in self._stored.parts if name.startswith("artifacts-")]


def _name(job_id: str, fence: int) -> str:
    return f"artifacts-{job_id}.{fence}"


async def _streamed(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _size(pack: dict[str, bytes]) -> int:
    return sum(map(len, pack.values()))


def _check_id(text: str) -> None:
    if not manifests.is_hash(text):
        raise Refused(f"{text[:80]!r}: not a SHA-256 in 64 hexadecimal digits")
