"""Manifests, each with the places of its blocks. One that is there is whole, and so is every block that it names."""

import json
import os
from collections.abc import Sequence

from bullpen.engines.sqlite.pieces import receive
from bullpen.engines.sqlite.room import StoreRoom
from bullpen.engines.sqlite.sources.folder import SourceFolder, check_id, make
from bullpen.engines.sqlite.sources.packs import Packs, Place
from bullpen.errors import NotFound, Refused
from bullpen.host.packs import LARGEST_PACK
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BadManifest, Manifest

MOST_PACKS = 32  # that one manifest may need: each run that changed something adds one


class Manifests:
    def __init__(self, folder: SourceFolder, packs: Packs, store: StoreRoom) -> None:
        self._folder = folder
        self._packs = packs
        self._store = store

    def add(self, content: bytes) -> str:
        try:
            manifest = manifests.decode(content)
        except BadManifest as exc:
            raise Refused(f"not a manifest: {exc}") from exc
        source = manifests.source_id(content)
        make(self._folder.manifests)
        with self._folder.locked():
            places = self._locate(manifest)
            if len({pack for pack, _, _ in places}) > MOST_PACKS or self._is_scattered(manifest, places):
                places = self._packs.join(manifest, places)
            packs = sorted({pack for pack, _, _ in places})
            number = {pack: index for index, pack in enumerate(packs)}
            where = {"packs": packs, "where": [[number[pack], offset] for pack, offset, _ in places]}
            self._write(f"{source}.where", json.dumps(where, separators=(",", ":")).encode())
            self._write(f"{source}.json", content)  # last: a manifest that is there is whole
        return source

    def receive(self, source: str, offset: int, size: int, content: bytes, room: int | None) -> int:
        if size > manifests.LARGEST:
            raise Refused(f"a manifest of {size} bytes: at most {manifests.LARGEST} are allowed")
        make(self._folder.incoming)
        part = self._folder.incoming / f"manifest-{source}"
        length = receive(part, offset, size, content, self._store, room)
        if length == size:
            try:
                whole = part.read_bytes()
            except FileNotFoundError:
                return length  # another request has just completed it
            try:
                if manifests.source_id(whole) != source:
                    raise Refused(f"it is not manifest {source}; nothing of it was kept", remedy="Send it again.")
                self.add(whole)
            finally:
                part.unlink(missing_ok=True)
        return length

    def keep(self, source: str) -> None:
        check_id(source)
        try:
            with self._folder.locked():  # an upkeep that is about to remove it is through with that, or sees this
                os.utime(self._folder.manifests / f"{source}.json")
        except FileNotFoundError:
            raise unknown(source) from None

    def places(self, source: str) -> tuple[bytes, list[Place]]:
        """The manifest, and the places of its blocks."""
        check_id(source)
        try:
            encoded = (self._folder.manifests / f"{source}.json").read_bytes()
            where = json.loads((self._folder.manifests / f"{source}.where").read_bytes())
        except FileNotFoundError:
            raise unknown(source) from None
        manifest = manifests.decode(encoded)
        return encoded, [
            (where["packs"][pack], offset, length)
            for (pack, offset), (_, length) in zip(where["where"], manifest.blocks, strict=True)
        ]

    def _locate(self, manifest: Manifest) -> list[Place]:
        known = self._packs.index()
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
        held = sum(os.stat(self._folder.packs / pack).st_size for pack in {place[0] for place in places})
        return held > 2 * sum(length for _, length in manifest.blocks) + LARGEST_PACK

    def _write(self, name: str, content: bytes) -> None:
        part = self._folder.manifests / f".{name}-{os.getpid()}"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        os.replace(part, self._folder.manifests / name)


def unknown(source: str) -> NotFound:
    return NotFound(f"source {source[:12]}: its files are not stored", remedy="Send them again.")
