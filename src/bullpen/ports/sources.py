"""The files that jobs work on, and the files that they leave behind."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from bullpen.errors import ConfigError

KEPT_AT_LEAST = 3600.0
"""Seconds that a pack or a manifest stays after it was stored or asked about, even if no job needs it: a client that
was told about a block names it in a manifest by then, and a run that stored a manifest has its runners."""
ARTIFACTS_LIMIT = 256 * 1024 * 1024 + 8 * 1024 * 1024
"""Bytes of one bundle of artifacts: what an agent collects at most, and its manifest."""


class Sources(Protocol):
    """Manifests and the blocks that they name, see `model.manifest`. What is there never changes."""

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        """Which of these blocks the store lacks. It keeps the others for at least `KEPT_AT_LEAST`."""

    async def add_pack(self, pack: Path, *, room: int | None = None) -> None:
        """Take a whole pack from a file of this machine, whose blocks are what the index says. The file is gone
        afterwards. One that is there already is success; a file that is no pack is Refused, and so is one that the
        store has no `room` for, see `receive_pack`: that file stays."""

    async def receive_pack(
        self, pack_id: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        """Take a piece of a pack of `size` bytes from elsewhere, and return how much is there.

        What is there already is left alone, a gap is Refused. The last piece makes it a pack, or is Refused if any
        block is not what its hash says; then nothing of it stays. So is a pack with which all sources and artifacts,
        with what is still arriving, would take more than about `room` bytes.
        """

    async def add_manifest(self, content: bytes) -> str:
        """Store a manifest and return its id. Refused if it is not one, or names a block that the store lacks."""

    async def receive_manifest(
        self, source: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        """As `receive_pack`; the last piece makes it a manifest, or is Refused as `add_manifest` refuses it."""

    async def keep(self, source: str) -> None:
        """Keep a manifest, with the blocks that it names, for `KEPT_AT_LEAST` from now. Raise NotFound."""

    async def bundle(self, source: str) -> tuple[int, AsyncIterator[bytes]]:
        """The manifest with all its blocks, see `host.packs`: how many bytes, and the bytes. Raise NotFound."""

    async def tidy(self, now: datetime, needed: Collection[str], room: int) -> int:
        """Remove what crashed clients left; manifests that were not used for a week; and the longest unused ones while
        packs take more than `room` bytes. Then the packs that no manifest needs. Returns how many bytes that freed.

        A manifest that is `needed`, or was stored or kept within `KEPT_AT_LEAST`, stays with all its blocks.
        """


class Artifacts(Protocol):
    """What jobs leave behind: one bundle for each assignment (job and fence). It goes when its job is purged."""

    async def append(
        self, job_id: str, fence: int, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        """Write a piece of a bundle of `size` bytes, and return how much is there. A gap, and a size beyond
        `ARTIFACTS_LIMIT`, is Refused, and so is a bundle for which there is no `room`, see `Sources.receive_pack`. The
        last piece makes it readable."""

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        """Empty at the end, and where there is no whole bundle."""

    async def size(self) -> int:
        """Bytes of all bundles, also of those that are still arriving."""

    async def tidy(self, now: datetime, room: int) -> int:
        """Remove what crashed agents left, and the oldest bundles while all take more than `room` bytes. What was
        written within `KEPT_AT_LEAST` stays. Returns how many bytes that freed."""


class NoSources:
    """A pool without a store for files."""

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        raise no_store()

    async def add_pack(self, pack: Path, *, room: int | None = None) -> None:
        raise no_store()

    async def receive_pack(
        self, pack_id: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        raise no_store()

    async def add_manifest(self, content: bytes) -> str:
        raise no_store()

    async def receive_manifest(
        self, source: str, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        raise no_store()

    async def keep(self, source: str) -> None:
        raise no_store()

    async def bundle(self, source: str) -> tuple[int, AsyncIterator[bytes]]:
        raise no_store()

    async def tidy(self, now: datetime, needed: Collection[str], room: int) -> int:
        return 0


class NoArtifacts:
    """A pool without a store for files."""

    async def append(
        self, job_id: str, fence: int, offset: int, size: int, content: bytes, *, room: int | None = None
    ) -> int:
        raise no_store()

    async def read(self, job_id: str, fence: int, offset: int, limit: int) -> bytes:
        raise no_store()

    async def size(self) -> int:
        return 0

    async def tidy(self, now: datetime, room: int) -> int:
        return 0


def no_store() -> ConfigError:
    return ConfigError(
        'engines.pool is "aws": this pool has no store for the files of a project',
        remedy="Use --no-sync, and let the command fetch what it needs.",
        field="engines.pool",
    )
